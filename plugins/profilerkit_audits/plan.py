"""The plan of an audit: its models, their settings, the metrics to measure, and the limits.

A plan is a TOML file, or the same as a mapping. The matrix of a model is the product of its settings; a setting that a
model does not name has the value from the top of the plan. ``plan_values.py`` checks the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.arguments.checks import FLAG, PATH, at_least
from profilerkit.backend import BACKEND
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, BudgetError, PlanError, ProfilerKitError
from profilerkit.isolation.limits import Limits
from profilerkit.process.files import read_toml
from profilerkit_budgets.checking import require_checkable
from profilerkit_budgets.limits import Budget

from .plan_values import (
    LIMITS,
    SAMPLING,
    SELECTION,
    TEXT,
    check_argument,
    check_names,
    check_setting,
    check_texts,
    find_setting,
    list_setting_keys,
    read_matrix,
    require_known,
)

#: The keys of the whole audit alone, and the keys of a model alone.
_WHOLE = ("models", "budgets", "workers", "warm", "repeats")
_ONE_MODEL = ("spec", "specs", "exclude")


@dataclass(frozen=True)
class ModelEntry:
    """One ``[[models]]`` of a plan, completed with the values at the top of the plan.

    Args:
        specs: Texts for model loaders, each of which may be a pattern: ``torchvision:*``, ``nets/*.onnx``.
        exclude: Patterns of specs that are left out.
        matrix: The values of each setting; the cases are their product.
        sampling: Arguments for all measurements.
        arguments: Further arguments of functions, by name.
        metrics: The metrics to compute; None for every metric.
        leave_out: The metrics to leave out.
        data: Data splits by reference: ``data.py:splits`` is a mapping of loaders, or a function that returns one.
        evaluation: A profiler function, or several, by reference: ``data.py:accuracy``.
        backend: The name of a backend; None for the backend of the model.
        trust: Load files that may run code when they are loaded.
        limits: Seconds, bytes and threads of each process.
        where: Its name in messages: the file, its number and its first spec.
    """

    specs: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    matrix: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] | None = None
    leave_out: tuple[str, ...] = ()
    data: str | None = None
    evaluation: tuple[str, ...] = ()
    backend: str | None = None
    trust: bool = False
    limits: Limits = field(default_factory=Limits)
    where: str = field(default="the plan", repr=False, compare=False)


@dataclass(frozen=True)
class Plan:
    """The plan of an audit: `Plan.load` reads a file, `Plan.of` a mapping with the same keys.

    Args:
        models: The models.
        folder: The folder to which paths of models are relative; models run in it.
        name: The name of the plan: the name of its file without the suffix.
        budgets: Limits on the costs of each model, as in a budget file; empty for no limits.
        workers: How many models are counted at the same time; None for one model for each core.
        warm: Start the processes of models from an interpreter that has imported their framework, if this is safe.
        repeats: How often a case whose times are noisy is measured again.
        where: Its name in messages.
    """

    models: tuple[ModelEntry, ...]
    folder: Path = field(default_factory=Path)
    name: str = "audit"
    budgets: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    warm: bool = True
    repeats: int = 2
    where: str = field(default="the plan", repr=False, compare=False)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a TOML file; raises `PlanError`, which names the model and the key, if the file is no plan."""
        file = Path(PATH("path", path))
        content = read_toml(file, f"the plan {file}", PlanError)
        return cls.of(content, file.absolute().parent, file.stem, str(file))

    @classmethod
    def of(
        cls,
        content: Mapping[str, Any],
        folder: str | PathLike[str] | None = None,
        name: str = "audit",
        where: str = "the plan",
    ) -> Plan:
        """Read a mapping with the keys of a plan; paths are relative to ``folder``, by default the current one.

        >>> plan = Plan.of({"metrics": ["macs"], "models": [{"spec": "net.py:build", "batch_size": [1, 8]}]})
        >>> plan.models[0].matrix
        {'batch_size': (1, 8)}

        Raises `PlanError` for an unknown key, with the nearest key, and for an invalid value.
        """
        with errors_at(where):
            if not isinstance(content, Mapping):
                raise ArgumentError(f"{shown(content)} is no plan; give a mapping with a list of models")
            require_known(content, (*_WHOLE, *_list_common()), _ONE_MODEL, "plan")
            budgets = content.get("budgets", {})
            if not isinstance(budgets, Mapping):
                raise ArgumentError(f"budgets={shown(budgets)} is no table of limits; give one: macs = '<= 5 G'")
            if budgets:
                require_checkable_in_audits(Budget.of(budgets))
            entries = _require_entries(content.get("models"))
            workers = at_least(1).or_none()("workers", content.get("workers"))
            repeats = at_least(0)("repeats", content.get("repeats", 2))
            warm = FLAG("warm", content.get("warm", True))
        common = {key: value for key, value in content.items() if key in _list_common()}
        models = tuple(_read_entry(entry, common, where, number) for number, entry in enumerate(entries, start=1))
        return cls(models, Path(folder or Path.cwd()), name, dict(budgets), workers, warm, repeats, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as values that JSON holds, without its folder."""
        content = asdict(self)
        for part in (content, *content["models"]):
            del part["where"]
        del content["folder"]
        return content


def _list_common() -> tuple[str, ...]:
    """Return the keys that may stand at the top of a plan, for all models, and in a model."""
    return *list_setting_keys(), *SAMPLING, *LIMITS, *SELECTION


def require_checkable_in_audits(budget: Budget) -> None:
    """Raise an error for a limit that no report of an audit could be checked against, as an audit has no baseline."""
    if budget.needs_baseline:
        raise BudgetError("budgets: an audit has no baseline for a limit in x; give numbers: macs = '<= 5 G'")
    require_checkable(budget)


def _require_entries(models: Any) -> Sequence[Any]:
    """Return the models of a plan as they stand there: a list that is not empty."""
    if isinstance(models, Mapping):
        raise ArgumentError("models is one table; write its name in double brackets, [[models]], for each model")
    if not isinstance(models, (list, tuple)) or not models:
        raise ArgumentError('the plan has no models; write [[models]] and below it spec = "net.py:build"')
    return models


def _read_entry(entry: Any, common: Mapping[str, Any], where: str, number: int) -> ModelEntry:
    """Read a model, ``number`` in the plan; values that it does not have are from ``common``."""
    where = f"{where}, model {number}"
    with errors_at(where):
        if not isinstance(entry, Mapping):
            raise ArgumentError(f'{shown(entry)} is no model; write [[models]] and below it spec = "net.py:build"')
        specs = (*check_texts("spec", entry.get("spec", ())), *check_texts("specs", entry.get("specs", ())))
    where = f"{where} ({specs[0]})" if specs else where
    with errors_at(where):
        require_known(entry, (*_ONE_MODEL, *_list_common()), _WHOLE, "model")
        if not specs:
            raise ArgumentError('a model has no spec; write spec = "net.py:build", or a list of such texts')
        values = {**_leave_out_replaced(common, entry), **entry}
        arguments = values.get("arguments", {})
        if not isinstance(arguments, Mapping):
            raise ArgumentError(
                f"arguments={shown(arguments)}: give a table of arguments by name: arguments = {{num_iters = 20}}"
            )
        return ModelEntry(
            specs=specs,
            exclude=check_texts("exclude", entry.get("exclude", ())),
            matrix=read_matrix(values),
            sampling={name: check_setting(name, values[name]) for name in SAMPLING if name in values},
            arguments={name: check_argument(name, value) for name, value in arguments.items()},
            metrics=check_names("metrics", values.get("metrics")),
            leave_out=check_names("leave_out", values.get("leave_out")) or (),
            data=TEXT.or_none()("data", values.get("data")),
            evaluation=check_texts("evaluation", values.get("evaluation", ())),
            backend=BACKEND("backend", values.get("backend")),
            trust=FLAG("trust", values.get("trust", False)),
            limits=Limits.read(**{name: values.get(name) for name in LIMITS}),
            where=where,
        )


def _leave_out_replaced(common: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the common values without the settings of a model: its ``input_shape`` replaces ``input_shapes`` too."""
    replaced = set(map(find_setting, entry))
    return {key: value for key, value in common.items() if find_setting(key) not in replaced}


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Turn errors of values into a `PlanError` that says where in a plan they stand."""
    try:
        yield
    except (ProfilerKitError, TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error
