"""The results as plain data: a `Report` of one model, a `Comparison` of several.

Nothing here measures and nothing here draws; `profilerkit.render` turns both into what people look at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from .data import ModelInputs
from .errors import UnknownStatusError
from .intrinsic import Inputs, batch_size_of
from .measurement import Measurement, Ratio
from .render import render, rich_tables
from .status import Comparative, Completeness, Metric, Outcome, StatusKey, is_number
from .trace import LayerTable, Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from .backend import Backend

__all__ = ["Comparison", "Report", "StatusRecord", "report_of", "told_apart"]


@dataclass(frozen=True)
class StatusRecord:
    """One metric of a report: its value in base units, what is shown, and how complete it is.

    ``missing`` names what a partial value leaves out, or says why there is no value.
    """

    key: str
    friendly_name: str
    description: str
    value: Any
    shown: str
    unit: str
    comparative: Comparative
    completeness: Completeness
    missing: tuple[str, ...] = ()
    base_unit: str = ""
    note: str = ""

    @classmethod
    def of(cls, metric: Metric) -> StatusRecord:
        """Read a computed metric; one that cannot be shown is a failure of its own, not of the report."""
        try:
            return cls._of(metric, metric.outcome)
        except Exception as error:
            said = f"{type(metric).__name__} cannot be shown: {type(error).__name__}: {error}"
            outcome = Outcome(None, Completeness.FAILED, (said,), error)
            return cls(
                metric.NAME, metric.NAME, "", None, "", "", Comparative.NONE, outcome.completeness, outcome.missing
            )

    @classmethod
    def _of(cls, metric: Metric, outcome: Outcome) -> StatusRecord:
        return cls(
            key=metric.NAME,
            friendly_name=metric.friendly_name(),
            description=metric.description(),
            value=outcome.value,
            shown=metric.show() if outcome.value is not None else "",
            unit=(metric.get_units() or "") if outcome.value is not None else "",
            comparative=Comparative.parse(metric.get_comparative()),
            completeness=outcome.completeness,
            missing=outcome.missing,
            base_unit=metric.UNIT,
            note=outcome.note,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record as values that JSON can hold; a measurement as its statistics and samples."""
        return {
            "key": self.key,
            "friendly_name": self.friendly_name,
            "description": self.description,
            "value": _plain(self.value),
            "shown": self.shown,
            "comparative": self.comparative.value,
            "completeness": self.completeness.value,
            "missing": list(self.missing),
            "note": self.note,
        }


@dataclass(frozen=True)
class Report:
    """What is known about one model.

    ``report["macs"]`` is a value in base units, ``report.statuses["macs"]`` all about it, ``print(report)`` a table.
    ``data`` are the values of status keys that are no metrics, where they were asked for: ``report["layerwise_data"]``.
    """

    name: str
    backend: str
    model_type: str
    statuses: Mapping[str, StatusRecord]
    batch_size: int | None = None
    inputs: str = ""
    layers: LayerTable | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.data[key] if key in self.data else self.status(key).value

    def status(self, key: str) -> StatusRecord:
        """Return the record of a metric; an unknown one raises `UnknownStatusError`."""
        if key not in self.statuses:
            raise UnknownStatusError(key, self.statuses, owner="this report")
        return self.statuses[key]

    def __contains__(self, key: object) -> bool:
        return key in self.statuses or key in self.data

    def __iter__(self) -> Iterator[str]:
        return iter(self.statuses)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON can hold."""
        return {
            "name": self.name,
            "backend": self.backend,
            "model_type": self.model_type,
            "batch_size": self.batch_size,
            "inputs": self.inputs,
            "statuses": [record.to_dict() for record in self.statuses.values()],
            "layers": [_plain(dict(row)) for row in self.layers or ()],
            "notes": list(self.notes),
            "environment": dict(self.environment),
            "created": self.created,
        }

    def to_text(self, details: bool = False) -> str:
        """Return the console table as text; ``details`` adds descriptions and the layers."""
        return render(self, "console", details=details)

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> RenderableType:
        table: RenderableType = rich_tables().report_table(self)
        return table


@dataclass(frozen=True)
class Comparison:
    """Reports side by side; the first is the reference that the others are measured by."""

    reference: Report
    others: tuple[Report, ...]

    def __post_init__(self) -> None:
        if not self.others:
            raise ValueError("a Comparison needs at least one report beside the reference")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every metric that any of the reports has, in the order of the reference."""
        return tuple(dict.fromkeys(key for report in (self.reference, *self.others) for key in report))

    def ratio(self, key: str, other: str | int | None = None) -> Ratio:
        """Return a metric of another model over the reference's: ``value``, ``low``, ``high``.

        Args:
            key: The metric; both must have a value for it that is a number.
            other: Which of several models, by name or by place; not needed where there is one.
        """
        report = self.other(other)
        reference, value = (self._number(which, key) for which in (self.reference, report))
        return Ratio.of(reference, value)

    def enhancement(self, key: str, other: str | int | None = None) -> float | None:
        """Return how far a model's metric is better than the reference's, by the metric's own comparative.

        None where one of the two has no value, the metric is not comparable, or the two are in different units.
        """
        report = self.other(other)
        records = [which.statuses.get(key) for which in (self.reference, report)]
        if all(record is None for record in records):
            raise UnknownStatusError(key, self.keys, owner="this comparison")
        reference, value = records
        if reference is not None and value is not None and reference.base_unit != value.base_unit:
            return None
        if reference is None or value is None or not (is_number(reference.value) and is_number(value.value)):
            return None
        paired = isinstance(reference.value, Measurement) and isinstance(value.value, Measurement)
        if paired and reference.comparative in (Comparative.DIV, Comparative.RECIPROCAL):
            ratio = Ratio.of(reference.value, value.value).value
            return reference.comparative.enhancement(1.0, ratio)
        return reference.comparative.enhancement(float(reference.value), float(value.value))

    def other(self, which: str | int | None = None) -> Report:
        """Return one of the models beside the reference, by name or by place."""
        names = [report.name for report in self.others]
        if which is None:
            if len(self.others) > 1:
                raise ValueError(f"this comparison has several models: {', '.join(names)}; say which one is meant")
            return self.others[0]
        if isinstance(which, str):
            if which not in names:
                raise ValueError(f"no model {which!r} in this comparison; it has: {', '.join(names)}")
            return self.others[names.index(which)]
        if not -len(names) <= which < len(names):
            raise ValueError(f"no model {which} in this comparison; it has {len(names)}: {', '.join(names)}")
        return self.others[which]

    def _number(self, report: Report, key: str) -> float | Measurement:
        value = report[key]
        if not is_number(value):
            record = report.status(key)
            why = "; ".join(record.missing) or "it is no number"
            raise ValueError(f"{key} of {report.name} has no ratio ({record.completeness.value}): {why}")
        return value if isinstance(value, Measurement) else float(value)

    def to_dict(self) -> dict[str, Any]:
        """Return all reports as values that JSON can hold."""
        return {"reference": self.reference.to_dict(), "others": [report.to_dict() for report in self.others]}

    def to_text(self, details: bool = False) -> str:
        """Return the console table as text; ``details`` adds descriptions and the layers."""
        return render(self, "console", details=details)

    def __str__(self) -> str:
        return self.to_text()

    def __rich__(self) -> RenderableType:
        table: RenderableType = rich_tables().comparison_table(self)
        return table


