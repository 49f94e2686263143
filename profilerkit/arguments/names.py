"""Names that users give: status keys, by name or by class, and arguments, by the names of other profilers too."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from ..error_text import shown
from ..errors import ArgumentError, nearest
from .checks import several

__all__ = ["argument_hint", "foreign_hint", "status_name", "status_names"]


def status_name(argument: str, value: Any) -> str:
    """Return the name of a status key, from its name or its class; raises `ArgumentError` for any other value."""
    name = value if isinstance(value, str) else getattr(value, "NAME", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"{argument}={shown(value)}: give the name of a status key or its class, such as 'macs' or Macs"
        )
    return name


def status_names(argument: str, value: Any) -> list[str] | None:
    """Return the names of one or several status keys, from their names or classes; None for None."""
    if value is None:
        return None
    if isinstance(value, str) and "," in value:
        names = [name.strip() for name in value.split(",") if name.strip()]
        raise ArgumentError(f"{argument}={shown(value)}: give several names as a list, {argument}={names}")
    is_single = isinstance(value, str) or isinstance(getattr(value, "NAME", None), str)
    try:
        keys = [value] if is_single else several(value)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{argument}={shown(value)}: give names of status keys or their classes, such as ['macs', TotalParams]"
        ) from None
    return [status_name(f"an entry of {argument}", key) for key in keys]


def argument_hint(name: str, taken: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return the end of the error message for an unknown argument: the nearest name, or the names that are accepted.

    Args:
        name: The argument.
        taken: The names that are accepted here.
        elsewhere: Names that are accepted somewhere else, each with a sentence that says where.
    """
    if name in elsewhere:
        return elsewhere[name]
    names = sorted({*taken} - {name})
    guess = nearest(name, [*names, *elsewhere])
    if guess is None:
        return f"they take: {', '.join(names)}"
    if guess in names:
        return f"did you mean {guess!r}?"
    return f"did you mean {guess!r}; {elsewhere[guess]}?"


#: The argument to use, by its names elsewhere: in torchinfo, ptflops, thop, fvcore, DeepSpeed and others.
_OUR_NAMES = {
    **dict.fromkeys(("metric", "status", "keys", "col_names"), "metrics"),
    **dict.fromkeys(("exclude", "skip"), "leave_out"),
    **dict.fromkeys(("input_size", "input_res"), "input_shape"),
    **dict.fromkeys(("input_data", "example_input", "example_inputs", "dummy_input", "x"), "inputs"),
    **dict.fromkeys(("repeats", "iterations", "runs"), "num_iters"),
    **dict.fromkeys(("seconds", "time_limit"), "max_seconds"),
    "ignore_modules": "ignore",
    "custom_ops": "functions",
    "gpu": "device",
    "warm_up": "warmup",
    "threads": "num_threads",
}


def foreign_hint(name: str, value: Any, taken: Container[str]) -> str:
    """Return the advice for an argument of another profiler; an empty text if no ``taken`` argument is meant.

    >>> foreign_hint("input_size", (8, 3, 224, 224), {"input_shape"})
    'give input_shape=(3, 224, 224), batch_size=8: the shape of one sample, and the batch by itself'
    """
    our_name = _OUR_NAMES.get(name)
    if our_name is None or our_name not in taken:
        return ""
    if name == "input_size" and isinstance(value, (tuple, list)) and all(type(size) is int for size in value):
        shape, batch = tuple(value), ""
        if len(value) > 1:  # the first size is the batch
            shape = tuple(value[1:])
            batch = f", batch_size={value[0]}" if value[0] != 1 else ""
        return f"give input_shape={shape!r}{batch}: the shape of one sample, and the batch by itself"
    return f"did you mean {our_name!r}?"
