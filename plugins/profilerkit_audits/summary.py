"""The result of an audit, and its summary: the costs of its models, the failures with reasons, where the rows are."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.text import Text

from profilerkit.count_text import format_count, list_some
from profilerkit.foreign_text import visible
from profilerkit.hooks.offers import list_status_keys
from profilerkit.piping.outcome import Completeness
from profilerkit.piping.titles import split_words, write_title
from profilerkit.process.encoding import printable
from profilerkit.render.console import draw_parts, to_text
from profilerkit.render.grids import Grid

from .database import hide_password
from .rows import Row, RowStatus, Value
from .series import CaseName, join_rows
from .store import Store

#: The note on rows that are reused.
NOT_IN_KEY = "files and environment variables that a model's code reads are not compared: after a change, --rerun all"
#: The metrics that are shown for a plan without metrics.
_USUAL = ("total_params", "macs", "memory_footprint", "execution_time")
#: How many rows are shown, and of more than that how many of the largest, and of the smallest.
_MOST, _ENDS = 20, 9
#: How much of a model's text the table shows: the end.
_LONGEST_SPEC = 36
#: How many reasons of failure, other problems and warnings are named, the most frequent first; and how many models.
_FAILURES, _PROBLEMS, _WARNINGS, _NAMED = 20, 8, 5, 3


@dataclass(frozen=True)
class AuditResult:
    """An audit that has come to its end.

    ``counts`` are the rows of the run by status, ``measured`` and ``reused`` how many were run now and how many were in
    the store before. ``metrics`` are the metrics that the plan names, in its order. ``print`` shows the costs of the
    models, and the failures.
    """

    run: str
    store: str
    counts: Mapping[str, int]
    measured: int
    reused: int
    metrics: tuple[str, ...] = ()

    def __str__(self) -> str:
        return printable(summarize(self))

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the run, from the store."""
        with Store.open(self.store, create=False) as store:
            yield from store.rows(run=self.run)


def summarize(finished: AuditResult, color: bool = False) -> str:
    """Return the text that ends the command, as wide as the terminal; ``color`` adds terminal colors."""
    rows = list(finished.rows())
    costs = _draw_costs(finished.metrics, rows)
    failed = [row for row in rows if row.status is RowStatus.FAILED]
    others = [row for row in rows if row.status is not RowStatus.FAILED]
    listed = [*_list_problems(failed, _FAILURES), *_list_problems(others, _PROBLEMS), *_list_warnings(rows)]
    problems = "\n".join(map(visible, listed))
    places = map(visible, _list_places(finished))  # whole, however narrow the terminal: they have commands
    table = "" if costs is None else to_text(draw_parts([costs]), color=color)
    end = "\n".join(filter(None, [to_text(Text(problems)), *places]))
    return "\n\n".join(filter(None, [table, end]))


def shorten_store(store: str) -> str:
    """Return the path of a store relative to the current folder if it is in there, and a URL without its password."""
    path = Path(store)
    is_inside = "://" not in store and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_inside else hide_password(store)


def shorten(text: str, longest: int = 200) -> str:
    """Return a text in one line, without its end if it is long; files in the current folder by their names."""
    line = " ".join(text.replace(f"{Path.cwd()}{os.sep}", "").split())
    return f"{line[:longest]}{'...' if len(line) > longest else ''}"


def _list_places(finished: AuditResult) -> Iterator[str]:
    """Yield the number of rows, and the places of the rows and their page."""
    counts = ", ".join(f"{number} {status}" for status, number in sorted(finished.counts.items()))
    store = shorten_store(finished.store)
    yield counts or "no rows"
    yield f"{finished.measured} measured, {finished.reused} in the store before; run {finished.run[:12]} in {store}"
    if finished.counts:
        yield f"all values: profilerkit export {shlex.quote(store)} --output rows.csv"
        yield f"as a page: profilerkit dashboard {shlex.quote(store)} --output audit.html"
    if finished.reused:
        yield f"({NOT_IN_KEY})"


def _list_problems(rows: Sequence[Row], most: int) -> Iterator[str]:
    """Yield each problem with how many rows have it, the most frequent first, and below it their models."""
    models_by_problem: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for problem in _explain_row(row):
            models_by_problem[shorten(problem)][row.spec] += 1
    ranked = sorted(models_by_problem.items(), key=lambda problem: -problem[1].total())
    for problem, models in ranked[:most]:
        yield f"{models.total()} {problem}"
        yield f"  {list_some([*models], _NAMED)}"
    if len(ranked) > most:
        others = [models.total() for _, models in ranked[most:]]
        yield f"{sum(others)} with {format_count(len(others), 'other reason')}"


def _explain_row(row: Row) -> Iterator[str]:
    """Yield why a row is not complete, and its values that are not plausible."""
    if row.reason:
        code = f" ({row.failure.value})" if row.failure else ""
        yield f"{row.status.value}{code}: {row.reason}"
    yield from (f"not plausible: {flag}" for flag in row.flags)


