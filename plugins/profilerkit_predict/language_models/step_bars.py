"""Bars that show what a step takes of each resource, term by term, as the page draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .report_tables import list_steps
from .text_table import show_seconds

if TYPE_CHECKING:
    from .report import LanguageModelReport
    from .steps import Resource, Step

__all__ = ["Bar", "Segment", "StepBars", "list_step_bars"]

#: How many colours the style sheet has; further terms share the last.
_COLOURS = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """A term in a bar."""

    name: str
    #: Its seconds, as a text.
    seconds: str
    #: The number of its colour in the style sheet, the same in all bars.
    colour: int
    #: Where it begins, in percent of the longest bar.
    start: float
    #: How wide it is, in percent of the longest bar.
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """What a step takes of a resource: its seconds as a text, and the terms that they are made of."""

    resource: Resource
    seconds: str
    is_longest: bool
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class StepBars:
    """The bars of a step."""

    title: str
    bars: tuple[Bar, ...]


def list_step_bars(report: LanguageModelReport) -> list[StepBars]:
    """Return the bars of the steps of the largest batch; none where a time is not known."""
    steps = list_steps(report)
    if any(not step.seconds for step in steps.values()):
        return []
    names = dict.fromkeys(term.name for step in steps.values() for term in step.terms)
    colours = {name: min(index, _COLOURS - 1) for index, name in enumerate(names)}
    batch = report.serving[-1].batch
    return [
        StepBars(f"{name.capitalize()}, batch {batch:,}", tuple(_list_bars(step, colours)))
        for name, step in steps.items()
    ]


def _list_bars(step: Step, colours: Mapping[str, int]) -> Iterator[Bar]:
    """Yield a bar for each resource that the step takes any of."""
    durations: dict[Resource, list[tuple[str, float]]] = {}
    for term in step.terms:
        if term.seconds:
            durations.setdefault(term.resource, []).append((term.name, term.seconds))
    totals = {resource: sum(seconds for _, seconds in terms) for resource, terms in durations.items()}
    longest = max(totals.values())
    for resource, terms in durations.items():
        segments, before = [], 0.0
        for name, seconds in terms:
            start, width = 100 * before / longest, 100 * seconds / longest
            segments.append(Segment(name, show_seconds(seconds), colours[name], start, width))
            before += seconds
        yield Bar(resource, show_seconds(totals[resource]), resource is step.bound_by, tuple(segments))
