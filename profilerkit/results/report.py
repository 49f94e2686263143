"""The results about one model as plain data: a `Report`.

Nothing here measures and nothing here draws; `profilerkit.render` turns reports into texts and pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from ..error_text import describe_error, shown
from ..errors import FailureCode, UnknownStatusError, classify
from ..piping.comparative import Comparative
from ..piping.outcome import Completeness, Outcome, is_number
from ..piping.quantity import MeasuredText, Scale, scale_value, write_measurement
from ..piping.status import Metric, StatusKey
from ..times.layer_times import LayerTimeTable
from ..times.measurement import Measurement
from ..trace.bounds import Bounds, Sign
from ..trace.layer_table import is_by_layer
from ..trace.layer_view import with_times
from ..trace.records import LayerTable, MemoryTimeline
from ..trace.table import Table
from .result import Result, one_line

__all__ = ["Report", "StatusRecord"]

#: The texts of a metric that its own code may write.
_TEXTS = ("friendly_name", "description", "shown", "unit", "base_unit")
#: The tables that `Report.to_pandas` makes frames of.
TableName: TypeAlias = Literal["layers", "operators", "iterations", "layerwise", "metrics"]


@dataclass(frozen=True)
class StatusRecord:
    """One metric of a report: its value, the text that reports print, and its completeness.

    Attributes:
        key: The name of the status key, such as "macs".
        friendly_name: The name that tables print.
        description: What the metric measures, in a sentence.
        value: The value in base units; None if there is none.
        shown: The value as text, scaled, with its unit.
        unit: The unit of ``shown``, with its prefix.
        comparative: How two values of the metric are compared.
        completeness: Whether the value is complete, partial, unavailable or failed.
        missing: The parts that a partial value leaves out, or the reason why there is no value.
        base_unit: The unit of ``value``.
        note: A remark about the value, such as the device and the settings of a measurement.
        scale: Which prefixes ``unit`` takes.
        bounds: The lower and the upper bound of a partial number, both included; None for a bound that is unknown.
        failure: Why the value failed, as a code that programs can read; None if it did not.
        is_applicable: False if there is no value because the metric has no meaning for the model.
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
    scale: Scale = Scale.NONE
    bounds: Bounds | None = None
    failure: FailureCode | None = None
    is_applicable: bool = True

    @property
    def ends(self) -> Bounds | None:
        """The bounds of the value, which are equal if it is complete; None for a measurement, and without a value."""
        return Outcome(self.value, self.completeness, bounds=self.bounds).ends

    @property
    def number(self) -> float | None:
        """The value as a plain number, for a measurement the median; None if it is no number."""
        if not is_number(self.value):
            return None
        number: float = self.value if type(self.value) in (int, float) else float(self.value)
        return number

    @property
    def sign(self) -> Sign:
        """The sign before a partial value: "≥ ", "≤ ", or "~ " for an estimate between two bounds."""
        if self.completeness is not Completeness.PARTIAL:
            return Sign.EXACT
        if self.ends is not None:
            return self.ends.sign(self.value)
        return Sign.LOWER if self.bounds is None else Sign.BETWEEN

    @property
    def text_parts(self) -> MeasuredText | None:
        """The parts of ``shown``; None for a value that is not measured, and for a metric with a text of its own."""
        if not isinstance(self.value, Measurement):
            return None
        text = write_measurement(self.value, scale_value(self.value.median, self.base_unit, self.scale))
        return text if str(text) == self.shown else None

    @classmethod
    def of(cls, metric: Metric) -> StatusRecord:
        """Read a computed metric; one that cannot be shown is a failure of its own, not of the report."""
        try:
            outcome = metric.outcome
            failure = None
            if outcome.completeness is Completeness.FAILED:
                failure = FailureCode.MODEL if outcome.error is None else classify(outcome.error)
            record = cls(
                key=metric.NAME,
                friendly_name=metric.friendly_name(),
                description=metric.description(),
                value=outcome.value,
                shown=metric.show() if outcome.value is not None else "",
                unit=(metric.get_units() or "") if outcome.value is not None else "",
                comparative=Comparative.parse(metric.get_comparative()),
                completeness=outcome.completeness,
                missing=outcome.missing,
                base_unit=metric.UNIT or "",
                note=outcome.note,
                scale=metric.SCALE,
                bounds=outcome.bounds,
                failure=failure,
                is_applicable=outcome.is_applicable,
            )
            for name in _TEXTS:
                if not isinstance(getattr(record, name), str):
                    raise TypeError(f"{name}={shown(getattr(record, name))} is no text")
            return record
        except MemoryError:
            raise
        except Exception as error:
            return _make_failed(metric, error)


