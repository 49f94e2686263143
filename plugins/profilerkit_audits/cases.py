"""The cases of a plan: each model with each point of its matrix, with the key of the measurement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from profilerkit.errors import FailureCode, PlanError, nearest
from profilerkit.hooks import offers
from profilerkit.hooks.any_backend import list_default_metrics, names_of_functions, register_for_any_backend
from profilerkit.hooks.backends import backends
from profilerkit.hooks.infos import BackendInfo
from profilerkit.isolation.limits import Limits
from profilerkit.job import Job
from profilerkit.models.opening import list_placing_arguments
from profilerkit.models.python_loaders import is_in_file, is_in_module
from profilerkit.piping.function import Need
from profilerkit_budgets.limits import Budget

from .listing import find_specs
from .modules import find_measuring_packages, find_versions
from .plan import ModelEntry, Plan, errors_at
from .plan_values import read_shape
from .source_code import SourceCode, read_code


@dataclass(frozen=True)
class Case:
    """One model with one setting, which an engine runs in a separate process.

    Args:
        spec: The text for a model loader, relative to ``folder``.
        folder: The folder that the process runs in.
        settings: The point of the matrix, as JSON holds it.
        entry: The entry of the plan that has the model.
        metrics: The metrics to compute, with the metrics of the plan's budgets; None for every metric.
        problem: Why the case cannot be run, such as a library that is not installed; empty if it can.
        failure: The code of the problem.
        is_timed: Whether the model is run to measure it, so that the machine matters.
        code: The model's own code.
        data: The texts by which data and evaluation functions are loaded, each with the digest of its code.
        versions: The packages that the model and its measurement depend on.
        warm: The modules that an interpreter may have imported before it is forked for this case; None for a fresh
            interpreter.
        key: The key of its row, which an audit computes for the machine on which the case is timed.
    """

    spec: str
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    entry: ModelEntry = field(default_factory=lambda: ModelEntry(("",)))
    metrics: tuple[str, ...] | None = None
    problem: str = ""
    failure: FailureCode | None = None
    is_timed: bool = True
    code: SourceCode = field(default_factory=SourceCode)
    data: tuple[tuple[str, str], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    warm: tuple[str, ...] | None = ()
    key: str = ""

    @property
    def limits(self) -> Limits:
        """The limits of the process."""
        return self.entry.limits

    @property
    def device(self) -> str:
        """The device that the model is timed on; "cpu" for each name of a CPU, and if the plan names none."""
        name = str(self.settings.get("device") or "cpu").lower()
        return "cpu" if "cpu" in name else name

    def compute_key(self, machine: str) -> str:
        """Return the digest of the measurement; the kind of machine is part of the digest if times are measured."""
        entry = self.entry
        content = {
            "spec": self.spec,
            "settings": dict(self.settings),
            "metrics": self.metrics,
            "leave_out": entry.leave_out,
            "arguments": {**entry.sampling, **entry.arguments},
            "backend": entry.backend,
            "trust": entry.trust,
            "data": self.data,
            "code": self.code.digest,
            "versions": dict(self.versions),
            "machine": machine if self.is_timed else "",
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def job(self) -> Job:
        """Return the task of the model's process."""
        entry, arguments = self.entry, dict(self.settings)
        shape, dtype = arguments.pop("input_shape", None), arguments.pop("dtype", None)
        return Job(
            self.spec,
            input_shape=None if shape is None else read_shape(shape),
            data_splits=entry.data,
            functions=entry.evaluation,
            metrics=self.metrics,
            leave_out=entry.leave_out,
            backend=entry.backend,
            arguments={**entry.sampling, **entry.arguments, **arguments},
            trust=entry.trust,
            gated=True,
            folder=str(self.folder),
            dtype=dtype,
        )


def list_cases(plan: Plan) -> list[Case]:
    """Return the cases of a plan in its order, each once.

    Raises `PlanError` for a pattern that matches nothing or whose matches are all left out, and for a metric that
    nothing computes.
    """
    budgeted = Budget.of(plan.budgets).metrics if plan.budgets else ()
    with errors_at(plan.where):
        if not any(entry.evaluation for entry in plan.models):
            _require_computed("budgets", budgeted)
    budgeted = tuple(map(offers.name_of_metric, budgeted))
    cases: dict[str, Case] = {}
    for entry in plan.models:
        with errors_at(entry.where):
            listed = list(_list_entry(entry, plan, budgeted))
            if not listed:
                raise PlanError(f"exclude leaves out every model of this entry: {', '.join(map(repr, entry.specs))}")
        for case in listed:
            cases.setdefault(case.compute_key(""), case)
    return list(cases.values())


