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
    keys = [value] if isinstance(value, str) or isinstance(getattr(value, "NAME", None), str) else value
    try:
        return [status_name(f"an entry of {argument}", key) for key in several(keys)]
    except (TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"{argument}={shown(value)}: give names of status keys or their classes, such as ['macs', TotalParams]"
        ) from None


def argument_hint(name: str, taken: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """Return the end of the error message for an unknown argument: the nearest name, or the names that are accepted.

    Args:
        name: The argument.
        taken: The names that are accepted here.
        elsewhere: Names that are accepted somewhere else, each with a sentence that says where.
    """
    names = sorted({*taken} - {name})
    if name in elsewhere:
        return elsewhere[name]
    meant = nearest(name, [*names, *elsewhere])
    if meant is None:
        return f"they take: {', '.join(names)}"
    return f"did you mean {meant!r}{'' if meant in names else f'; {elsewhere[meant]}'}?"


#: The argument here for the names that people bring along: torchinfo's, ptflops', thop's, fvcore's and DeepSpeed's too.
_HERE = {
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
    """Return what to give in place of another profiler's argument, ready to paste where that is known; else nothing.

    >>> foreign_hint("input_size", (8, 3, 224, 224), {"input_shape"})
    'give input_shape=(3, 224, 224), batch_size=8: the shape of one sample, and the batch by itself'
    """
    here = _HERE.get(name)
    if here is None or here not in taken:
        return ""
    if name == "input_size" and isinstance(value, (tuple, list)) and all(type(size) is int for size in value):
        batch = f", batch_size={value[0]}" if len(value) > 1 and value[0] != 1 else ""
        shape = tuple(value[1:]) if len(value) > 1 else tuple(value)
        return f"give input_shape={shape!r}{batch}: the shape of one sample, and the batch by itself"
    return f"did you mean {here!r}?"
