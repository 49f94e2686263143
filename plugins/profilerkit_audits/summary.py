"""An audit as people read it first: which model costs what, what failed and why, and where the rows are."""

from __future__ import annotations

import heapq
import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from profilerkit.piping.outcome import Completeness
from profilerkit.piping.titles import split_words, write_title
from profilerkit.plugging.offers import list_status_keys
from profilerkit.render.console import draw_parts, fits, to_text
from profilerkit.render.grids import Grid, Notes, visible

from .rows import Row, Value
from .series import CaseName, join_rows
from .store import hide_password

if TYPE_CHECKING:
    from .running import AuditResult

__all__ = ["NOT_IN_KEY", "shorten", "shorten_store", "summarize"]

#: What is said beside rows that are reused.
NOT_IN_KEY = "files and environment variables that a model's code reads are not compared: after a change, --rerun all"
#: The metrics that are shown of a plan that names none.
_USUAL = ("total_params", "macs", "memory_footprint", "execution_time")
#: How many rows are shown, and of more than that how many of the largest, and of the smallest.
_MOST, _ENDS = 20, 9
#: How much of a model's text the table shows: the end.
_LONGEST_SPEC = 36
#: How many problems and warnings are named, the most frequent first, and how many of its models.
_PROBLEMS, _WARNINGS, _NAMED = 8, 5, 3


def summarize(finished: AuditResult, color: bool = False) -> str:
    """Return the text that ends the command, as wide as the terminal; ``color`` adds the colors of one."""
    survey = _Survey()
    for row in finished.rows():
        survey.add(row)
    metrics = _choose_metrics(finished.metrics, survey.metrics)
    costs = [to_text(_draw_costs(finished, survey, metrics), color=color)] if metrics else []
    problems = "\n".join(map(visible, [*survey.list_problems(), *survey.list_warnings()]))
    places = map(visible, _list_places(finished))  # whole, however narrow the terminal: they have commands
    return "\n\n".join([*costs, "\n".join([*filter(None, [to_text(Text(problems))]), *places])])


def shorten_store(store: str) -> str:
    """Return the path of a store relative to the current folder if it is in there, and a URL without its password."""
    path = Path(store)
    is_inside = "://" not in store and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_inside else hide_password(store)


def _list_places(finished: AuditResult) -> Iterator[str]:
    """Yield how many rows there are, and where they and their page are found."""
    counts = ", ".join(f"{number} {status}" for status, number in sorted(finished.counts.items()))
    store = shorten_store(finished.store)
    yield counts or "no rows"
    yield f"{finished.measured} measured, {finished.reused} in the store before; run {finished.run[:12]} in {store}"
    if finished.counts:
        yield f"all values: profilerkit export {shlex.quote(store)} --output rows.csv"
        yield f"as a page: profilerkit dashboard {shlex.quote(store)} --output audit.html"
    if finished.reused:
        yield f"({NOT_IN_KEY})"


#: A model with one setting, on one kind of machine.
_Case: TypeAlias = tuple[CaseName, str]


def _name_case(row: Row) -> _Case:
    return CaseName.of(row), row.machine


def _list_numbers(row: Row) -> list[str]:
    """Return the metrics that a row has a number of."""
    return [name for name, value in row.values.items() if value.value is not None]


def _read_cases(finished: AuditResult, sizes: Mapping[_Case, int]) -> Iterator[Row]:
    """Yield a row for each case that has a number; entries of a plan that measured one case are one row.

    ``sizes`` are how many rows with a number each case has: only rows that wait for others of their case are kept.
    """
    waiting: dict[_Case, list[Row]] = defaultdict(list)
    for row in filter(_list_numbers, finished.rows()):
        case = _name_case(row)
        waiting[case].append(row)
        if len(waiting[case]) == sizes[case]:
            yield join_rows(waiting.pop(case))


@dataclass
class _Survey:
    """What the rows of a run say together; the rows are not kept, as there may be ten thousand.

    Attributes:
        metrics: The metrics that a row has a number of.
        problems: The models with the same problem, each problem with how many rows have it.
        warnings: How many rows have each warning.
        cases: How many rows with a number each case has: a case is a line of the table.
    """

    metrics: dict[str, None] = field(default_factory=dict)
    problems: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    warnings: Counter[str] = field(default_factory=Counter)
    cases: Counter[_Case] = field(default_factory=Counter)
    _rows: int = 0
    _settings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, row: Row) -> None:
        """Take in a row."""
        numbers = _list_numbers(row)
        self._rows += 1
        if numbers:
            self.cases[_name_case(row)] += 1
        self.metrics.update(dict.fromkeys(numbers))
        for name, setting in row.settings.items():
            self._settings[name][str(setting)] += 1
        self.warnings.update(str(text) for text in row.conditions.get("warnings", ()))
        for problem in _list_problems(row):
            self.problems[shorten(problem)][row.spec] += 1

    @property
    def settings(self) -> list[str]:
        """The settings that are not the same in all rows."""
        return [name for name, values in self._settings.items() if max(values.values()) < self._rows]

    def list_problems(self) -> Iterator[str]:
        """Yield each problem with how many rows have it, and below it their models."""
        ranked = sorted(self.problems.items(), key=lambda problem: -problem[1].total())
        for problem, models in ranked[:_PROBLEMS]:
            more = [f"{len(models) - _NAMED} more"] if len(models) > _NAMED else []
            yield f"{models.total()} {problem}"
            yield f"  {', '.join([*list(models)[:_NAMED], *more])}"
        if len(ranked) > _PROBLEMS:
            rows = sum(models.total() for _, models in ranked[_PROBLEMS:])
            yield f"{rows} with {len(ranked) - _PROBLEMS} other reasons"

    def list_warnings(self) -> Iterator[str]:
        """Yield the most frequent warnings."""
        for text, count in self.warnings.most_common(_WARNINGS):
            yield f"warning of {count} {'row' if count == 1 else 'rows'}: {shorten(text)}"


