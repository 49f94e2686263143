"""From the return value of a function to the outcome of each of its status keys, with the gaps of each.

`read_outcomes` is the one place that decides what a function may return. A value has the gaps of the trace and of the
statuses that it was computed from.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..error_text import shown
from ..errors import InputError
from ..times.measurement import Measurement
from ..trace.bounds import UNKNOWN_ENDS
from ..trace.completeness import find_gaps, is_complete
from ..trace.records import ModelTrace
from .calls import Call
from .function import ProfilerFunction, describe
from .outcome import Completeness, Failure, Outcome, Unavailable, is_number
from .registry import Binding
from .status import Metric, StatusKey

__all__ = ["apply_gaps", "inherit_gaps", "make_inapplicable", "read_outcomes"]

#: The types of most values, which are never wrong.
_PLAIN = frozenset((int, float, str, bool, type(None)))
_COLLECTIONS = (Mapping, list, tuple, set, frozenset)
#: The most collections inside each other in a value of a metric: files of reports are read to some depth alone.
_DEEPEST = 100


def read_outcomes(
    call: Call, returned: Any, inapplicable: Mapping[str, str], sources: Iterable[StatusKey]
) -> dict[str, Outcome]:
    """Read what a function returned: a dict by name, or the bare value of its only key.

    A value may be a number, a text, a `Measurement`, a table, or a list, tuple or dict of these; a key that is no
    metric may have any value. NaN is no value. A value has the gaps of all that it was computed from.

    Args:
        call: The call of the function.
        returned: What it returned.
        inapplicable: The keys that have no meaning for the model, each with the reason.
        sources: All statuses that the value depends on.

    Raises `TypeError` for anything else.
    """
    binding = call.binding
    function, keys = binding.function, binding.contract.keys
    if isinstance(returned, (Outcome, Unavailable)):
        returned = dict.fromkeys(keys, returned)
    if not isinstance(returned, dict):
        if len(keys) > 1:
            _require_finished(function, returned)  # of a generator there is more to say
            raise TypeError(
                f"{describe(function)} computes {', '.join(keys)} but returned {type(returned).__name__}: with several "
                "status keys, return a dict of values by name"
            )
        returned = {binding.key.NAME: returned}
    if returned.keys() != keys.keys():
        raise _make_keys_error(binding, returned)
    traces = [trace for trace in call.traces if not is_complete(trace)]
    incomplete = [source for source in sources if source.outcome.missing]
    outcomes: dict[str, Outcome] = {}
    for name, key in keys.items():
        if name in inapplicable:
            outcomes[name] = make_inapplicable(inapplicable[name])
        else:
            outcome = _read_outcome(function, key, returned[name], traces)
            outcomes[name] = inherit_gaps(outcome, incomplete) if incomplete else outcome
    return outcomes


def make_inapplicable(reason: str) -> Outcome:
    """Return the outcome of a key that has no meaning for the model."""
    return Outcome.of(Unavailable(f"does not apply to this model: {reason}", is_applicable=False))


def _make_keys_error(binding: Binding, returned: Mapping[Any, Any]) -> TypeError:
    """Return the error of a dict that has not the keys which its function declares, and no others."""
    function, declared = describe(binding.function), list(binding.contract.keys)
    absent = [name for name in (binding.key.NAME, *declared) if name not in returned]
    if absent:
        return TypeError(
            f"{function} was called for {binding.key.NAME!r} but returned a dict without {absent[0]!r}, with the keys: "
            f"{_list_names(returned)}"
        )
    undeclared = [name for name in returned if name not in declared]
    return TypeError(
        f"{function} returned {_list_names(undeclared)}, which get_bounded_status_keys() does not declare; it declares "
        f"{_list_names(declared)}"
    )


def _read_outcome(function: ProfilerFunction, key: StatusKey, returned: Any, traces: Sequence[ModelTrace]) -> Outcome:
    """Return the outcome of a key, with the gaps of the traces that it was computed from."""
    outcome = Outcome.of(returned)
    if type(outcome.value) not in _PLAIN:
        _require_finished(function, outcome.value)
        if isinstance(key, Metric):
            _require_text(function, key, outcome.value)
    if is_number(outcome.value):
        outcome = _check_number(function, key, outcome)
    for trace in traces:
        outcome = apply_gaps(outcome, key, trace)
    return outcome


def _check_number(function: ProfilerFunction, key: StatusKey, outcome: Outcome) -> Outcome:
    """Return the outcome of a number: no value for NaN, and a failure for a negative time, which no clock tells."""
    value = outcome.value
    if math.isnan(float(value)):
        reasons = (f"{describe(function)} returned {key.NAME}={value}, which is no number", *outcome.missing)
        return replace(outcome, value=None, completeness=Completeness.UNAVAILABLE, missing=reasons, bounds=None)
    least = value.min if isinstance(value, Measurement) else float(value)
    if least < 0 and isinstance(key, Metric) and key.UNIT == "s":
        problem = f"{key.NAME} has {least} s: a time is 0 seconds or more; read another clock"
        return Outcome.of(Failure(InputError(problem)))
    return outcome


def _require_finished(function: ProfilerFunction, value: Any) -> None:
    """Raise `TypeError` for a value that must still be run, such as a generator."""
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


def _require_text(function: ProfilerFunction, key: Metric, value: Any) -> None:
    """Raise `TypeError` for a value of which a report could only write where it lies in memory."""
    for part in _list_innermost(value):
        if isinstance(part, _COLLECTIONS):
            raise TypeError(
                f"{describe(function)} returned {key.NAME}={shown(value)}, which contains itself, or has more than "
                f"{_DEEPEST} collections inside each other; return a value that a file can hold"
            )
        if _has_no_text(part):
            where = "" if part is value else f" with {shown(part)} in it"
            raise TypeError(
                f"{describe(function)} returned {key.NAME}={shown(value)}{where}, which has no text for a report; "
                "return a number, a text, a Measurement, a table, or a list or dict of these"
            )


def _list_innermost(value: Any) -> Iterator[Any]:
    """Yield the values in nested collections; what lies too deep is yielded as the collection that it is."""
    pending = [(value, 0)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, _COLLECTIONS) and depth < _DEEPEST:
            pending += [(inner, depth + 1) for inner in (part.values() if isinstance(part, Mapping) else part)]
        else:
            yield part


def _has_no_text(value: Any) -> bool:
    kind: Any = type(value)
    is_plain_object = kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__
    return inspect.isroutine(value) or (is_plain_object and not is_number(value))


def _list_names(names: Any) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def apply_gaps(outcome: Outcome, key: StatusKey, trace: ModelTrace) -> Outcome:
    """Return the outcome of a key that is computed from a trace, with the gaps of the trace."""
    if outcome.value is None:
        return outcome
    gaps = find_gaps(trace, key.DERIVED_FROM, key.COUNTS, outcome.value if is_number(outcome.value) else None)
    error = gaps.error
    if gaps.error_of_zero is not None and not outcome.value:
        error = gaps.error_of_zero
    if error is not None:
        return Outcome.of(Failure(error))
    bounds = gaps.bounds if key.COUNTS or key.GROWS else UNKNOWN_ENDS
    return outcome.add_missing(gaps.missing, bounds) if gaps.missing else outcome


def inherit_gaps(outcome: Outcome, sources: Iterable[StatusKey]) -> Outcome:
    """Return the outcome of a status that was computed from others: without what they lack it is not complete.

    No bound of a number is known then: a quotient of two lower bounds may be above or below the complete value.
    """
    missing = [words for source in sources for words in source.outcome.missing]
    if not missing:
        return outcome
    return outcome.add_missing(missing, UNKNOWN_ENDS if is_number(outcome.value) else None)
