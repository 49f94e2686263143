"""Runs of the model, compared with the trace, to notice a model that takes another path when it is run.

A backend supplies an `ObservedRun` wherever a run happens anyway; `explain_contradiction` compares it with the trace.
None is no observation, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..count_text import format_times, list_some, name_several
from .layer_paths import parent_path
from .records import ModelTrace

__all__ = ["MeasuredPeak", "ObservedRun", "TimedLayers", "Witnessed", "add_contradiction", "explain_contradiction"]

#: Of the layers that were called another number of times, so many are named.
_NAMED = 3


@dataclass(frozen=True)
class ObservedRun:
    """The work that was observed in one forward pass on real tensors.

    Attributes:
        name: The run in words: "the first run".
        macs: The multiply-accumulates of all its operators, each by its own formula; None if some were not observed.
        calls: The number of calls of each layer, by its path; None if calls were not observed.
    """

    name: str
    macs: int | None = None
    calls: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Witnessed:
    """The result of a function that ran the model for a value: the value, and the observed runs.

    The runs are compared with the static trace.
    """

    value: Any
    runs: tuple[ObservedRun, ...]


class TimedLayers(list[Any]):
    """The times of layers, with the observed runs: ``runs``."""

    def __init__(self, times: Iterable[Any] = (), runs: Iterable[ObservedRun] = ()) -> None:
        """Hold the times with their runs."""
        super().__init__(times)
        self.runs: tuple[ObservedRun, ...] = tuple(runs)


class MeasuredPeak(int):
    """The bytes of a measured peak, with the observed runs: ``runs``."""

    runs: tuple[ObservedRun, ...]

    def __new__(cls, peak: int, runs: Iterable[ObservedRun] = ()) -> MeasuredPeak:
        """Return the number with its runs."""
        measured = super().__new__(cls, peak)
        measured.runs = tuple(runs)
        return measured


def explain_contradiction(trace: ModelTrace, runs: Iterable[ObservedRun]) -> str:
    """Return a text about a difference between a run and the trace; empty if they agree, or cannot be compared."""
    if trace.failure is not None:
        return ""
    for run in runs:
        difference = _compare_macs(trace, run) or _compare_calls(trace, run)
        if difference:
            return (
                f"the model does other work when it is run than in the static pass, which is counted here: {difference}"
            )
    return ""


def add_contradiction(trace: ModelTrace, difference: str) -> ModelTrace:
    """Return the trace with a contradiction; its tables, if they were made already, are the same objects.

    A report recognizes a table by its identity if it shows the table with the times of the layers.
    """
    contradictions = tuple(dict.fromkeys((*trace.contradictions, difference)))
    changed = object.__new__(type(trace))
    vars(changed).update(vars(trace), contradictions=contradictions)
    return changed


def _compare_macs(trace: ModelTrace, run: ObservedRun) -> str:
    """Return how the MACs of a run differ; with branches they may lie anywhere between the ends of the trace."""
    if run.macs is None or trace.operator_macs is None or run.macs == trace.operator_macs:
        return ""
    if not trace.choices:
        return f"{run.name} has {run.macs:,} MACs in its operators, the static pass {trace.operator_macs:,}"
    bounds = trace.bounds("macs")
    is_between = (bounds.low is None or run.macs >= bounds.low) and (bounds.high is None or run.macs <= bounds.high)
    if is_between or trace.macs != trace.operator_macs:  # with formulas for layers, the ends come from the formulas
        return ""
    ends = " and ".join(f"{end:,}" for end in (bounds.low, bounds.high) if end is not None)
    return f"{run.name} has {run.macs:,} MACs in its operators, and the static pass has the ends {ends}"


def _compare_calls(trace: ModelTrace, run: ObservedRun) -> str:
    """Return how the calls of layers differ.

    Layers inside a layer that called none of them do not count: they may be in a fused kernel or script.
    """
    if run.calls is None or trace.choices or trace.uncounted:  # the trace itself names its gaps
        return ""
    traced = {layer.path: layer.call_count for layer in trace.layers}
    called_inside = {parent_path(path) for path, calls in run.calls.items() if calls}
    others = [
        path
        for path, calls in run.calls.items()
        if traced.get(path, calls) != calls and (calls or parent_path(path) in called_inside)
    ]
    if not others:
        return ""
    named = [f"{path!r} {format_times(run.calls[path])} (static pass: {traced[path]})" for path in others]
    return f"{run.name} calls {name_several('layer', len(others))} {list_some(named, _NAMED)}"
