"""The plan of an audit: which models, with which settings, what is measured of them, and within which limits.

A plan is a TOML file, or the same as a mapping. The matrix of a model is the product of its settings; a setting that a
model does not name has the value from the top of the plan.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.arguments.checks import FLAG, ONE_BATCH_SIZE, PATH
from profilerkit.arguments.names import status_names
from profilerkit.arguments.shape_text import shapes_of_text
from profilerkit.backend import BACKEND
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, PlanError, ProfilerKitError, by_likeness, nearest
from profilerkit.inputs import parse_input_shape
from profilerkit.isolation.limits import Limits
from profilerkit.piping.intrinsic import INTRINSIC
from profilerkit.piping.options import BUNDLES
from profilerkit.plugging.offers import name_of_metric
from profilerkit_budgets.limits import Budget

__all__ = ["ModelEntry", "Plan", "errors_at", "read_shape"]

#: What the settings of a model and the arguments of functions may be.
_CHECKS = {name: check for function in (*BUNDLES, *INTRINSIC) for name, check in function.CHECKS.items()}
#: Settings of the matrix, each with the name under which it takes a list of values besides; all but the shape take a
#: list under their own name too, because a shape is a list itself.
MATRIX = {
    "batch_size": "batch_sizes",
    "input_shape": "input_shapes",
    "dtype": "dtypes",
    "device": "devices",
    "mode": "modes",
    "compile": "compiles",
    "autocast": "autocasts",
    "training": "trainings",
    "num_threads": "thread_counts",
}
#: How often and how long is measured: one value for all models, or for a model.
SAMPLING = ("max_seconds", "num_iters", "warmup", "min_samples", "relative_precision", "confidence")
LIMITS = ("timeout", "memory", "max_threads")
SELECTION = ("metrics", "leave_out", "data", "evaluation", "backend", "trust", "arguments")
_COMMON = (*MATRIX, *MATRIX.values(), *SAMPLING, *LIMITS, *SELECTION)
#: What is known of the whole audit alone, and of a model alone.
_WHOLE = ("models", "budgets", "workers", "warm", "repeats")
_ONE_MODEL = ("spec", "specs", "exclude")
#: How many keys a message names.
_NAMED = 8


@dataclass(frozen=True)
class ModelEntry:
    """One ``[[models]]`` of a plan, with what the top of the plan says filled in.

    Args:
        specs: Texts for model loaders, each of which may be a pattern: ``torchvision:*``, ``nets/*.onnx``.
        exclude: Patterns of specs that are left out.
        matrix: The values of each setting; the cases are their product.
        sampling: Arguments for all measurements.
        arguments: Further arguments of functions, by name.
        metrics: What is computed; None for every metric.
        leave_out: What is not computed.
        data: Data splits by reference: ``data.py:splits`` is a mapping of loaders, or a function that returns one.
        evaluation: A profiler function, or several, by reference: ``data.py:accuracy``.
        backend: The name of a backend; None for the one that the model belongs to.
        trust: Load files that may run code when they are loaded.
        limits: Seconds, bytes and threads of each process.
        where: What messages call it: the file, its number and its first spec.
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
        name: The name of the plan: that of its file without the suffix.
        budgets: Limits on what each model may cost, as in a budget file; empty for none.
        workers: How many models are counted at the same time; None for one a core.
        warm: Start the processes of models from an interpreter that has imported their framework, where that is safe.
        repeats: How often a case whose times are noisy is measured again.
        where: What messages call it.
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
        """Read a TOML file; raises `PlanError`, which names the model and the key, for what is no plan."""
        file = Path(PATH("path", path))
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise PlanError(f"cannot read the plan {file}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise PlanError(f"the plan {file} is no TOML: {error}") from error
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

        Raises `PlanError` for an unknown key, which says the nearest one, and for an invalid value.
        """
        with errors_at(where):
            if not isinstance(content, Mapping):
                raise ArgumentError(f"{shown(content)} is no plan; give a mapping with a list of models")
            _require_known(content, (*_WHOLE, *_COMMON), _ONE_MODEL, "plan")
            budgets = dict(content.get("budgets", {}))
            if budgets:
                Budget.of(budgets)
            entries = content.get("models")
            if isinstance(entries, Mapping):
                raise ArgumentError(
                    "models is one table; write its name in double brackets, [[models]], for each model"
                )
            if not isinstance(entries, (list, tuple)) or not entries:
                raise ArgumentError('the plan has no models; write [[models]] and below it spec = "net.py:build"')
            workers = _check_number("workers", content.get("workers"), least=1)
            repeats = _check_number("repeats", content.get("repeats", 2), least=0)
            warm = FLAG("warm", content.get("warm", True))
        common = {key: value for key, value in content.items() if key in _COMMON}
        models = tuple(_read_entry(entry, common, where, number) for number, entry in enumerate(entries, start=1))
        return cls(models, Path(folder or Path.cwd()), name, budgets, workers, warm, repeats or 0, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as values that JSON holds, without its folder."""
        content = asdict(self)
        for part in (content, *content["models"]):
            del part["where"]
        del content["folder"]
        return content


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Turn errors of values into a `PlanError` that says where in a plan they stand."""
    try:
        yield
    except (ProfilerKitError, TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error


def _read_entry(entry: Any, common: Mapping[str, Any], where: str, number: int) -> ModelEntry:
    where = f"{where}, model {number}"
    with errors_at(where):
        if not isinstance(entry, Mapping):
            raise ArgumentError(f'{shown(entry)} is no model; write [[models]] and below it spec = "net.py:build"')
        specs = (*_check_texts("spec", entry.get("spec", ())), *_check_texts("specs", entry.get("specs", ())))
    where = f"{where} ({specs[0]})" if specs else where
    with errors_at(where):
        _require_known(entry, (*_ONE_MODEL, *_COMMON), _WHOLE, "model")
        if not specs:
            raise ArgumentError('a model has no spec; write spec = "net.py:build", or a list of such texts')
        replaced = {key for pair in MATRIX.items() if not entry.keys().isdisjoint(pair) for key in pair}
        values = {**{key: value for key, value in common.items() if key not in replaced}, **entry}
        data, arguments = values.get("data"), values.get("arguments", {})
        if not isinstance(arguments, Mapping):
            raise ArgumentError(
                f"arguments={shown(arguments)}: give a table of arguments by name: arguments = {{num_iters = 20}}"
            )
        return ModelEntry(
            specs=specs,
            exclude=_check_texts("exclude", entry.get("exclude", ())),
            matrix=dict(_read_matrix(values)),
            sampling={name: _check(name, values[name]) for name in SAMPLING if name in values},
            arguments={
                name: _CHECKS[name](name, value) if name in _CHECKS else value for name, value in arguments.items()
            },
            metrics=_check_names("metrics", values.get("metrics")),
            leave_out=_check_names("leave_out", values.get("leave_out")) or (),
            data=None if data is None else _check_text("data", data),
            evaluation=_check_texts("evaluation", values.get("evaluation", ())),
            backend=BACKEND("backend", values.get("backend")),
            trust=FLAG("trust", values.get("trust", False)),
            limits=Limits.read(**{name: values.get(name) for name in LIMITS}),
            where=where,
        )


def _read_matrix(values: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for one, several in MATRIX.items():
        if one in values and several in values:
            raise ArgumentError(f"{one} and {several} are the same setting; give one of them")
        key = one if one in values else several
        if key not in values:
            continue
        value = values[key]
        is_list = isinstance(value, (list, tuple)) and (key == several or one != "input_shape")
        points = tuple(value) if is_list else (value,)
        if not points:
            raise ArgumentError(f"{key} is empty: give at least one value")
        yield one, tuple(_check(one, point) for point in points)


def _check(name: str, value: Any) -> Any:
    """Return the value of a setting or an argument by the rule that it has everywhere."""
    if name == "input_shape":
        value = _parse_shape(value)
        parse_input_shape(read_shape(value))
        return value
    if name == "dtype":
        return _check_text("dtype", value)
    if name not in _CHECKS:
        return value
    value = ONE_BATCH_SIZE(name, value) if name == "batch_size" else _CHECKS[name](name, value)
    return value.value if isinstance(value, Enum) else value


def _parse_shape(value: Any) -> Any:
    """Return a shape with lists for texts: ``[3, 32, 32]`` for "3,32,32", so that both are the same case."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not texts or not all(isinstance(text, str) for text in texts):
        return value
    try:
        shapes = shapes_of_text(texts)
    except ArgumentError as error:
        raise ArgumentError(f"input_shape: {error}; or a list, [3, 224, 224]") from None
    if isinstance(shapes, Mapping):
        return {name: _list_sizes(*shape) for name, shape in shapes.items()}
    lists = [_list_sizes(*shape) for shape in shapes]
    return lists if len(lists) > 1 else lists[0]


def _list_sizes(sizes: Iterable[int], dtype: str) -> Any:
    return list(sizes) if dtype == "float32" else {"shape": list(sizes), "dtype": dtype}


def read_shape(value: Any) -> Any:
    """Return a shape of TOML as `profilerkit.profile` takes it: ``{shape = [128], dtype = "int64"}`` has a dtype."""
    if isinstance(value, Mapping):
        if "shape" in value and set(value) <= {"shape", "dtype"}:
            return (tuple(value["shape"]), value.get("dtype", "float32"))
        return {name: read_shape(shape) for name, shape in value.items()}
    if isinstance(value, (list, tuple)):
        are_sizes = all(isinstance(size, int) and not isinstance(size, bool) for size in value)
        return tuple(value) if are_sizes else [read_shape(shape) for shape in value]
    return value


def _check_names(key: str, value: Any) -> tuple[str, ...] | None:
    names = status_names(key, value)
    if names == []:
        raise ArgumentError(f"{key} is empty: name what is to be measured, or leave it out for every metric")
    return None if names is None else tuple(map(name_of_metric, names))


def _check_texts(key: str, value: Any) -> tuple[str, ...]:
    return tuple(_check_text(key, text) for text in (value if isinstance(value, (list, tuple)) else [value]))


def _check_text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{key}={shown(value)}: give a text that is not empty")
    return value


def _check_number(key: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{key}={shown(value)}: give a whole number from {least}")
    return value


def _require_known(content: Mapping[str, Any], keys: tuple[str, ...], elsewhere: tuple[str, ...], what: str) -> None:
    """Raise `ArgumentError` for a key that is not known here; ``elsewhere`` has those of the other part of a plan."""
    for key in content:
        if key in elsewhere:
            part = "in a [[models]] table" if what == "plan" else "at the top of the plan, before the first [[models]]"
            raise ArgumentError(f"{key!r} does not belong in a {what}; write it {part}")
        if key not in keys:
            likely = nearest(key, keys)
            meant = f"; did you mean {likely!r}?" if likely else ";"
            names = ", ".join(by_likeness(key, keys)[:_NAMED])
            raise ArgumentError(f"unknown key {key!r}{meant} a {what} has, nearest first: {names}, ...")