def _list_warnings(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the most frequent warnings, and how many others there are."""
    warnings = Counter(str(text) for row in rows for text in row.conditions.get("warnings", ()))
    for text, count in warnings.most_common(_WARNINGS):
        yield f"warning of {format_count(count, 'row')}: {shorten(text)}"
    if len(warnings) > _WARNINGS:
        yield f"and {format_count(len(warnings) - _WARNINGS, 'other warning')}, which the rows have (conditions)"


# The table ------------------------------------------------------------------------------------------------------------


class _Cell(NamedTuple):
    """A cell: its text, and the mark that colors it, "failed" or "partial"; empty for none."""

    text: str
    mark: str = ""


def _draw_costs(named: Sequence[str], rows: Sequence[Row]) -> Grid | None:
    """Return the table of rows with numbers, the largest first, or only the two ends; None if no row has numbers.

    A line is a model with one setting on one kind of machine. A narrow terminal leaves out the settings, if the models
    are told apart without them, and then the last metrics. ``named`` are the metrics of the plan.
    """
    counted = [row for row in rows if any(value.value is not None for value in row.values.values())]
    metrics = _choose_metrics(named, counted)
    if not metrics:
        return None
    shown = ranked = _rank_rows(counted, metrics[0])
    order = ", the largest first"
    if len(ranked) > _MOST:
        shown, order = [*ranked[:_ENDS], *ranked[-_ENDS:]], f": the {_ENDS} largest and the {_ENDS} smallest"
    settings = find_differing_settings(rows)
    lines = [_write_cells(row, settings, metrics) for row in shown]
    if len(ranked) > _MOST:
        others = _Cell(f"... {len(ranked) - len(shown)} others")
        lines.insert(_ENDS, [others, *[_Cell("")] * (len(lines[0]) - 1)])
    names = ["Model", "Settings"] if settings else ["Model"]
    titles = [write_title(metric).replace(" ", "\n") for metric in metrics]  # most numbers are narrower than two words
    is_told_apart = len({row.spec for row in shown}) == len(shown)
    return Grid(
        f"{format_count(len(ranked), 'row')} by {' '.join(split_words(metrics[0]))}{order}",
        (*names, *titles),
        tuple(tuple(cell.text for cell in line) for line in lines),
        numeric=frozenset(range(len(names), len(names) + len(titles))),
        marks={(y, x): cell.mark for y, line in enumerate(lines) for x, cell in enumerate(line) if cell.mark},
        # The last metric first; the first metric stays, by which the rows are sorted.
        least_needed=(*(["Settings"] if is_told_apart else []), *titles[:0:-1]),
    )


def _rank_rows(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return a row for each case on each kind of machine, the largest by a metric first, rows without it last."""
    cases: dict[tuple[CaseName, str], list[Row]] = defaultdict(list)
    for row in rows:
        cases[CaseName.of(row), row.machine].append(row)
    numbers = [(row.values.get(metric, Value(None)).value, row) for row in map(join_rows, cases.values())]
    ranked = sorted(numbers, key=lambda pair: -math.inf if pair[0] is None else pair[0], reverse=True)
    return [row for _, row in ranked]


def _choose_metrics(named: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return the metrics with numbers to show: the metrics that the plan names, or the usual metrics; then scores."""
    numbers = dict.fromkeys(name for row in rows for name, value in row.values.items() if value.value is not None)
    offered = {offer.item.NAME for offer in list_status_keys()}
    scores = [name for name in numbers if name not in offered and name not in named]
    return [*(name for name in named or _USUAL if name in numbers), *scores]


def find_differing_settings(rows: Sequence[Row]) -> list[str]:
    """Return the settings that are not the same in all rows."""
    names = dict.fromkeys(name for row in rows for name in row.settings)
    return [name for name in names if len({str(row.settings.get(name)) for row in rows}) > 1]


def _write_cells(row: Row, settings: Sequence[str], metrics: Sequence[str]) -> list[_Cell]:
    """Return the cells of a row; a row that is not plausible has an exclamation mark too."""
    spec = row.spec if len(row.spec) <= _LONGEST_SPEC else f"...{row.spec[3 - _LONGEST_SPEC :]}"
    cells = [_Cell(f"! {spec}", "failed") if row.flags else _Cell(spec)]
    if settings:
        cells.append(_Cell(", ".join(f"{name}={row.settings[name]}" for name in settings if name in row.settings)))
    return [*cells, *(_write_value(row.values.get(name)) for name in metrics)]


def _write_value(value: Value | None) -> _Cell:
    if value is None or not value.is_applicable:
        return _Cell("-")
    mark = {Completeness.COMPLETE: "", Completeness.FAILED: "failed"}.get(value.completeness, "partial")
    if value.value is None:
        return _Cell(value.completeness.value, mark)
    text = value.brief or value.shown  # brief without the interval of a time: most terminals have no room for it
    return _Cell(f"{value.sign}{text}", mark)
