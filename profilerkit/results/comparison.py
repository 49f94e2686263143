"""Several reports side by side: ratios and enhancements over a reference, and layers aligned."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal, TypeGuard

from ..count_text import format_count
from ..error_text import shown
from ..errors import ArgumentError, UnknownStatusError
from ..piping.comparative import Comparative
from ..piping.outcome import is_number
from ..piping.status import StatusKey
from ..times.measurement import Measurement
from ..times.ratio import Ratio
from ..trace.alignment import VALUES, align, in_one_table
from ..trace.bounds import Bounds
from ..trace.table import Table
from .report import Report, StatusRecord
from .result import Result, one_line

__all__ = [
    "Comparison",
    "compute_enhancement",
    "distinct_names",
    "find_numbers",
    "require_result",
    "side_by_side",
]


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The results for several models. The first is the reference, which the others are compared with.

    ``comparison["macs"]`` is a dict: the value of a metric in base units, by the name of the model. Reports of one name
    get a number each: "Net (1)", "Net (2)".
    """

    reference: Report
    others: tuple[Report, ...]

    def __post_init__(self) -> None:
        if not self.others:
            raise ValueError(
                f"others={shown(self.others)}: a Comparison needs at least one report beside the reference"
            )
        if not isinstance(self.reference, Report):
            raise ArgumentError(f"reference={shown(self.reference)}: give a Report")
        if not isinstance(self.others, (tuple, list)) or not all(isinstance(other, Report) for other in self.others):
            raise ArgumentError(f"others={shown(self.others)}: give a tuple of Reports")
        names = distinct_names(report.name for report in self.reports)
        reference, *others = map(_rename, self.reports, names)
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "others", tuple(others))

    def __getitem__(self, key: str | type[StatusKey]) -> dict[str, Any]:
        """Return the values of a metric by the names of the models; None for a model without it."""
        name = self._find_name(key)
        if name not in self:
            raise UnknownStatusError(name, self, owner="this comparison")
        records = {report.name: report.statuses.get(name) for report in self.reports}
        return {model: None if record is None else record.value for model, record in records.items()}

    def __iter__(self) -> Iterator[str]:
        """Iterate over every metric that any of the reports has, in the order of the reference."""
        return iter(dict.fromkeys(key for report in self.reports for key in report.statuses))

    def __repr__(self) -> str:
        """Return one line: the names of the models, and how many metrics there are."""
        names = " and ".join(repr(report.name) for report in self.reports)
        return one_line("Comparison", [names, format_count(len(self), "metric")])

    def to_pandas(self, table: Literal["metrics", "layers"] = "metrics") -> Any:
        """Return "metrics" or "layers" as a pandas ``DataFrame``; needs the ``pandas`` extra.

        The table of metrics has one row for each metric: the number of each model in base units, and the ratio of each
        other model to the reference, with its two ends. The columns of numbers have the names of the models; one that
        another column has, such as "unit", gets "(model)" behind it. An unknown table, or missing layers, raise
        `ValueError`.
        """
        if table not in ("metrics", "layers"):
            raise ValueError(f"no table {shown(table)} in a comparison; it has 'metrics' and 'layers'")
        if table == "metrics":
            return Table(_list_metric_rows(self)).to_pandas()
        return (self.layers() if len(self.others) == 1 else self.all_layers()).to_pandas()

    def ratio(self, key: str | type[StatusKey], other: str | int | None = None) -> Ratio:
        """Return the ratio of a metric, another model divided by the reference: ``value``, ``low``, ``high``.

        Args:
            key: The metric. Both models need a number for it, of one unit; else it raises `ValueError`.
            other: The other model, by name or by index. Only needed if there are several.

        If a value is partial, ``low`` and ``high`` are the smallest and the largest ratio that is possible.
        """
        key, report = self._find_name(key), self.other(other)
        ratio = Ratio.of(_require_number(self.reference, key), _require_number(report, key))
        reference, value = self.reference.statuses.get(key), report.statuses.get(key)
        if reference is None or value is None:  # a number of another status key
            return ratio
        if reference.base_unit != value.base_unit:
            units = f"{reference.base_unit!r} in {self.reference.name}, {value.base_unit!r} in {report.name}"
            raise ValueError(f"{key} has no ratio: its units differ, {units}")
        if not reference.sign and not value.sign:
            return ratio
        low, high = _divide_ends(value.ends or Bounds(), reference.ends or Bounds())
        return replace(ratio, low=low, high=high)

    def enhancement(self, key: str | type[StatusKey], other: str | int | None = None) -> float | None:
        """Return how much better a model's metric is than the reference's, by the comparative of the metric.

        None if a value is missing or partial, if it is not known which value is better, or if the units differ.
        """
        pair = find_numbers(self, key, other)
        return None if pair is None or pair[0].sign or pair[1].sign else compute_enhancement(*pair)

    def difference(self, key: str | type[StatusKey], other: str | int | None = None) -> float | None:
        """Return a model's metric minus the reference's; None if a value is missing or partial, or the units differ."""
        pair = find_numbers(self, key, other)
        return None if pair is None or pair[0].sign or pair[1].sign else float(pair[1].value) - float(pair[0].value)

    def other(self, which: str | int | None = None) -> Report:
        """Return the report of one of the other models, by name or by index; the only one unless it is named."""
        names = [report.name for report in self.others]
        if which is None and len(names) == 1:
            return self.others[0]
        if isinstance(which, str) and which in names:
            return self.others[names.index(which)]
        if _is_index(which) and -len(names) <= which < len(names):
            return self.others[which]
        raise _refuse_other(which, names)

    @property
    def reports(self) -> tuple[Report, ...]:
        """All reports, the reference first."""
        return (self.reference, *self.others)

    def layers(self, other: str | int | None = None) -> Table:
        """Return a table of the layers of the reference and of another model, side by side.

        It raises `ValueError` if a report has no layers.
        """
        return align(self.reference, self.other(other))

    def all_layers(self, *columns: str) -> Table:
        """Return a table of the layers of all models, side by side.

        Args:
            *columns: The values to show: ``params``, ``macs``, ``flops``, ``own_macs`` or ``own_flops``. Default: the
                MACs. Each gives a column for each model: ``"macs of Student"``, and two more for its bounds where some
                work of the model is not known exactly: ``"macs_low of Student"``.

        It raises `ArgumentError` for any other column, and `ValueError` if a report has no layers.
        """
        for column in columns:
            if column not in VALUES:
                raise ArgumentError(
                    f"columns has {shown(column)}; the layers have {', '.join(VALUES)}: give some of these"
                )
        return in_one_table(self.reports, columns or ("macs",))


