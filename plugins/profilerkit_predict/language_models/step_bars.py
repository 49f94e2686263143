"""What a prefill and the last step take, as bars of the page: one for each resource, stacked of its terms.

A step uses its resources at the same time, and takes as long as the one that it uses longest: the step's seconds are
those of its longest bar, which fills the width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .answers import list_steps
from .formatting import show_seconds

if TYPE_CHECKING:
    from .report import LanguageModelReport
    from .steps import Resource, Step

__all__ = ["Bar", "Piece", "StepBars", "list_step_bars"]

#: How many colours the style sheet has; further terms share the last.
_COLOURS = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A term in a bar.

    Attributes:
        name: Its name.
        seconds: Its seconds, as a text.
        colour: The number of its colour in the style sheet, the same in all bars.
        start: Where it begins, in percent of the longest bar.
        width: How wide it is, in percent of the longest bar.
    """

    name: str
    seconds: str
    colour: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """What a step takes of a resource: its seconds as a text, and the terms that they are made of."""

    resource: Resource
    seconds: str
    is_longest: bool
    pieces: tuple[Piece, ...]


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
    by_resource: dict[Resource, dict[str, float]] = {}
    for term in step.terms:
        if term.seconds:
            by_resource.setdefault(term.resource, {})[term.name] = term.seconds
    longest = max(sum(terms.values()) for terms in by_resource.values())
    for resource, terms in by_resource.items():
        pieces, before = [], 0.0
        for name, seconds in terms.items():
            start, width = 100 * before / longest, 100 * seconds / longest
            pieces.append(Piece(name, show_seconds(seconds), colours[name], start, width))
            before += seconds
        yield Bar(resource, show_seconds(before), resource is step.bound_by, tuple(pieces))
