"""Steps in the times of models, each series without the common change of all models of a night.

Times are compared within one kind of machine. The common change of a night (`nights.find_share` of the distances of all
models from their own medians) is subtracted from each series and searched for steps itself: such a step belongs to the
machine, or to code that all models share, and not to a model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from profilerkit.count_text import format_count
from profilerkit.render.grids import Grid

from .nights import find_share
from .origins import shorten_moment
from .rows import Row
from .series import CaseName, is_exact
from .steps import MIN_NIGHTS, find_splits

#: The number of newest nights for the correlation of consecutive nights. Steps are searched in the window alone.
_REMEMBERED = 400
#: The least number of models in a night for which a common change counts as a change of the machine.
MIN_MODELS = 5


@dataclass(frozen=True)
class Step:
    """A step in the times of a model; ``case`` is None for a step that all models have in common.

    Args:
        case: The model and its setting.
        metric: The metric.
        machine: The kind of machine.
        change: The relative change of the level: 0.05 is 5 % more.
        p: The p-value of this step alone.
        q: The rate of false discoveries at which it counts.
        verdict: "worse", "better" or "moved", by the direction of the metric.
        old: The last row before the step; for a step of the machine, a row of any model.
        new: The first row after the step.
        causes: Other differences between the two rows.
    """

    case: CaseName | None
    metric: str
    machine: str
    change: float
    p: float
    q: float
    verdict: str
    old: Row
    new: Row
    causes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model and its setting as a text; "all models" for a step that all have in common."""
        return "all models" if self.case is None else str(self.case)

    def to_dict(self) -> dict[str, Any]:
        """Return the step as values that JSON holds."""
        return {
            "spec": None if self.case is None else self.case.spec,
            "settings": None if self.case is None else self.case.settings,
            **{name: getattr(self, name) for name in ("metric", "machine", "change", "p", "q", "verdict")},
            "old_run": self.old.run,
            "new_run": self.new.run,
            "created": self.new.created,
            "causes": list(self.causes),
        }


class Searched(NamedTuple):
    """The candidates for steps, whose verdicts and rates are not known yet; how many series; and what was left out."""

    steps: tuple[Step, ...]
    series: int
    notes: tuple[str, ...]


def search_steps(series: Mapping[CaseName, Sequence[Row]], window: int) -> Searched:
    """Return the candidates for steps in the ``window`` newest nights of all series of times."""
    searches, notes = _make_searches(series)
    steps: list[Step] = []
    for search in searches:
        common = search.find_common()
        notes += search.explain_left_out(common)
        steps += search.find_steps(common, window)
    return Searched(tuple(steps), sum(len(search.nights) for search in searches), tuple(notes))


def _make_searches(series: Mapping[CaseName, Sequence[Row]]) -> tuple[list[_Search], list[str]]:
    """Return the series to search for steps, those of one machine and metric together, and notes on the others."""
    groups: dict[tuple[str, str], dict[CaseName, dict[str, Row]]] = {}  # by machine and metric
    left_out: Counter[str] = Counter()
    times = ((case, row, metric) for case, rows in series.items() for row in rows for metric in _list_times(row))
    for case, row, metric in times:
        reason = _find_fault(row, metric)
        if reason:
            left_out[reason] += 1
        else:
            groups.setdefault((row.machine, metric), {}).setdefault(case, {})[row.run] = row
    notes = [f"{format_count(count, 'measured value')} left out: {reason}" for reason, count in left_out.items()]
    searches, too_short = [], 0
    for (machine, metric), nights_by_case in groups.items():
        long = {case: nights for case, nights in nights_by_case.items() if len(nights) >= MIN_NIGHTS}
        too_short += len(nights_by_case) - len(long)
        newest = {case: dict(list(nights.items())[-_REMEMBERED:]) for case, nights in long.items()}
        if newest:
            searches.append(_Search(metric, machine, newest))
    if too_short:
        notes.append(f"{too_short} series of times not searched: fewer than {MIN_NIGHTS} nights on one machine")
    return searches, notes


def _list_times(row: Row) -> list[str]:
    return [metric for metric, value in row.values.items() if value.value is not None and not is_exact(metric, value)]