def _make_failed(metric: Metric, error: Exception) -> StatusRecord:
    """Return the record of a metric that cannot be shown."""
    reason = f"{type(metric).__name__} cannot be shown: {describe_error(error)}"
    return StatusRecord(
        key=metric.NAME,
        friendly_name=metric.NAME,
        description="",
        value=None,
        shown="",
        unit="",
        comparative=Comparative.NONE,
        completeness=Completeness.FAILED,
        missing=(reason,),
        failure=classify(error),
    )


def _find_ends(record: StatusRecord) -> tuple[float | None, float | None]:
    """Return the two ends of a number: of the interval if it is measured; None for an end that is not known."""
    if isinstance(record.value, Measurement):
        return record.value.interval
    ends = record.ends or Bounds()
    return ends.low, ends.high


@dataclass(frozen=True, repr=False)
class Report(Result):
    """The results for one model.

    ``report["macs"]`` is a value in base units, ``report.status("macs")`` is its record, ``print(report)`` prints a
    table. A report is a mapping of its metrics: ``len``, ``keys``, ``items``, ``get`` and ``dict(report)`` work as for
    a dict.

    Attributes:
        name: The name of the model.
        backend: The name of the backend, such as "torch".
        model_type: The class of the model, with its module.
        statuses: The record of each metric, by its key.
        batch_size: The samples in one forward pass; None if no inputs were needed.
        inputs: The shapes and dtypes of the inputs, as text.
        layers: The table of layers; None if the model was not traced.
        notes: Remarks about the whole report, such as replaced inputs; a sentence for each condition among them.
        conditions: The settings of the caller that change the numbers: "autocast of cpu to torch.bfloat16".
        environment: The machine and the versions of the software.
        created: The date and time, in UTC.
        data: The values of requested status keys that are not metrics, such as ``layerwise_data``.
        operators: The table of operators; None if the model was not traced.
        memory: The bytes alive after each operator; None if the model was not traced.
        arguments: The arguments of the call, as text.
        input_dtypes: The dtypes of the inputs, as text: "int64, float32"; empty without inputs.
        fingerprint: A text that is equal for models with the same layers and weights of the same sizes.
    """

    name: str
    backend: str
    model_type: str
    statuses: Mapping[str, StatusRecord]
    batch_size: Annotated[int, msgspec.Meta(ge=0)] | None = None
    inputs: str = ""
    layers: LayerTable | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    operators: Table | None = None
    memory: MemoryTimeline | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    input_dtypes: str = ""
    conditions: tuple[str, ...] = ()

    def __getitem__(self, key: str | type[StatusKey]) -> Any:
        name = self._find_name(key)
        return self.data[name] if name in self.data else self.status(name).value

    def status(self, key: str | type[StatusKey]) -> StatusRecord:
        """Return the record of a metric. An unknown name raises `UnknownStatusError`."""
        name = self._find_name(key)
        if name not in self.statuses:
            raise UnknownStatusError(name, self.statuses, owner="this report")
        return self.statuses[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.statuses
        yield from (key for key in self.data if key not in self.statuses)

    def __repr__(self) -> str:
        """Return one line: the name, the backend, and the first metrics."""
        values = (f"{record.key}={record.sign}{record.shown}" for record in self.statuses.values() if record.shown)
        return one_line("Report", [repr(self.name), self.backend, *values])

    def metrics(self) -> dict[str, float]:
        """Return all metrics that are numbers, in base units, as a flat dict, which experiment trackers accept.

        A measurement gives its median and the ends of its interval: ``execution_time``, ``execution_time.low`` and
        ``execution_time.high``. A partial number gives the ends that are known. Tables, and metrics without a value,
        are left out.
        """
        numbers = {}
        for key, record in self.statuses.items():
            if record.number is None:
                continue
            numbers[key] = record.number
            if isinstance(record.value, Measurement) or record.sign:  # others are exact
                ends = zip(("low", "high"), _find_ends(record), strict=True)
                numbers |= {f"{key}.{name}": end for name, end in ends if end is not None}
        return numbers

    @property
    def reports(self) -> tuple[Report]:
        """A tuple of this report only. A comparison has the same attribute, with several reports."""
        return (self,)

    @property
    def layerwise(self) -> LayerTable:
        """The layers in one table: their counts, and their times if the times of layers were measured.

        It has the columns of ``layers`` and of the table of times, their shares of the whole model, and the
        FLOPs of a layer in one second. It has no rows if the model was neither traced nor timed.
        """
        values = (record.value for record in self.statuses.values())
        timed = [value for value in values if is_by_layer(value) and "forward_seconds" in value.columns]
        return with_times(self.layers, max(timed, key=len, default=None))  # others have some of the layers alone

    @property
    def iterations(self) -> Table:
        """All samples of all measurements, warm-up included: metric, layer, call, iteration, value, warmup.

        It includes the times of layers: the metric is then ``layer_times.forward_seconds``, for example, ``layer`` is
        the path of the layer, and ``call`` is the index of its call in one pass. Other rows have None there.
        """
        return Table(_list_iterations(self))

    def to_pandas(self, table: TableName = "layers") -> Any:
        """Return "layers", "operators", "iterations", "layerwise" or "metrics" as a pandas ``DataFrame``.

        The table of metrics has one row for each metric, in base units, with the lower and the upper end of its value.

        It needs the ``pandas`` extra. An unknown table, or one that this report does not have, raises `ValueError`.
        """
        if table not in get_args(TableName):
            raise ValueError(f"no table {shown(table)} in a report; it has {', '.join(map(repr, get_args(TableName)))}")
        selected = Table(_list_metric_rows(self)) if table == "metrics" else getattr(self, table)
        if selected is None:
            raise ValueError(f"the report of {self.name} holds no {table}: the model was not traced")
        return selected.to_pandas()


def _list_metric_rows(report: Report) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each metric: its number in base units with the known ends, and the shown text."""
    for record in report.statuses.values():
        low, high = _find_ends(record)
        yield {
            "key": record.key,
            "name": record.friendly_name,
            "value": record.number,
            "low": low,
            "high": high,
            "unit": record.base_unit,
            "shown": record.shown,
            "completeness": record.completeness.value,
            "missing": "; ".join(record.missing),
        }


def _list_iterations(report: Report) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each sample of each measurement, and for each time of each call of a layer."""
    for key, record in report.statuses.items():
        if isinstance(record.value, Measurement):
            yield from _list_samples(key, record.value)
        elif isinstance(record.value, LayerTimeTable):
            yield from _list_times_of_calls(key, record.value)


def _list_samples(key: str, measurement: Measurement) -> Iterator[Mapping[str, Any]]:
    for samples, is_warmup in ((measurement.warmup, True), (measurement.samples, False)):
        for iteration, value in enumerate(samples):
            of_model = {"metric": key, "layer": None, "call": None}
            yield {**of_model, "iteration": iteration, "value": value, "warmup": is_warmup}


def _list_times_of_calls(key: str, times: LayerTimeTable) -> Iterator[Mapping[str, Any]]:
    for row in times.iterations:
        of_call = {"layer": row["path"], "call": row["call"], "iteration": row["pass"]}
        for column, value in row.items():
            if column.endswith("_seconds") and value is not None:
                yield {"metric": f"{key}.{column}", **of_call, "value": value, "warmup": False}