def find_numbers(
    comparison: Comparison, key: str | type[StatusKey], other: str | int | None
) -> tuple[StatusRecord, StatusRecord] | None:
    """Return the records of a metric in the reference and in another model, if both have numbers of one unit."""
    name, report = comparison._find_name(key), comparison.other(other)
    reference, value = comparison.reference.statuses.get(name), report.statuses.get(name)
    if reference is None or value is None:
        if name not in comparison:
            raise UnknownStatusError(name, comparison, owner="this comparison")
        return None
    are_numbers = is_number(reference.value) and is_number(value.value)
    return (reference, value) if are_numbers and reference.base_unit == value.base_unit else None


def compute_enhancement(reference: StatusRecord, other: StatusRecord) -> float | None:
    """Return how much better a number is than that of the reference, also where one of them is only a bound."""
    comparative = reference.comparative
    are_measured = isinstance(reference.value, Measurement) and isinstance(other.value, Measurement)
    if are_measured and comparative in (Comparative.DIV, Comparative.RECIPROCAL):
        return comparative.enhancement(1.0, Ratio.of(reference.value, other.value).value)  # by pairs of their samples
    return comparative.enhancement(float(reference.value), float(other.value))


def _is_index(which: object) -> TypeGuard[int]:
    return isinstance(which, int) and not isinstance(which, bool)