def told_apart(names: Iterable[str]) -> list[str]:
    """Give models of one name a number each, so that a reader can tell the columns apart."""
    given = list(names)
    met: Counter[str] = Counter()
    apart = []
    for name in given:
        met[name] += 1
        apart.append(f"{name} ({met[name]})" if given.count(name) > 1 else name)
    return apart


def report_of(
    name: str, backend: Backend, model: Any, statuses: Mapping[str, StatusKey], names: Container[str] | None = None
) -> Report:
    """Return computed statuses of a model as plain data, of the named metrics only if there are names."""
    from datetime import datetime, timezone

    from .environment import machine

    inputs, trace = (statuses[key].value if key in statuses else None for key in (Inputs.NAME, Trace.NAME))
    metrics = [status for status in statuses.values() if isinstance(status, Metric)]
    records = [StatusRecord.of(metric) for metric in metrics if names is None or metric.NAME in names]
    batches = {metric.NAME: size for metric in metrics for size in _batch_sizes(metric, backend)}
    asked = [status for key, status in statuses.items() if names is not None and key in names]
    data = {status.NAME: status for status in asked if not isinstance(status, Metric)}
    notes = list(trace.notes) if trace else []
    notes += [f"{key} {said}" for key, status in data.items() for said in _without_value(status)]
    if len(set(batches.values())) > 1:
        listing = ", ".join(f"{key} of {size}" for key, size in batches.items())
        notes.append(f"values are for batches of different sizes: {listing}")
    for note in dict.fromkeys(record.note for record in records if record.note):
        noted = ", ".join(record.friendly_name for record in records if record.note == note)
        notes.append(f"{noted}: {note}")
    notes += [
        f"{record.friendly_name}: {record.value.warning}"
        for record in records
        if isinstance(record.value, Measurement) and record.value.warning
    ]
    return Report(
        name=name,
        backend=backend.name,
        model_type=f"{type(model).__module__}.{type(model).__qualname__}",
        statuses={record.key: record for record in records},
        batch_size=next(iter(batches.values())) if len(set(batches.values())) == 1 else None,
        inputs=repr(inputs) if isinstance(inputs, ModelInputs) else "",
        layers=trace.table if trace else None,
        notes=tuple(dict.fromkeys(notes)),
        environment={**machine(), **backend.environment()},
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        data={key: status.value for key, status in data.items() if status.value is not None},
    )


def _without_value(status: StatusKey) -> Iterator[str]:
    outcome = status.outcome
    if outcome.value is None:
        yield f"{outcome.completeness.value}: {'; '.join(outcome.missing)}"


def _batch_sizes(status: StatusKey, backend: Backend) -> Iterator[int]:
    """Yield the batch size of the inputs that a status was computed from, if it was computed from any."""
    for source in status.sources:
        if isinstance(source, Inputs):
            size = batch_size_of(source.value, backend)
            yield from () if size is None else (size,)
        yield from _batch_sizes(source, backend)


def _plain(value: Any) -> Any:
    if isinstance(value, Measurement):
        return _plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, LayerTable):
        return [_plain(dict(row)) for row in value]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Integral):  # numpy's, of any size
        return int(value)
    if not is_number(value):
        return str(value)
    return float(value) if math.isfinite(float(value)) else None  # JSON has no way to write any other