def _list_problems(row: Row) -> Iterator[str]:
    """Yield why a row is not complete, and what is not plausible in it."""
    if row.reason:
        code = f" ({row.failure.value})" if row.failure else ""
        yield f"{row.status.value}{code}: {row.reason}"
    yield from (f"not plausible: {flag}" for flag in row.flags)


def shorten(text: str, longest: int = 200) -> str:
    """Return a text in one line, its end left out where it is long; files in the current folder by their names."""
    line = " ".join(text.replace(f"{Path.cwd()}{os.sep}", "").split())
    return f"{line[:longest]}{'...' if len(line) > longest else ''}"


# The table ------------------------------------------------------------------------------------------------------------


def _choose_metrics(named: Sequence[str], numbers: Collection[str]) -> list[str]:
    """Return the metrics to show, of those with numbers: those that the plan names, or the usual; then its scores."""
    offered = {offer.item.NAME for offer in list_status_keys()}
    scores = [name for name in numbers if name not in offered and name not in named]
    return [*(name for name in named or _USUAL if name in numbers), *scores]


def _draw_costs(finished: AuditResult, survey: _Survey, metrics: Sequence[str]) -> _Costs:
    """Return the table of the rows that have numbers, the largest first; of many rows the two ends."""
    first, count = metrics[0], len(survey.cases)

    def rank(numbered: tuple[int, Row]) -> tuple[bool, float, int]:
        """Return what rows are ordered by: of equal ones the earlier is the larger, so that none is at both ends."""
        number, row = numbered
        value = row.values[first].value if first in row.values else None
        return value is not None, value or 0, -number

    def read() -> Iterator[tuple[int, Row]]:
        return enumerate(_read_cases(finished, survey.cases))

    by = f"by {' '.join(split_words(first))}"
    if count <= _MOST:
        title = f"{count} row{'' if count == 1 else 's'} {by}, the largest first"
        ranked, left_out = sorted(read(), key=rank, reverse=True), 0
    else:
        title = f"{count} rows {by}: the {_ENDS} largest and the {_ENDS} smallest"
        smallest = heapq.nsmallest(_ENDS, read(), rank)
        ranked, left_out = [*heapq.nlargest(_ENDS, read(), rank), *reversed(smallest)], count - 2 * _ENDS
    return _Costs(title, [row for _, row in ranked], metrics, survey.settings, left_out)


class _Costs:
    """Rows as a table, with the columns that there is room for.

    Args:
        title: What stands above the table.
        rows: The rows, in their order.
        metrics: The metrics, those that are needed least last.
        settings: The settings that tell rows apart.
        left_out: How many rows are left out in the middle.
    """

    def __init__(
        self, title: str, rows: Sequence[Row], metrics: Sequence[str], settings: Sequence[str], left_out: int = 0
    ) -> None:
        self._title, self._rows, self._left_out = title, rows, left_out
        self._settings, self._metrics = settings, metrics

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        has_settings, metrics = bool(self._settings), list(self._metrics)
        is_told_apart = len({row.spec for row in self._rows}) == len(self._rows)
        while not fits(self._make_grid(has_settings, metrics), options.max_width):
            if has_settings and is_told_apart:
                has_settings = False
            elif len(metrics) > 1:
                metrics.pop()
            else:
                break
        left_out = ["settings"] if self._settings and not has_settings else []
        left_out += self._metrics[len(metrics) :]
        notes = [Notes((f"No room for {', '.join(left_out)}.",))] if left_out else []
        yield draw_parts([self._make_grid(has_settings, metrics), *notes])

    def _make_grid(self, has_settings: bool, metrics: Sequence[str]) -> Grid:
        titles = ["Model", *(["Settings"] if has_settings else []), *map(_fold_title, metrics)]
        cells = [self._list_cells(row, has_settings, metrics) for row in self._rows]
        if self._left_out:
            cells.insert(_ENDS, [(f"... {self._left_out} others", ""), *[("", "")] * (len(titles) - 1)])
        marks = {(line, column): mark for line, row in enumerate(cells) for column, (_, mark) in enumerate(row) if mark}
        texts = tuple(tuple(text for text, _ in row) for row in cells)
        numeric = frozenset(range(len(titles) - len(metrics), len(titles)))
        return Grid(self._title, tuple(titles), texts, numeric, marks=marks)

    def _list_cells(self, row: Row, has_settings: bool, metrics: Sequence[str]) -> list[tuple[str, str]]:
        """Return the cells of a row, each with its mark; a row that is not plausible has an exclamation mark too."""
        spec = row.spec if len(row.spec) <= _LONGEST_SPEC else f"...{row.spec[3 - _LONGEST_SPEC :]}"
        model = (f"! {spec}", "failed") if row.flags else (spec, "")
        settings = ", ".join(f"{name}={row.settings[name]}" for name in self._settings if name in row.settings)
        values = [_write_value(row.values.get(name)) for name in metrics]
        return [model, *([(settings, "")] if has_settings else []), *values]


def _fold_title(metric: str) -> str:
    """Return the title of a column, a word in each line: most numbers are narrower than two words."""
    return write_title(metric).replace(" ", "\n")


def _write_value(value: Value | None) -> tuple[str, str]:
    """Return a value as text, with its mark."""
    if value is None or not value.is_applicable:
        return "-", ""
    mark = {Completeness.COMPLETE: "", Completeness.FAILED: "failed"}.get(value.completeness, "partial")
    if value.value is None:
        return value.completeness.value, mark
    return f"{value.sign}{value.brief or value.shown}", mark  # the interval of a time has no room in most terminals
