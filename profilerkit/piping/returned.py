"""What a function returned, as the outcome of each of its status keys: the one place that says what it may return."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..error_text import shown
from ..errors import InputError
from ..times.measurement import Measurement
from ..trace.records import ModelTrace
from ..unfinished import is_unfinished
from .function import ProfilerFunction, describe
from .gaps import apply_gaps
from .outcome import Completeness, Failure, Outcome, Unavailable, is_number
from .status import Metric, StatusKey

__all__ = ["read_outcomes"]


def read_outcomes(
    function: ProfilerFunction, asked: StatusKey, returned: Any, trace: ModelTrace | None
) -> dict[str, Outcome]:
    """Read what a function returned: a dict by name, or the bare value of its only key.

    A value may be a number, a text, a `Measurement`, a table, or a list, tuple or dict of these; a key that is no
    metric may have any value. NaN is no value. What follows from a trace lacks what that trace lacks.

    Args:
        function: The function.
        asked: The key that it was called for.
        returned: What it returned.
        trace: The trace among its arguments, if there is one.

    Raises `TypeError` for anything else.
    """
    _require_finished(function, returned)
    declared = [key.NAME for key in function.list_keys()]
    if isinstance(returned, (Outcome, Unavailable)):
        return dict.fromkeys(declared, Outcome.of(returned))
    if not isinstance(returned, dict):
        if len(declared) > 1:
            raise TypeError(
                f"{describe(function)} computes {', '.join(declared)} but returned {type(returned).__name__}: "
                "with several status keys, return a dict of values by name"
            )
        return {asked.NAME: _read_outcome(function, asked, returned, trace)}
    absent = [key for key in (asked.NAME, *declared) if key not in returned]
    if absent:
        raise TypeError(
            f"{describe(function)} was called for {asked.NAME!r} but returned a dict without {absent[0]!r}, with the "
            f"keys: {_list_names(returned)}"
        )
    undeclared = [key for key in returned if key not in declared]
    if undeclared:
        raise TypeError(
            f"{describe(function)} returned {_list_names(undeclared)}, which get_bounded_status_keys() does not "
            f"declare; it declares {_list_names(declared)}"
        )
    return {key.NAME: _read_outcome(function, key, returned[key.NAME], trace) for key in function.list_keys()}


def _read_outcome(function: ProfilerFunction, key: StatusKey, returned: Any, trace: ModelTrace | None) -> Outcome:
    outcome = Outcome.of(returned)
    _require_finished(function, outcome.value)
    if isinstance(key, Metric):
        _require_readable(function, key, outcome.value)
    if is_number(outcome.value) and math.isnan(float(outcome.value)):
        reasons = (f"{describe(function)} returned {key.NAME}={outcome.value}, which is no number", *outcome.missing)
        return replace(outcome, value=None, completeness=Completeness.UNAVAILABLE, missing=reasons, bounds=None)
    return apply_gaps(_refuse_negative_time(key, outcome), key, trace)


def _require_finished(function: ProfilerFunction, value: Any) -> None:
    """Raise `TypeError` for what has yet to be run to become a value."""
    if not is_unfinished(value):
        return
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody awaited it
        raise TypeError(
            f"{describe(function)} returned a coroutine: it is an 'async def', and nothing awaits it here; make it a "
            "'def' that returns asyncio.run(...) of it"
        )
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise TypeError(
            f"{describe(function)} returned a generator: it contains 'yield'; return the value itself, or a list of "
            "what it yields"
        )
    if inspect.isawaitable(value):
        raise TypeError(f"{describe(function)} returned {shown(value)}, which is to be awaited; return its result")


def _require_readable(function: ProfilerFunction, key: StatusKey, value: Any) -> None:
    """Raise `TypeError` for a metric's value of which a report could only write where it lies in memory."""
    pending, seen = [value], set[int]()
    while pending:
        part = pending.pop()
        if isinstance(part, (Mapping, list, tuple, set, frozenset)) and id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Mapping):
            pending += part.values()
        elif isinstance(part, (list, tuple, set, frozenset)):
            pending += part
        elif inspect.isroutine(part) or _has_no_text(part):
            where = "" if part is value else f" with {shown(part)} in it"
            raise TypeError(
                f"{describe(function)} returned {key.NAME}={shown(value)}{where}, which has no text for a report; "
                "return a number, a text, a Measurement, a table, or a list or dict of these"
            )


def _has_no_text(value: Any) -> bool:
    kind: Any = type(value)
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__ and not is_number(value)


def _refuse_negative_time(key: StatusKey, outcome: Outcome) -> Outcome:
    """Return the outcome of a key; a failure for a negative time, which no clock tells."""
    if not (isinstance(key, Metric) and key.UNIT == "s" and is_number(outcome.value)):
        return outcome
    least = outcome.value.min if isinstance(outcome.value, Measurement) else float(outcome.value)
    if least >= 0:
        return outcome
    return Outcome.of(Failure(InputError(f"{key.NAME} has {least} s: a time is 0 seconds or more; read another clock")))


def _list_names(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none"
