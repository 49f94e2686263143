"""Values that lack something because of what they were computed from: a trace, or other statuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..trace.bounds import UNKNOWN_ENDS, Bounds, Sign
from ..trace.completeness import Gaps, find_gaps
from ..trace.records import ModelTrace
from .outcome import Completeness, Failure, Outcome, is_number
from .status import StatusKey

__all__ = ["apply_gaps", "inherit_bounds", "inherit_gaps"]


def apply_gaps(outcome: Outcome, key: StatusKey, trace: ModelTrace | None) -> Outcome:
    """Return the outcome of a key that follows from a trace: without what the trace lacks it is not complete."""
    if trace is None or key.DERIVED_FROM is None or outcome.value is None:
        return outcome
    gaps = find_gaps(trace, key.DERIVED_FROM, key.COUNTS, outcome.value if is_number(outcome.value) else None)
    error = gaps.error
    if gaps.error_of_zero is not None and not outcome.value:
        error = gaps.error_of_zero
    if error is not None:
        return Outcome.of(Failure(error))
    missing = tuple(dict.fromkeys((*gaps.missing, *outcome.missing)))
    if not missing:
        return outcome
    return replace(outcome, completeness=Completeness.PARTIAL, missing=missing, bounds=_join_bounds(outcome, gaps))


def _join_bounds(outcome: Outcome, gaps: Gaps) -> Bounds | None:
    """Return the ends of a value that lacks what its trace lacks; None is "this much, or more".

    ======================  ===================  ==============================
    the value alone         its trace            the value's ends
    ======================  ===================  ==============================
    complete or partial     complete             those of the value alone
    complete                partial              those that the trace gives
    partial, no number      partial              those that the trace gives
    partial                 partial, same ends   these
    partial                 partial, other ends  `UNKNOWN_ENDS`, as what both lack adds up in no known way
    ======================  ===================  ==============================
    """
    if not gaps.missing:
        return outcome.bounds
    if outcome.completeness is Completeness.COMPLETE or outcome.ends is None:
        return gaps.bounds
    of_trace = gaps.bounds or Bounds(outcome.value, None)
    return outcome.ends if outcome.ends == of_trace else UNKNOWN_ENDS


def inherit_gaps(outcome: Outcome, sources: Iterable[StatusKey]) -> Outcome:
    """Return the outcome of a status that was computed from others: without what they lack it is not complete."""
    sources = tuple(sources)
    missing = tuple(dict.fromkeys(words for source in sources for words in source.outcome.missing))
    if not missing or outcome.completeness is not Completeness.COMPLETE:
        return outcome
    bounds = inherit_bounds(sources, outcome.value)
    return replace(outcome, completeness=Completeness.PARTIAL, missing=missing, bounds=bounds)


def inherit_bounds(sources: Iterable[StatusKey], value: Any) -> Bounds | None:
    """Return the ends of a value made of partial ones: where all of these are lower bounds, so is the value.

    The same goes for upper bounds. Of a value that is made of bounds of both kinds nothing is known. None is "this
    much, or more".
    """
    partial = [source.outcome for source in sources if source.outcome.completeness is Completeness.PARTIAL]
    signs = {Sign.LOWER if outcome.ends is None else outcome.ends.sign(outcome.value) for outcome in partial}
    if signs == {Sign.LOWER} or not is_number(value):
        return None
    return Bounds(None, value) if signs == {Sign.UPPER} else UNKNOWN_ENDS