def _find_fault(row: Row, metric: str) -> str:
    """Return why a time is not searched; empty if it is."""
    if row.flags:
        return "of rows that are flagged as not plausible"
    return "" if 0 < (row[metric] or 0) < math.inf else "not above zero"  # what is no number is not above zero either


@dataclass(frozen=True)
class _Search:
    """The rows of one metric on one kind of machine: for each case the rows of its nights, by the night's run."""

    metric: str
    machine: str
    nights: Mapping[CaseName, Mapping[str, Row]]

    def read_logs(self, case: CaseName) -> dict[str, float]:
        """Return the logarithms of the times of a case."""
        return {run: math.log(float(row.values[self.metric].value or 1)) for run, row in self.nights[case].items()}

    def order_nights(self) -> dict[str, Row]:
        """Return the nights of all models with a row of each, the oldest first."""
        rows = {run: row for nights in self.nights.values() for run, row in nights.items()}
        return dict(sorted(rows.items(), key=lambda item: item[1].created))

    def find_common(self) -> dict[str, float]:
        """Return by night the common change of all models; empty if too few nights have enough models.

        A model counts once for all of its settings: by the median of their distances.
        """
        distances: dict[str, dict[str, list[float]]] = {}  # by night and model, in logarithms
        for case in self.nights:
            logs = self.read_logs(case)
            level = median(logs.values())
            for run, value in logs.items():
                distances.setdefault(run, {}).setdefault(case.spec, []).append(value - level)
        runs = [run for run in self.order_nights() if len(distances[run]) >= MIN_MODELS]
        if len(runs) < MIN_NIGHTS:
            return {}
        models = sorted({case.spec for case in self.nights})
        table = [[median(distances[run].get(model, [math.nan])) for run in runs] for model in models]
        return dict(zip(runs, find_share(np.array(table)).tolist(), strict=True))

    def explain_left_out(self, common: Mapping[str, float]) -> Iterator[str]:
        """Yield notes on nights with too few models; ``common`` has the common changes of the other nights."""
        title = f"{self.metric} on machine {self.machine[:8] or '-'}"
        reason = "so that a step of the machine cannot be told apart from one of a model"
        lacking = len(self.order_nights()) - len(common)
        if not common:
            yield f"{title}: fewer than {MIN_MODELS} models a night, {reason}"
        elif lacking:
            yield f"{title}: {format_count(lacking, 'night')} left out with fewer than {MIN_MODELS} models, {reason}"

    def find_steps(self, common: Mapping[str, float], window: int) -> Iterator[Step]:
        """Yield the candidates of all series, and of the series of common changes.

        The logarithms of the times are searched, each without the common change of its night. If the common change is
        known for some nights, the others are left out: in them the speed of the machine would look like a step of the
        model.
        """
        if common:
            nights = self.order_nights()
            yield from self._split(None, [nights[run] for run in common], list(common.values()), window)
        for case, rows in self.nights.items():
            logs = self.read_logs(case)
            if common:
                logs = {run: value - common[run] for run, value in logs.items() if run in common}
            yield from self._split(case, [rows[run] for run in logs], list(logs.values()), window)

    def _split(self, case: CaseName | None, rows: Sequence[Row], logs: Sequence[float], window: int) -> Iterator[Step]:
        """Yield the candidates in the newest nights of one series."""
        newest = rows[-window:]
        for split in find_splits(logs[-window:], history=logs):
            change = math.exp(split.after - split.before) - 1
            old, new = newest[split.index - 1], newest[split.index]
            yield Step(case, self.metric, self.machine, change, split.p, 1.0, "moved", old, new)


def draw_steps(steps: tuple[Step, ...], title: str) -> Grid:
    """Return steps as a table."""
    rows = tuple(
        (
            step.name,
            step.metric,
            step.verdict,
            f"{100 * step.change:+.1f} %",
            f"{step.q:.2g}",
            shorten_moment(step.new.created, 16),
            step.machine[:8],
        )
        for step in steps
    )
    titles = ("Model", "Metric", "", "Step", "q", "First seen", "Machine")
    return Grid(title, titles, rows, numeric=frozenset({3, 4}))
