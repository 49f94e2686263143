"""The cases of a plan: each model with each point of its matrix, with the key of what will be measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from platform import python_version
from typing import Any

from ..budgets.limits import Budget
from ..errors import PlanError, nearest
from ..isolation.job import Job
from ..isolation.limits import Limits
from ..plugging import offers
from ..plugging.unloaded import names_of_functions
from .listing import specs_of
from .plan import ModelEntry, Plan, shape_of
from .plan_lines import Lines
from .risks import runs_the_model
from .source_code import SourceCode, code_of, package_versions, preload_of

__all__ = ["Case", "cases_of"]

#: Settings that are arguments of functions under their own name.
_ARGUMENTS = ("batch_size", "device", "mode", "compile", "autocast", "training", "num_threads")


@dataclass(frozen=True)
class Case:
    """One model with one setting: what an engine runs in a process of its own.

    Args:
        spec: The text for a model loader, relative to ``folder``.
        folder: The folder that the process runs in.
        settings: The point of the matrix, as JSON holds it.
        entry: The entry of the plan that it comes from.
        metrics: What is computed; None for every metric. The metrics of the plan's budgets are among them.
        problem: Why it cannot be run, such as a library that is not installed; empty if it can.
        timed: Whether something is measured that runs the model, so that the machine matters.
        code: The model's own code.
        data: The texts by which data and evaluation functions are loaded, each with the digest of its code.
        versions: The packages that the model and its measurement depend on.
        warm: The modules that an interpreter may have imported before it is forked for this case; None for a fresh
            interpreter.
    """

    spec: str
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    entry: ModelEntry = field(default_factory=lambda: ModelEntry(("",)))
    metrics: tuple[str, ...] | None = None
    problem: str = ""
    timed: bool = True
    code: SourceCode = field(default_factory=SourceCode)
    data: tuple[tuple[str, str], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    warm: tuple[str, ...] | None = ()

    @property
    def limits(self) -> Limits:
        """The limits of the process."""
        return self.entry.limits

    @property
    def device(self) -> str:
        """The device that the model is timed on; "cpu" where the plan does not say."""
        return str(self.settings.get("device") or "cpu").lower()

    @property
    def precision(self) -> str:
        """The lowest dtype that is computed with, as far as the plan says; "float32" where it does not."""
        autocast = self.settings.get("autocast")
        if autocast:
            return str(autocast) if autocast is not True else "bfloat16"
        return str(self.settings.get("dtype") or "float32")

    def key(self, machine: str) -> str:
        """Return the digest of what is measured; the kind of machine is part of it where times are."""
        entry = self.entry
        content = {
            "spec": self.spec,
            "settings": dict(self.settings),
            "metrics": self.metrics,
            "leave_out": entry.leave_out,
            "arguments": {**entry.sampling, **entry.arguments},
            "backend": entry.backend,
            "data": self.data,
            "code": self.code.digest,
            "versions": dict(self.versions),
            "machine": machine if self.timed else "",
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def job(self) -> Job:
        """Return what the process of the model is to do."""
        entry, settings = self.entry, self.settings
        arguments = {name: settings[name] for name in _ARGUMENTS if name in settings}
        shape = settings.get("input_shape")
        return Job(
            self.spec,
            {"data_splits": entry.data, "input_shape": None if shape is None else shape_of(shape)},
            functions=entry.evaluation,
            metrics=self.metrics,
            leave_out=entry.leave_out,
            backend=entry.backend,
            arguments={**entry.sampling, **entry.arguments, **arguments},
            trust=entry.trust,
            gated=True,
            folder=str(self.folder),
            dtype=settings.get("dtype"),
        )


def cases_of(plan: Plan) -> list[Case]:
    """Return the cases of a plan in its order, each once.

    Raises `PlanError` for a pattern that matches nothing or whose matches are all left out, and for a metric that
    nothing computes.
    """
    cases: dict[str, Case] = {}
    written = Budget.of(plan.budgets).metrics if plan.budgets else ()
    budget = tuple(map(offers.name_of_metric, written))
    evaluated = any(entry.evaluation for entry in plan.models)
    for name in () if evaluated else written:
        _require_metric(name, name, plan.lines)
    for index, entry in enumerate(plan.models):
        for name in () if entry.evaluation else entry.metrics or ():
            _require_metric(name, "metrics", plan.lines, index)
        of_entry = list(_of_entry(entry, plan, budget, index))
        if not of_entry:
            message = f"exclude leaves out every model of this entry: {', '.join(map(repr, entry.specs))}"
            raise PlanError(plan.lines.at(message, "exclude", index))
        for case in of_entry:
            cases.setdefault(case.key(""), case)
    return list(cases.values())


def _specs_of(pattern: str, plan: Plan, index: int) -> tuple[list[str], str]:
    """Return what `specs_of` does; a pattern that matches nothing is an error with its line."""
    try:
        return specs_of(pattern, plan.folder)
    except PlanError as error:
        raise PlanError(plan.lines.at(str(error), "spec", index, text=pattern)) from error


def _of_entry(entry: ModelEntry, plan: Plan, budget: tuple[str, ...], index: int) -> Iterator[Case]:
    names = None if entry.metrics is None else tuple(dict.fromkeys((*entry.metrics, *budget)))
    timed = runs_the_model(names, entry.leave_out) or bool(entry.evaluation)
    references = (*(() if entry.data is None else (entry.data,)), *entry.evaluation)
    data = tuple((text, code_of(text, plan.folder).digest) for text in references)
    for pattern in entry.specs:
        specs, problem = _specs_of(pattern, plan, index)
        for spec in specs:
            if any(fnmatchcase(spec, excluded) for excluded in entry.exclude):
                continue
            code = code_of(spec, plan.folder)
            about: dict[str, Any] = {
                "code": code,
                "versions": _versions(code),
                "warm": _preload(spec, code) if plan.warm else None,
            }
            for values in product(*entry.matrix.values()):
                settings = dict(zip(entry.matrix, values, strict=True))
                yield Case(spec, plan.folder, settings, entry, names, problem, timed, data=data, **about)


@lru_cache(maxsize=1)
def _measuring_packages() -> tuple[tuple[str, str], ...]:
    """Return Python and the packages that count and measure: profilerkit, and those of its plugins."""
    names = {plugin.package for plugin in offers.installed_plugins() if plugin.package}
    return (("python", python_version()), *sorted((name.lower(), version(name)) for name in {"profilerkit", *names}))


def _versions(code: SourceCode) -> dict[str, str]:
    """Return the versions that a row depends on; those of a backend's packages if the model's code imports one."""
    backends = [info for info in offers.backends() if not code.imports.isdisjoint(info.frameworks)]
    versions = {**dict(_measuring_packages()), **dict(package_versions(code.imports))}
    for info in backends:
        try:
            versions |= {} if info.installed is None else info.installed()
        except ImportError:
            continue
    return versions


def _preload(spec: str, code: SourceCode) -> tuple[str, ...] | None:
    """Return what may be imported before a fork: a framework that survives one, and what the loader names beside it.

    An interpreter that has imported no framework is forked for every other model, which then imports its own.
    """
    backends = [info for info in offers.backends() if not code.imports.isdisjoint(info.frameworks)]
    modules = backends[0].preload if len(backends) == 1 else ()
    return (*modules, *preload_of(spec)) if modules else modules


def _require_metric(name: str, key: str, lines: Lines, index: int = -1) -> None:
    """Raise `PlanError` for a metric that no plugin computes; ``key`` is the key of the plan that names it."""
    names = {offer.item.NAME for offer in offers.offered_status_keys()}
    if offers.name_of_metric(name) in names:
        return
    names |= names_of_functions()
    if name in names:
        return
    likely = nearest(name, names)
    help_text = "; `profilerkit list` lists the metrics" if likely is None else f"; did you mean {likely!r}?"
    where = "metrics" if key == "metrics" else "budgets"
    raise PlanError(lines.at(f"{where}: nothing computes {name!r}{help_text}", key, index, text=name))
