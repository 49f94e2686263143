"""The page of one report, or of several side by side, with bars of each step: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from profilerkit_pages import page_parts

from .notes import general_notes, report_notes
from .report_tables import list_steps, list_tables
from .text_table import TextTable, show_seconds

if TYPE_CHECKING:
    from .report import LanguageModelReport
    from .steps import Resource, Step

#: The package whose folder ``page`` has the template, the style and the script.
_PACKAGE = "profilerkit_predict"
_FIGURES = {
    "cache_memory": "Memory against context",
    "tokens_per_second": "Tokens per second against batch, under the roof of the device",
}


@dataclass(frozen=True)
class _Section:
    """A part of the page: its title, its tables and its notes, and the bars of a step, which follow its first table."""

    title: str
    tables: Sequence[TextTable]
    notes: Sequence[str] = ()
    steps: Sequence[_StepBars] = ()


def render_page(reports: Sequence[LanguageModelReport], comparison: TextTable | None = None) -> str:
    """Return a page of one report, or of several with the table that compares them first.

    The figures need matplotlib; without it, or for a report without a device, the page says why one is missing.
    """
    general = list(general_notes(reports))
    sections = [] if comparison is None else [_Section("", [comparison], general)]
    for report in reports:
        title = "" if comparison is None else report.title
        notes = [*(general if comparison is None else []), *report_notes(report)]
        sections.append(_Section(title, list(list_tables(report)), notes, list_step_bars(report)))
    figures, remarks = _draw_figures(reports)
    return page_parts.render_page(
        "language_models.html",
        f"{page_parts.source('page.css')}\n{page_parts.source('language_models.css', _PACKAGE)}",
        page_parts.join_scripts([page_parts.source("sort.js", _PACKAGE)]),
        _PACKAGE,
        title=reports[0].title if comparison is None else "Language models",
        sections=sections,
        figures=figures,
        remarks=remarks,
        jumps=list(_list_jumps(sections)),
    )


def _list_jumps(sections: Sequence[_Section]) -> Iterator[tuple[str, str]]:
    """Yield the places that one can jump to, with their names: the tables of one section, or several sections."""
    if len(sections) > 1:
        for index, section in enumerate(sections):
            yield f"s{index}", section.title or "Comparison"
    else:
        for index, table in enumerate(sections[0].tables):
            yield f"s0t{index}", table.title
        yield "notes0", "Notes"
    yield "figures", "Figures"


def _draw_figures(reports: Sequence[LanguageModelReport]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the captions of figures with their pictures as addresses, and why others are missing."""
    from .figures import draw_language_models

    figures, remarks = [], []
    for kind, name in _FIGURES.items():
        try:
            figures.append((name, _encode_png(draw_language_models(reports, kind))))
        except (ImportError, ValueError) as error:
            remarks.append(f"{name}: {error}")
    return figures, remarks


def _encode_png(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.set_dpi(144)
    figure.canvas.print_png(buffer, metadata={"Software": None})
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


#: How many colours the style sheet has; further terms share the last.
_COLOURS = 10


@dataclass(frozen=True, slots=True)
class _Segment:
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
class _Bar:
    """The time of a step on a resource: its seconds as a text, and their terms."""

    resource: Resource
    seconds: str
    is_longest: bool
    segments: tuple[_Segment, ...]


@dataclass(frozen=True, slots=True)
class _StepBars:
    """The bars of a step."""

    title: str
    bars: tuple[_Bar, ...]


def list_step_bars(report: LanguageModelReport) -> list[_StepBars]:
    """Return the bars of the steps of the largest batch; none if a time is not known."""
    steps = list_steps(report)
    if any(not step.seconds for step in steps.values()):
        return []
    names = dict.fromkeys(term.name for step in steps.values() for term in step.terms)
    colours = {name: min(index, _COLOURS - 1) for index, name in enumerate(names)}
    batch = report.serving[-1].batch
    return [
        _StepBars(f"{name.capitalize()}, batch {batch:,}", tuple(_list_bars(step, colours)))
        for name, step in steps.items()
    ]


def _list_bars(step: Step, colours: Mapping[str, int]) -> Iterator[_Bar]:
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
            segments.append(_Segment(name, show_seconds(seconds), colours[name], start, width))
            before += seconds
        yield _Bar(resource, show_seconds(totals[resource]), resource is step.bound_by, tuple(segments))
