"""A run that contradicts the static trace makes all values computed from the trace incomplete, earlier ones too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..inputs import NoInputs
from ..trace.completeness import TracePart
from ..trace.observed_runs import ObservedRun, add_contradiction, explain_contradiction
from ..trace.records import ModelTrace
from .cache import Remembered, Resolved
from .intrinsic import Inputs, Trace
from .outcome import Outcome
from .returned import apply_gaps, inherit_gaps
from .status import StatusKey

__all__ = ["ComparedRuns"]


class ComparedRuns:
    """Compares observed runs with the trace if one of the two is new.

    Attributes:
        contradiction: How a run contradicts the trace, in words; empty if none does.
    """

    def __init__(self, memory: dict[str, Remembered]) -> None:
        self.contradiction = ""
        self._memory = memory
        #: By the ``id`` of the past status.
        self._superseded: dict[int, _Superseded] = {}

    def compare(self, outcomes: Mapping[str, Outcome]) -> None:
        """Compare the outcomes of a function, which are remembered already, with earlier values."""
        traced = self._memory.get(Trace.NAME)
        if traced is None or not isinstance(traced.status.value, ModelTrace):
            return
        new = self._memory if Trace.NAME in outcomes else outcomes  # earlier pairs are not compared again
        runs: list[ObservedRun] = []
        for name in new:
            remembered = self._memory.get(name)
            if remembered is not None and remembered.status.outcome.runs and _is_like(remembered, traced):
                runs += remembered.status.outcome.runs
        difference = explain_contradiction(traced.status.value, runs) if runs else ""
        if difference:
            self.contradiction = difference
            self._superseded |= _contradict_trace(self._memory, difference)

    def renew(self, resolved: Resolved) -> Resolved:
        """Return arguments with the statuses that were made incomplete since they were found."""
        if not self._superseded:
            return resolved
        statuses = {name: self._find_present(status) for name, status in resolved.statuses.items()}
        values = {name: statuses[name].value if name in statuses else value for name, value in resolved.values.items()}
        return Resolved(values, statuses)

    def _find_present(self, status: StatusKey) -> StatusKey:
        while id(status) in self._superseded:
            status = self._superseded[id(status)].present
        return status


class _Superseded(NamedTuple):
    """A status that a contradiction has made incomplete, kept so that its ``id`` stays its own; and the new one."""

    past: StatusKey
    present: StatusKey


def _is_like(timed: Remembered, traced: Remembered) -> bool:
    """Return whether a value is of the same inputs, and of the same model, as the trace is."""
    if timed.arguments is None or traced.arguments is None or timed.fingerprint != traced.fingerprint:
        return False
    inputs = timed.arguments.get(Inputs.NAME)
    return inputs is traced.arguments.get(Inputs.NAME) and not isinstance(inputs, NoInputs)


def _contradict_trace(memory: dict[str, Remembered], difference: str) -> dict[int, _Superseded]:
    """Mark the remembered trace as contradicted, with all values computed from it; return the superseded statuses.

    Nothing is computed again: a value keeps its number, and is not complete any more.
    """
    past = memory[Trace.NAME].status
    trace = add_contradiction(past.value, difference)
    present = past.with_outcome(replace(past.outcome, value=trace), past.sources)
    superseded = {id(past): _Superseded(past, present)}
    waiting = dict(memory)
    while changed := [name for name, remembered in waiting.items() if _depends(remembered.status, superseded)]:
        for name in changed:
            memory[name] = _renew(waiting.pop(name), superseded, trace)
    return superseded


def _depends(status: StatusKey, superseded: Mapping[int, _Superseded]) -> bool:
    return any(id(part) in superseded for part in (status, *status.sources))


def _renew(remembered: Remembered, superseded: dict[int, _Superseded], trace: ModelTrace) -> Remembered:
    """Return a remembered value with its past statuses replaced by the present ones, with the gaps of these.

    The past statuses count as superseded from now on.
    """
    status = remembered.status
    if id(status) not in superseded:
        sources = tuple(_replace_past(source, superseded) for source in status.sources)
        present = status.with_outcome(_limit_outcome(status, sources, trace), sources)
        superseded[id(status)] = _Superseded(status, present)
    arguments = remembered.arguments
    if arguments is not None:
        arguments = {name: _replace_past(value, superseded) for name, value in arguments.items()}
    return replace(remembered, status=superseded[id(status)].present, arguments=arguments)


def _replace_past(value: Any, superseded: Mapping[int, _Superseded]) -> Any:
    return superseded[id(value)].present if id(value) in superseded else value


def _limit_outcome(status: StatusKey, sources: tuple[StatusKey, ...], trace: ModelTrace) -> Outcome:
    outcome = status.outcome
    if outcome.value is None:
        return outcome
    if any(source.value is trace for source in sources) and status.DERIVED_FROM is not TracePart.WEIGHTS:
        outcome = apply_gaps(outcome, status, trace)
    return inherit_gaps(outcome, sources)
