"""The values in a plan: which keys there are, and what each may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from profilerkit.arguments.checks import ONE_BATCH_SIZE, text
from profilerkit.arguments.names import status_names
from profilerkit.arguments.shape_text import shapes_of_text
from profilerkit.errors import ArgumentError, by_likeness, nearest
from profilerkit.input_shapes import parse_input_shape
from profilerkit.piping.intrinsic import INTRINSIC
from profilerkit.piping.options import BUNDLES
from profilerkit.plugging.offers import name_of_metric
from profilerkit.plugging.placing import list_placing_arguments

__all__ = [
    "LIMITS",
    "SAMPLING",
    "SELECTION",
    "TEXT",
    "check_argument",
    "check_names",
    "check_setting",
    "check_texts",
    "list_settings",
    "read_matrix",
    "read_shape",
    "require_known",
]

#: What the settings of a model and the arguments of functions may be.
_CHECKS = {name: check for function in (*BUNDLES, *INTRINSIC) for name, check in function.CHECKS.items()}
#: Settings of the matrix, each with the name under which it takes a list of values besides.
_MATRIX = {
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
#: What each process may take.
LIMITS = ("timeout", "memory", "max_threads")
#: What is measured of a model, and how it is loaded.
SELECTION = ("metrics", "leave_out", "data", "evaluation", "backend", "trust", "arguments")
TEXT = text("a text that is not empty")
#: Arguments of ``audit``, which are options of the command, and no keys of a plan.
_ARGUMENTS = ("store", "engine", "rerun", "address")
#: How many keys a message names.
_NAMED = 8


def list_settings() -> dict[str, str]:
    """Return the settings of the matrix, each with the name under which it takes a list of values besides.

    All but the shape take a list under their own name too, because a shape is a list itself. The arguments by which
    plugins say what is profiled in place of a model are settings as well: a mesh of devices.
    """
    return {**_MATRIX, **{name: name for name in list_placing_arguments()}}


def read_matrix(content: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting that a model has: its cases are their product."""
    matrix = {}
    for setting, plural in list_settings().items():
        if setting != plural and setting in content and plural in content:
            raise ArgumentError(f"{setting} and {plural} are the same setting; give one of them")
        key = setting if setting in content else plural
        if key not in content:
            continue
        entry = content[key]
        is_list = isinstance(entry, (list, tuple)) and key != "input_shape"  # one shape is a list itself
        values = tuple(entry) if is_list else (entry,)
        if not values:
            raise ArgumentError(f"{key} is empty: give at least one value")
        matrix[setting] = tuple(check_setting(setting, value) for value in values)
    return matrix


def check_argument(name: str, value: Any) -> Any:
    """Return the argument of a function, by the rule that it has everywhere; one without a rule as it is."""
    return _CHECKS[name](name, value) if name in _CHECKS else value


def check_setting(name: str, value: Any) -> Any:
    """Return one value of a setting, in the form that is stored with a case."""
    if name == "input_shape":
        value = _parse_shape(value)
        parse_input_shape(read_shape(value))
        return value
    if name == "dtype":
        return TEXT("dtype", value)
    if name not in _CHECKS:
        return value
    value = ONE_BATCH_SIZE(name, value) if name == "batch_size" else _CHECKS[name](name, value)
    return value.value if isinstance(value, Enum) else value


def _parse_shape(value: Any) -> Any:
    """Return a shape with lists for texts: ``[3, 32, 32]`` for "3,32,32", so that both are the same case."""
    texts = [value] if isinstance(value, str) else value
    are_texts = isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
    if not are_texts or not texts:
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
    """Return a shape as TOML has it: a list, or a table with the dtype where that is not the usual one."""
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


def check_names(key: str, value: Any) -> tuple[str, ...] | None:
    """Return names of metrics, each as its status key has it; None for every metric."""
    names = status_names(key, value)
    if names == []:
        raise ArgumentError(f"{key} is empty: name what is to be measured, or leave it out for every metric")
    return None if names is None else tuple(map(name_of_metric, names))


def check_texts(key: str, value: Any) -> tuple[str, ...]:
    """Return one text or a list of texts as a tuple."""
    return tuple(TEXT(key, single) for single in (value if isinstance(value, (list, tuple)) else [value]))


def require_known(content: Mapping[str, Any], keys: tuple[str, ...], elsewhere: tuple[str, ...], what: str) -> None:
    """Raise `ArgumentError` for a key that is not known here; ``elsewhere`` has those of the other part of a plan."""
    for key in content:
        if key in elsewhere:
            part = "in a [[models]] table" if what == "plan" else "at the top of the plan, before the first [[models]]"
            raise ArgumentError(f"{key!r} does not belong in a {what}; write it {part}")
        if key in _ARGUMENTS:
            raise ArgumentError(f"{key!r} is no key of a {what}: give it to the audit, as {key}=... or --{key}")
        if key not in keys:
            likely = nearest(key, keys)
            if likely is None:
                raise ArgumentError(f"unknown key {key!r}; a {what} has {', '.join(keys[:_NAMED])}, ...")
            names = ", ".join(by_likeness(key, keys)[:_NAMED])
            raise ArgumentError(
                f"unknown key {key!r}; did you mean {likely!r}? a {what} has, nearest first: {names}, ..."
            )