def _list_entry(entry: ModelEntry, plan: Plan, budgeted: tuple[str, ...]) -> Iterator[Case]:
    """Yield the cases of an entry: each model that its specs match, with each point of the matrix."""
    if not entry.evaluation:
        _require_computed("metrics", entry.metrics or ())
    of_entry = _read_entry(entry, plan, budgeted)
    for pattern in entry.specs:
        listing = find_specs(pattern, plan.folder)
        for spec in listing.specs:
            if any(fnmatchcase(spec, excluded) for excluded in entry.exclude):
                continue
            of_model = _add_code(replace(of_entry, spec=spec, problem=listing.problem, failure=listing.failure))
            for values in product(*entry.matrix.values()):
                yield replace(of_model, settings=dict(zip(entry.matrix, values, strict=True)))


def _read_entry(entry: ModelEntry, plan: Plan, budgeted: tuple[str, ...]) -> Case:
    """Return what all cases of an entry have in common: the metrics, and the code of data and evaluation."""
    metrics = None if entry.metrics is None else tuple(dict.fromkeys((*entry.metrics, *budgeted)))
    data = [] if entry.data is None else [entry.data]
    codes = {text: read_code(text, plan.folder) for text in (*data, *entry.evaluation, *_list_code_texts(entry))}
    return Case(
        "",
        plan.folder,
        entry=entry,
        metrics=metrics,
        is_timed=is_run_for(metrics, entry.leave_out) or bool(entry.evaluation),
        data=tuple((text, code.digest) for text, code in codes.items()),
        versions=dict(find_versions(frozenset().union(*(code.imports for code in codes.values())))),
        warm=() if plan.warm else None,
    )


def _add_code(case: Case) -> Case:
    """Return a case with the code of its model, its packages, and the modules to import before a process is forked."""
    code = read_code(case.spec, case.folder)
    used = [info for info in backends() if not code.imports.isdisjoint(info.frameworks)]
    versions = {**case.versions, **find_measuring_packages(), **dict(find_versions(code.imports))}
    for info in used:
        with suppress(ImportError):
            versions |= {} if info.installed is None else info.installed()
    warm = None if case.warm is None else _list_warm_modules(used, code)
    return replace(case, code=code, versions=versions, warm=warm)


def _list_warm_modules(used: Sequence[BackendInfo], code: SourceCode) -> tuple[str, ...] | None:
    """Return the modules of `Case.warm` for a model's code, which uses the frameworks of some backends.

    If a framework survives a fork, an interpreter that has imported it is forked for its models. For every other model
    an interpreter without a framework is forked, and the model imports its framework.
    """
    modules = used[0].preload if len(used) == 1 else ()
    return (*modules, *code.preload) if modules else modules


def _list_code_texts(entry: ModelEntry) -> Iterator[str]:
    """Yield the texts among the settings that lead to code, as ``train.py:shard`` does."""
    for name in list_placing_arguments():
        for value in entry.matrix.get(name, ()):
            if isinstance(value, str) and (is_in_file(value) or is_in_module(value)):
                yield value


def _require_computed(key: str, metrics: Sequence[str]) -> None:
    """Raise `PlanError` for a metric that no plugin computes; ``key`` is the key of the plan that names it."""
    names = {offer.item.NAME for offer in offers.list_status_keys()} if metrics else set()
    for metric in metrics:
        if offers.name_of_metric(metric) in names:
            continue
        names |= names_of_functions()  # only now: it goes through the functions of all backends
        if metric not in names:
            likely = nearest(metric, names)
            meant = "; `profilerkit list` lists the metrics" if likely is None else f"; did you mean {likely!r}?"
            raise PlanError(f"{key}: nothing computes {metric!r}{meant}")


# Metrics that run the model -------------------------------------------------------------------------------------------


def is_run_for(metrics: Sequence[str] | None, leave_out: Sequence[str] = ()) -> bool:
    """Return whether the model is run for one of the metrics, or for one of all that are computed by default.

    A name that no plugin computes for every backend counts as a metric that runs the model.
    """
    registry = register_for_any_backend()
    requested = list_default_metrics(registry) if metrics is None else metrics
    names = [name for name in requested if name not in leave_out]
    return any(name not in registry or registry.find_need(name) is Need.RUN for name in names)