def _refuse_other(which: object, names: Sequence[str]) -> ValueError:
    """Return the error for a name or an index that none of the other models has; ``names`` are their names."""
    listing = ", ".join(names)
    if which is None:
        return ValueError(f"this comparison has several models: {listing}; name one of them")
    if isinstance(which, str):
        return ValueError(f"no model {which!r} in this comparison; it has: {listing}")
    if _is_index(which):
        return ValueError(f"no model {shown(which)} in this comparison; it has {len(names)}: {listing}")
    return ArgumentError(f"other={shown(which)}: give the name of a model, or its index: {listing}")


def _require_number(report: Report, key: str) -> float | Measurement:
    value = report[key]
    if not is_number(value):
        record = report.status(key)
        why = "; ".join(record.missing) or "it is no number"
        raise ValueError(f"{key} of {report.name} has no ratio ({record.completeness.value}): {why}")
    return value if isinstance(value, Measurement) else float(value)


def _divide_ends(value: Bounds, reference: Bounds) -> tuple[float, float]:
    """Return the smallest value over the largest reference, and the other way round; 0 and infinity for unknown ends.

    >>> _divide_ends(Bounds(2, None), Bounds(1, 4))
    (0.5, inf)
    """
    low = value.low / reference.high if value.low is not None and reference.high else 0.0
    high = value.high / reference.low if value.high is not None and reference.low else math.inf
    return low, high


def _list_metric_rows(comparison: Comparison) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each metric: the number of each model, and of each other model its ratio."""
    columns = _name_columns(comparison)
    for key in comparison:
        records = [report.statuses.get(key) for report in comparison.reports]
        present = [record for record in records if record is not None]
        units = dict.fromkeys(record.base_unit for record in present)
        numbers = [None if record is None else record.number for record in records]
        row: dict[str, Any] = {"key": key, "name": present[0].friendly_name, "unit": " / ".join(units)}
        row |= zip(columns, numbers, strict=True)
        for index, report in enumerate(comparison.others):
            row |= zip(_name_ratio_columns(report), _read_ratio(comparison, key, index), strict=True)
        yield row


def _read_ratio(comparison: Comparison, key: str, index: int) -> tuple[float | None, ...]:
    """Return the ratio of a metric with its two ends; None for each if the models have no numbers of one unit."""
    if find_numbers(comparison, key, index) is None:
        return None, None, None
    ratio = comparison.ratio(key, index)
    return ratio.value, ratio.low, ratio.high


def _name_columns(comparison: Comparison) -> list[str]:
    """Return the names of the models, with "(model)" behind names that another column has."""
    taken = {"key", "name", "unit", *(name for other in comparison.others for name in _name_ratio_columns(other))}
    columns: list[str] = []
    for report in comparison.reports:
        column = report.name
        while column in taken:
            column += " (model)"
        taken.add(column)
        columns.append(column)
    return columns


def _name_ratio_columns(report: Report) -> list[str]:
    return [f"{part} of {report.name}" for part in ("ratio", "low", "high")]


def require_result(value: Any) -> Report | Comparison:
    """Return a report or a comparison; raises `ArgumentError` for anything else."""
    if not isinstance(value, (Report, Comparison)):
        raise ArgumentError(f"{shown(value)} is no result: give a Report or a Comparison")
    return value


def side_by_side(reports: Sequence[Report], names: Sequence[str] | None = None) -> Comparison:
    """Return reports side by side, under these names or their own."""
    first, *others = reports if names is None else map(_rename, reports, names)
    return Comparison(first, tuple(others))


def _rename(report: Report, name: str) -> Report:
    return report if report.name == name else replace(report, name=name)


def distinct_names(names: Iterable[str]) -> list[str]:
    """Give models of one name a number each, so that a reader can tell the columns apart.

    >>> distinct_names(["A", "B", "A"]), distinct_names(["A", "A", "A (1)"])  # a number that a name has is passed over
    (['A (1)', 'B', 'A (2)'], ['A (2)', 'A (3)', 'A (1)'])
    """
    listed = list(names)
    frequencies = Counter(listed)
    numbers = {name: count(1) for name in frequencies}
    distinct = []
    for name in listed:
        if frequencies[name] > 1:
            numbered = (f"{name} ({number})" for number in numbers[name])
            name = next(free for free in numbered if free not in frequencies)
        distinct.append(name)
    return distinct
