"""The values in a plan: the keys, and the valid values of each, shapes among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from profilerkit.arguments.checks import ONE_BATCH_SIZE, text
from profilerkit.arguments.names import status_names
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError, by_likeness, nearest
from profilerkit.hooks.offers import name_of_metric
from profilerkit.input_shapes import parse_input_shape
from profilerkit.models.opening import list_placing_arguments
from profilerkit.piping.intrinsic import INTRINSIC

TEXT = text("a text that is not empty")
#: The checks of the arguments of functions.
_CHECKS = {name: check for function in INTRINSIC for name, check in function.CHECKS.items()}
#: The checks of settings: the checks of arguments, with these exceptions.
_SETTING_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **_CHECKS,
    "batch_size": ONE_BATCH_SIZE,
    "dtype": TEXT,
    "input_shape": lambda name, value: check_shape(value),
}
#: The keys of the settings of a model: each takes a value or a list of values, but a shape, which is a list itself.
_SETTINGS = (
    *("batch_size", "input_shape", "input_shapes", "dtype", "device", "mode", "compile", "autocast", "training"),
    "num_threads",
)
#: How often and how long times are measured: one value for all models, or for a model.
SAMPLING = ("max_seconds", "num_iters", "warmup", "min_samples", "relative_precision", "confidence")
#: The limits of each process.
LIMITS = ("timeout", "memory", "max_threads")
#: The measurements of a model, and how it is loaded.
SELECTION = ("metrics", "leave_out", "data", "evaluation", "backend", "trust", "arguments")
#: Arguments of ``audit``, which are options of the command and not keys of a plan.
_ARGUMENTS = ("store", "engine", "rerun", "address")
#: How many keys a message names.
_NAMED = 8


def list_setting_keys() -> tuple[str, ...]:
    """Return the keys of settings, with the arguments by which plugins replace the profiled model, such as a mesh."""
    return *_SETTINGS, *list_placing_arguments()


def find_setting(key: str) -> str:
    """Return the setting that stands under a key."""
    return "input_shape" if key == "input_shapes" else key


def read_matrix(content: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each setting that a model has: its cases are their product."""
    if "input_shape" in content and "input_shapes" in content:
        raise ArgumentError("input_shape and input_shapes are the same setting; give one of them")
    return {find_setting(key): _read_values(key, content[key]) for key in list_setting_keys() if key in content}


def _read_values(key: str, entry: Any) -> tuple[Any, ...]:
    """Return the values of a setting: a single value, or the items of a list; the list of one shape is one value."""
    is_list = isinstance(entry, (list, tuple)) and key != "input_shape"
    values = tuple(entry) if is_list else (entry,)
    if not values:
        raise ArgumentError(f"{key} is empty: give at least one value")
    return tuple(check_setting(find_setting(key), value) for value in values)


def check_argument(name: str, value: Any) -> Any:
    """Return the argument of a function after its check; an argument without a check is returned as it is."""
    return _CHECKS[name](name, value) if name in _CHECKS else value


def check_setting(name: str, value: Any) -> Any:
    """Return one value of a setting, in the form that is stored with a case."""
    checked = _SETTING_CHECKS[name](name, value) if name in _SETTING_CHECKS else value
    return checked.value if isinstance(checked, Enum) else checked


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
    """Raise `ArgumentError` for a key that is not known here; ``elsewhere`` has the keys of the other part."""
    for key in content:
        if key in elsewhere:
            part = "in a [[models]] table" if what == "plan" else "at the top of the plan, before the first [[models]]"
            raise ArgumentError(f"{key!r} does not belong in a {what}; write it {part}")
        if key in _ARGUMENTS:
            raise ArgumentError(f"{key!r} is no key of a {what}: give it to the audit, as {key}=... or --{key}")
        if key not in keys:
            raise ArgumentError(f"unknown key {key!r}; {_suggest_keys(key, keys, what)}, ...")


def _suggest_keys(key: str, keys: tuple[str, ...], what: str) -> str:
    likely = nearest(key, keys)
    if likely is None:
        return f"a {what} has {', '.join(keys[:_NAMED])}"
    return f"did you mean {likely!r}? a {what} has, nearest first: {', '.join(by_likeness(key, keys)[:_NAMED])}"


# Shapes ---------------------------------------------------------------------------------------------------------------


def check_shape(value: Any) -> Any:
    """Return a shape as TOML has it, which is stored; raise `ArgumentError` for an invalid shape.

    `read_shape` makes the form for `profilerkit.profile` of it when a case is run.
    """
    if isinstance(value, str):
        raise ArgumentError(f"input_shape: {shown(value)} is a text; write a list, [3, 224, 224]")
    parse_input_shape(read_shape(value))
    return value


def read_shape(value: Any) -> Any:
    """Return a shape in the stored form as `profile` takes it: ``{shape = [128], dtype = "int64"}`` has a dtype."""
    if isinstance(value, Mapping):
        is_one = "shape" in value and value.keys() <= {"shape", "dtype"}
        if is_one and isinstance(value.get("dtype", ""), str):  # else two inputs have these names
            sizes = _read_sizes(value["shape"])
            return (sizes, value["dtype"]) if "dtype" in value else sizes
        return {name: read_shape(shape) for name, shape in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(value) if all(map(_is_size, value)) else [read_shape(shape) for shape in value]
    return value


def _read_sizes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)) or not all(map(_is_size, value)):
        raise ArgumentError(f"input_shape: shape = {shown(value)} is no list of sizes; write {{shape = [128]}}")
    return tuple(value)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
