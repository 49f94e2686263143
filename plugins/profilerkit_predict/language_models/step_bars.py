"""What a prefill and the last step take, as bars of the page: one for each resource, stacked of its terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .answers import list_steps
from .formatting import show_seconds

if TYPE_CHECKING:
    from .report import LanguageModelReport
    from .step_cost import Step

__all__ = ["Bar", "Piece", "StepBars", "list_step_bars"]

#: How many colours the style sheet has; further terms share the last.
_COLOURS = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """A term in a bar: its name, its seconds as a text, its colour, and where it is in percent of the longest bar."""

    name: str
    seconds: str
    colour: int
    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """What a step takes of a resource, of which the longest binds the step."""

    resource: str
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


def _list_bars(step: Step, colours: dict[str, int]) -> Iterable[Bar]:
    """Yield a bar for each resource that the step takes any of."""
    longest = step.seconds or 1.0
    for resource in dict.fromkeys(term.resource for term in step.terms):
        end, pieces = 0.0, []
        for term in step.terms:
            if term.resource is resource and term.seconds:
                share = 100 * term.seconds / longest
                pieces.append(Piece(term.name, show_seconds(term.seconds), colours[term.name], end, share))
                end += share
        if pieces:
            yield Bar(resource, show_seconds(end * longest / 100), resource is step.bound_by, tuple(pieces))
