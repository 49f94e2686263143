"""The plan of an audit: which models, with which settings, what is measured of them, and within which limits.

A plan is a TOML file, or the same as a mapping. The matrix of a model is the product of its settings; a setting that a
model does not name has the value from the top of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

from ..arguments.checking import checked, status_names
from ..arguments.rules import RULES
from ..arguments.shape_text import shapes_of_text
from ..budgets.limits import Budget
from ..error_text import shown
from ..errors import ArgumentError, InputError, PlanError
from ..inputs import parse_input_shape
from ..isolation.limits import Limits
from ..plugging.offers import name_of_metric
from .plan_lines import Lines, misplaced_key, unknown_key

__all__ = ["ModelEntry", "Plan", "shape_of"]

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
#: What is known of the whole audit alone.
WHOLE = ("models", "budgets", "workers", "warm", "repeats")
_COMMON = (*MATRIX, *MATRIX.values(), *SAMPLING, *LIMITS, *SELECTION)
#: What is known of a model alone.
_OF_MODEL = ("spec", "specs", "exclude")


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
        lines: Where its keys stand in its file, for messages.
    """

    models: tuple[ModelEntry, ...]
    folder: Path = field(default_factory=Path)
    name: str = "audit"
    budgets: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    warm: bool = True
    repeats: int = 2
    lines: Lines = field(default_factory=lambda: Lines("the plan", ""), repr=False, compare=False)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Plan:
        """Read a TOML file; raises `PlanError` with the line for what is no plan."""
        import tomllib

        file = Path(checked("path", path))
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"cannot read the plan {file}: {getattr(error, 'strerror', None) or error}") from error
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"the plan {file} is no TOML: {error}") from error
        return cls.of(content, file.absolute().parent, file.stem, Lines(str(file), text))

    @classmethod
    def of(
        cls,
        content: Mapping[str, Any],
        folder: str | PathLike[str] | None = None,
        name: str = "audit",
        lines: Lines | None = None,
    ) -> Plan:
        """Read a mapping with the keys of a plan; paths are relative to ``folder``, by default the current one.

        >>> plan = Plan.of({"metrics": ["macs"], "models": [{"spec": "net.py:build", "batch_size": [1, 8]}]})
        >>> plan.models[0].matrix
        {'batch_size': (1, 8)}

        Raises `PlanError` for an unknown key, which says the nearest one, and for an invalid value.
        """
        lines = lines or Lines("the plan", "")
        if not isinstance(content, Mapping):
            raise PlanError(f"{shown(content)} is no plan; give a mapping with a list of models")
        _require_known(content, (*WHOLE, *_COMMON), _OF_MODEL, lines, "plan")
        with lines.errors():
            budgets = _budgets(content.get("budgets", {}))
            entries = content.get("models")
            if isinstance(entries, Mapping):
                raise PlanError("models is one table; write its name in double brackets, [[models]], before each model")
            if not isinstance(entries, (list, tuple)) or not entries:
                raise PlanError('the plan has no models; write [[models]] and below it spec = "net.py:build"')
        common = {key: value for key, value in content.items() if key in _COMMON}
        models = tuple(_entry(entry, common, lines, index) for index, entry in enumerate(entries))
        with lines.errors():
            whole = {
                "workers": _whole_number("workers", content.get("workers"), least=1),
                "repeats": _whole_number("repeats", content.get("repeats", 2), least=0),
                "warm": checked("warm", content.get("warm", True), "strict"),
            }
        return cls(models, Path(folder or Path.cwd()), name, budgets, **whole, lines=lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as values that JSON holds, without its folder."""
        content = asdict(self)
        for name in ("folder", "lines"):
            del content[name]
        return content


def _entry(entry: Any, common: Mapping[str, Any], lines: Lines, index: int) -> ModelEntry:
    if not isinstance(entry, Mapping):
        raise PlanError(f'{shown(entry)} is no model; write [[models]] and below it spec = "net.py:build"')
    _require_known(entry, (*_OF_MODEL, *_COMMON), WHOLE, lines, "model", index)
    merged = {**_without(common, entry), **entry}
    with lines.errors(index):
        specs = (*_texts("spec", entry.get("spec", ())), *_texts("specs", entry.get("specs", ())))
        if not specs:
            raise PlanError('a model has no spec; write spec = "net.py:build", or a list of such texts')
    with lines.errors(index):
        return ModelEntry(
            specs=specs,
            exclude=_texts("exclude", entry.get("exclude", ())),
            matrix=dict(_matrix(merged, lines, index)),
            sampling={name: _checked(name, merged[name], lines, index) for name in SAMPLING if name in merged},
            arguments=_arguments(merged.get("arguments", {})),
            metrics=_names("metrics", merged.get("metrics")),
            leave_out=_names("leave_out", merged.get("leave_out")) or (),
            data=_reference("data", merged.get("data")),
            evaluation=_texts("evaluation", merged.get("evaluation", ())),
            backend=checked("backend", merged.get("backend")),
            trust=checked("trust", merged.get("trust", False)),
            limits=_limits(merged, lines, index),
        )


def _without(common: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the top of the plan says, without settings that the model has in either number."""
    hidden = {other for one, several in MATRIX.items() if one in entry or several in entry for other in (one, several)}
    return {key: value for key, value in common.items() if key not in hidden}


def _matrix(merged: Mapping[str, Any], lines: Lines, index: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for one, several in MATRIX.items():
        if one in merged and several in merged:
            raise PlanError(f"{one} and {several} are the same setting; give one of them")
        key = one if one in merged else several
        if key not in merged:
            continue
        value = merged[key]
        listed = isinstance(value, (list, tuple)) and (key == several or one != "input_shape")
        values = tuple(value) if listed else (value,)
        if not values:
            raise PlanError(lines.at(f"{key} is empty: give at least one value", key, index))
        yield one, tuple(_checked(one, each, lines, index, key) for each in values)


def _checked(name: str, value: Any, lines: Lines, index: int, key: str | None = None) -> Any:
    """Return the value of a setting or an argument by the rule that it has everywhere."""
    try:
        if name == "input_shape":
            value = _without_text(value, key or name)
            parse_input_shape(shape_of(value))
            return value
        if name == "dtype":
            return _text("dtype", value)
        if name == "device":
            return value.value if isinstance(value := checked(name, value), Enum) else value
        return checked("batch_size of one" if name == "batch_size" else name, value) if name in RULES else value
    except (InputError, TypeError, ValueError) as error:
        message = str(error).replace("batch_size of one", "batch_size")
        raise PlanError(lines.at(message, key or name, index)) from error


def _without_text(value: Any, key: str) -> Any:
    """Return a shape with lists for texts: ``[3, 32, 32]`` for "3,32,32", so that both are the same case."""
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(each, str) for each in texts):
        try:
            shapes = shapes_of_text(texts)
        except ArgumentError as error:
            raise InputError(f"{key}: {error}; or a list, [3, 224, 224]") from None
        named = isinstance(shapes, Mapping)
        listed = [_listed(*each) for each in (shapes.values() if named else shapes)]
        if named:
            return dict(zip(shapes, listed, strict=True))
        return listed if len(listed) > 1 else listed[0]
    return value


def _listed(sizes: Iterable[int], dtype: str) -> Any:
    return list(sizes) if dtype == "float32" else {"shape": list(sizes), "dtype": dtype}


def shape_of(value: Any) -> Any:
    """Return a shape of TOML as `profilerkit.profile` takes it: ``{shape = [128], dtype = "int64"}`` has a dtype."""
    if isinstance(value, Mapping):
        if "shape" in value and set(value) <= {"shape", "dtype"}:
            return (tuple(value["shape"]), value.get("dtype", "float32"))
        return {name: shape_of(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        numbers = all(isinstance(each, int) and not isinstance(each, bool) for each in value)
        return tuple(value) if numbers else [shape_of(each) for each in value]
    return value


def _limits(merged: Mapping[str, Any], lines: Lines, index: int) -> Limits:
    limits = {}
    for name in LIMITS:
        try:
            limits[name] = getattr(Limits.read(**{name: merged.get(name)}), name)
        except (InputError, TypeError) as error:
            raise PlanError(lines.at(str(error), name, index)) from error
    return Limits(**limits)


def _arguments(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(f"arguments={shown(value)}: give a table of arguments by name: arguments = {{num_iters = 20}}")
    return {name: checked(name, each) if name in RULES else each for name, each in value.items()}


def _budgets(value: Any) -> Mapping[str, Any]:
    if value:
        Budget.of(value)
    return dict(value)


def _names(key: str, value: Any) -> tuple[str, ...] | None:
    names = status_names(key, value)
    if names == []:
        raise PlanError(f"{key} is empty: name what is to be measured, or leave it out for every metric")
    return None if names is None else tuple(map(name_of_metric, names))


def _reference(key: str, value: Any) -> str | None:
    return None if value is None else _text(key, value)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(key, each) for each in (value if isinstance(value, (list, tuple)) else [value]))


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise PlanError(f"{key}={shown(value)}: give a text that is not empty")
    return value


def _whole_number(key: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlanError(f"{key}={shown(value)}: give a whole number from {least}")
    return value


def _require_known(
    content: Mapping[str, Any],
    keys: tuple[str, ...],
    elsewhere: tuple[str, ...],
    lines: Lines,
    what: str,
    index: int = -1,
) -> None:
    """Raise `PlanError` for a key that is not known here; ``elsewhere`` has those of the other part of a plan."""
    for key in content:
        if key not in keys:
            message = misplaced_key(key, what) if key in elsewhere else unknown_key(key, keys, what)
            raise PlanError(lines.at(message, key, index))
