"""Arguments that `profile`, `compare` and their isolated forms share, read and checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .arguments.checks import BATCH_SIZE, NAMES
from .arguments.names import foreign_hint
from .backend import DEVICE
from .error_text import shown
from .errors import ArgumentError
from .piping.function import ProfilerFunction, why_no_function

__all__ = ["read_functions", "read_names", "read_run_arguments", "require_no_foreign_input"]


def require_no_foreign_input(arguments: Mapping[str, Any], *alternatives: Any) -> None:
    """Raise `ArgumentError` for inputs under another profiler's name, where there are no others to run the model with.

    Elsewhere an unknown argument is a warning; this one would let every metric fail.
    """
    if any(value is not None for value in alternatives):
        return
    for name, value in arguments.items():
        hint = foreign_hint(name, value, ("inputs", "input_shape"))
        if hint:
            raise ArgumentError(f"there is no argument {name!r}; {hint}")


def read_functions(functions: Any) -> list[ProfilerFunction]:
    """Return one function, or several, as a list; raises `ArgumentError` for what is no `ProfilerFunction`."""
    if isinstance(functions, ProfilerFunction):
        return [functions]
    if isinstance(functions, (type, str, bytes, Mapping)) or not isinstance(functions, Iterable):
        raise ArgumentError(f"functions={shown(functions)}: {why_no_function(functions)}")
    listed = list(functions)
    for function in listed:
        if not isinstance(function, ProfilerFunction):
            raise ArgumentError(f"functions has {shown(function)}: {why_no_function(function)}")
    return listed


def read_names(names: Any, models: int) -> list[str] | None:
    """Return the names of so many models, None for None; raises `ArgumentError` unless there is one for each."""
    read: list[str] | None = NAMES("names", names)
    if read is not None and len(read) != models:
        raise ArgumentError(f"names has {len(read)} entries for {models} models; give one for each")
    return read


def read_run_arguments(batch_size: Any, device: Any) -> dict[str, Any]:
    """Return those of the two arguments that are not None; no backend has been looked for yet."""
    read = {"batch_size": BATCH_SIZE("batch_size", batch_size), "device": DEVICE("device", device)}
    return {name: value for name, value in read.items() if value is not None}
