"""A run that contradicts the static trace makes all values computed from the trace incomplete, earlier ones too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ..inputs import NoInputs
from ..trace.completeness import TracePart
from ..trace.observed_runs import add_contradiction, explain_contradiction
from ..trace.records import ModelTrace
from .cache import Remembered
from .calls import Call
from .intrinsic import Inputs, Trace
from .outcome import Outcome
from .returned import apply_gaps, inherit_gaps
from .status import StatusKey

__all__ = ["ComparedRuns"]


class _Replacement(NamedTuple):
    """A status that a contradiction has made incomplete, kept so that no other one gets its ``id``; and the new one."""

    past: StatusKey
    present: StatusKey


class ComparedRuns:
    """Compares observed runs with the trace if one of the two is new.

    Attributes:
        contradiction: How a run contradicts the trace, in words; empty if none does.
    """

    def __init__(self, memory: dict[str, Remembered]) -> None:
        self.contradiction = ""
        self._memory = memory
        self._replacements: dict[int, _Replacement] = {}

    def compare(self, outcomes: Mapping[str, Outcome]) -> None:
        """Compare the outcomes of a function, which are remembered already, with earlier values."""
        traced = self._memory.get(Trace.NAME)
        if traced is None or not isinstance(traced.status.value, ModelTrace):
            return
        new = self._memory if Trace.NAME in outcomes else outcomes  # earlier pairs are not compared again
        runs = [
            run
            for name, remembered in self._memory.items()
            if name in new and remembered.status.outcome.runs and _is_like(remembered, traced)
            for run in remembered.status.outcome.runs
        ]
        difference = explain_contradiction(traced.status.value, runs) if runs else ""
        if difference:
            self.contradiction = difference
            self._contradict(traced.status)

    def renew_call(self, call: Call) -> Call:
        """Return a call with its statuses as they are after all contradictions, and their values."""
        return call.map_statuses(self._renew) if self._replacements else call

    def _renew(self, status: StatusKey) -> StatusKey:
        """Return a status as it is after all contradictions; itself, if it needed no trace that was contradicted."""
        if id(status) in self._replacements:
            return self._renew(self._replacements[id(status)].present)  # which a later run may have contradicted too
        sources = tuple(map(self._renew, status.sources))
        if all(source is past for source, past in zip(sources, status.sources, strict=True)):
            return status
        return self._replace(status, status.with_outcome(_limit_outcome(status, sources), sources))

    def _contradict(self, traced: StatusKey) -> None:
        """Mark the remembered trace as contradicted, and all remembered values that were computed from it.

        Nothing is computed again: a value keeps its number, and is not complete any more.
        """
        trace = add_contradiction(traced.value, self.contradiction)
        self._replace(traced, traced.with_outcome(replace(traced.outcome, value=trace), traced.sources))
        for name, remembered in self._memory.items():
            self._memory[name] = remembered.map_statuses(self._renew)

    def _replace(self, past: StatusKey, present: StatusKey) -> StatusKey:
        self._replacements[id(past)] = _Replacement(past, present)
        return present


def _is_like(timed: Remembered, traced: Remembered) -> bool:
    """Return whether a value is of the same inputs, and of the same model, as the trace is."""
    if timed.arguments is None or traced.arguments is None or timed.fingerprint != traced.fingerprint:
        return False
    inputs = timed.arguments.get(Inputs.NAME)
    return inputs is traced.arguments.get(Inputs.NAME) and not isinstance(inputs, NoInputs)


def _limit_outcome(status: StatusKey, sources: tuple[StatusKey, ...]) -> Outcome:
    """Return the outcome of a status with the gaps of its sources, of which one was contradicted."""
    outcome = status.outcome
    if outcome.value is None:
        return outcome
    trace = next((source.value for source in sources if source.NAME == Trace.NAME), None)
    if trace is not None and status.DERIVED_FROM is not TracePart.WEIGHTS:
        outcome = apply_gaps(outcome, status, trace)
    return inherit_gaps(outcome, sources)
