"""Which functions a profiler can take."""

from __future__ import annotations

from typing import Any

from ..error_text import shown
from ..errors import ArgumentError
from .function import ProfilerFunction, describe

__all__ = ["PROVIDED", "RESERVED", "require_usable", "why_no_function"]

#: What every profiler provides by name; no status key may be called so.
PROVIDED = ("model", "data_splits", "backend", "profiler")
#: Parameters of the profiler's own methods, which could never reach a function.
RESERVED = frozenset({"name", "recompute", "print_mode", "short_print", "strict"})


def require_usable(function: Any) -> None:
    """Raise for a function that no profiler can take.

    Raises `ArgumentError` for what is no `ProfilerFunction`, and `TypeError` for a function whose arguments cannot be
    passed by name, or that takes or computes a name which the profiler itself uses.
    """
    if not isinstance(function, ProfilerFunction):
        raise ArgumentError(f"cannot register {shown(function)}: {why_no_function(function)}")
    if not function.can_pipe():
        raise TypeError(
            f"cannot register {describe(function)}: arguments are passed by name, which *args and **kwargs in its "
            "signature make ambiguous; name its parameters"
        )
    reserved = sorted(RESERVED & function.parameters().keys())
    if reserved:
        raise TypeError(
            f"{describe(function)} has a parameter {reserved[0]!r}, which the methods of a profiler, such as "
            "compute_status, take themselves and cannot pass on; rename the parameter"
        )
    for key in function.list_keys():
        if key.NAME in PROVIDED:
            raise TypeError(
                f"{describe(function)}: a status key cannot be called {key.NAME!r}, every profiler provides that"
            )


def why_no_function(value: Any) -> str:
    """Say why a value is no function of a profiler's, and what to do."""
    if isinstance(value, type) and issubclass(value, ProfilerFunction):
        return f"it is a class; give an instance, {value.__name__}()"
    if isinstance(getattr(value, "NAME", None), str):
        return "it is a metric, no ProfilerFunction; ask for it with metrics=, and register what computes it"
    if callable(value):
        return "it is no ProfilerFunction; wrap it: ComputeEvalMetric(function), or ExternalProfilerFunction"
    return "it is no ProfilerFunction; give instances, such as ComputeEvalMetric(get_accuracy)"
