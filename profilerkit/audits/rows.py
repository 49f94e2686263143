"""A row of an audit: one model with one setting, what was measured of it, and why what is missing is missing.

Rows are plain data. The store keeps them, exports and the page show them; nothing here runs or writes anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from ..piping.status import INAPPLICABLE, Completeness, is_number
from ..results.report import Report, StatusRecord
from ..times.measurement import Measurement

__all__ = ["End", "Row", "RowStatus", "Value", "row_of_values", "status_of", "values_of"]


class RowStatus(StrEnum):
    """How much of what was requested of a model there is."""

    #: Every metric that applies to the model has a complete value.
    COMPLETE = "complete"
    #: The process came to its end; a metric is partial or unavailable.
    PARTIAL = "partial"
    #: A metric failed, the model could not be built, or its process ended early.
    FAILED = "failed"


class End(StrEnum):
    """The way in which the process of a model ended: a word that programs can read; ``reason`` says it in words."""

    #: The process came to its end.
    DONE = "done"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    THREADS = "threads"
    #: A signal: a segmentation fault, an abort, a kill by the system.
    SIGNAL = "signal"
    #: The model left the process: ``os._exit``, ``sys.exit``.
    EXIT = "exit"
    #: The model closed the descriptor that results go through, or wrote to it.
    CHANNEL = "channel"
    #: The process that watches over the model was killed.
    LOST = "lost"
    #: The model could not be loaded or profiled: an error of its code, wrong inputs, a name that does not exist.
    ERROR = "error"
    #: A package that the model needs is not installed.
    MISSING_PACKAGE = "missing package"
    #: The engine could not run it, such as a lost node of a cluster.
    ENGINE = "engine"


@dataclass(frozen=True)
class Value:
    """One metric of a row.

    Args:
        value: The number in base units, exact for counts; of a measurement its median. None if there is none, and for a
            metric that is no number, such as a table, which the report of the row has.
        unit: The base unit: "MACs", "B", "s"; empty for a plain count.
        completeness: Whether all of it was counted.
        reason: What is missing, or why there is no value; empty for a complete one.
        low: The lower end: of a partial count what is certain, of a measurement its confidence interval.
        high: The upper end; None if it is not known.
        samples: How many samples a measurement has; 0 for what was counted.
        noise: Half the width of the interval over the median; None for what was counted.
        shown: The value as text for people, with its unit.
    """

    value: float | None
    unit: str = ""
    completeness: Completeness = Completeness.COMPLETE
    reason: str = ""
    low: float | None = None
    high: float | None = None
    samples: int = 0
    noise: float | None = None
    shown: str = ""

    @classmethod
    def of(cls, record: StatusRecord) -> Value:
        """Return the value of a report's record."""
        about: dict[str, Any] = {"unit": record.base_unit, "completeness": record.completeness, "shown": record.shown}
        reason = "; ".join(record.missing)
        if isinstance(record.value, Measurement):
            low, high = map(_finite, record.value.interval)
            samples, noise = len(record.value.samples), _finite(record.value.noise)
            median = _finite(record.value.median)
            return cls(median, reason=reason, low=low, high=high, samples=samples, noise=noise, **about)
        ends = record.ends
        low, high = (None, None) if ends is None else (ends.low, ends.high)
        number = record.value if is_number(record.value) and math.isfinite(record.value) else None
        return cls(number, reason=reason, low=low, high=high, **about)

    @property
    def measured(self) -> bool:
        """Whether it was measured, so that it differs from run to run and from machine to machine."""
        return self.samples > 0

    @property
    def applies(self) -> bool:
        """Whether the metric has a meaning for the model; without one its absence is no gap."""
        return self.completeness is not Completeness.UNAVAILABLE or not self.reason.startswith(INAPPLICABLE)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Row:
    """One model with one setting, as it was measured once.

    Args:
        spec: The text by which the model was loaded: ``net.py:build``, ``hf:bert``.
        key: What was measured, as a digest: equal for the same spec, code, package versions, settings and environment.
        status: How much of what was requested there is.
        end: The way in which the process ended.
        reason: Why the status is not complete, in words; empty if it is.
        settings: The point of the matrix, as JSON holds it: ``input_shape``, ``batch_size``, ``dtype``, ``device``,
            run options; what the plan does not say is absent.
        values: The metrics, by name.
        name: The name of the model in its report.
        backend: The backend; "unknown" if the model was not built.
        model_type: The class of the model.
        fingerprint: That of the report: equal for models of the same layers.
        flags: What is not plausible in the values, each with its reason; a row with a flag is not to be trusted.
        conditions: How busy the machine was: ``load_before``, ``load_after``, ``cores``, ``busy`` (0 to 1, of all
            cores, by others than this model), ``beside`` (how many models of the audit ran at the same time while this
            one was counted) and ``signs`` in words.
        machine: The kind of machine, as a digest: times are compared within one kind only. `Store.machines` has it in
            words.
        versions: The versions of Python and of the packages that the model and its measurement depend on.
        code: A digest of the model's own source files; empty if its code is all in packages.
        commit: The commit of the repository that the plan lies in; it ends with "+" if files were changed since, and is
            empty if there is none.
        seconds: How long the process took, waiting not included.
        peak_bytes: The most memory that its processes held together; None if nobody looked.
        tries: The medians of measurements that were repeated because the times were noisy, in their order, by metric;
            the quietest of them is in ``values``.
        attempt: 1 for the first measurement of this key, counted up with each ``--rerun``.
        run: The run that measured it.
        created: When it ended: ISO 8601, UTC.
        checksum: That of the report in the store; empty if there is none.
        id: The number of the row in its store; None before it is there.
    """

    spec: str
    key: str
    status: RowStatus
    end: End = End.DONE
    reason: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    name: str = ""
    backend: str = "unknown"
    model_type: str = "unknown"
    fingerprint: str = ""
    flags: tuple[str, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    commit: str = ""
    seconds: float = 0.0
    peak_bytes: int | None = None
    tries: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    attempt: int = 1
    run: str = ""
    created: str = ""
    checksum: str = ""
    id: int | None = None

    def __getitem__(self, metric: str) -> float | None:
        """Return the number of a metric; None if it has none. An unknown metric raises `KeyError`."""
        return self.values[metric].value

    def to_dict(self) -> dict[str, Any]:
        """Return the row as values that JSON holds; ``values`` are plain numbers, ``metrics`` have all about them."""
        content = {name: getattr(self, name) for name in (each.name for each in fields(self)) if name != "values"}
        content |= {"status": self.status.value, "end": self.end.value, "flags": list(self.flags)}
        content["tries"] = {name: list(medians) for name, medians in self.tries.items()}
        values = {name: value.value for name, value in self.values.items()}
        metrics = {name: value_to_dict(value) for name, value in self.values.items()}
        return {**content, "values": values, "metrics": metrics}


def value_to_dict(value: Value) -> dict[str, Any]:
    """Return all about a value as JSON holds it."""
    return {**asdict(value), "completeness": value.completeness.value}


def row_of_values(content: Mapping[str, Any]) -> Row:
    """Return the row of what `Row.to_dict` returned, or of its JSON.

    >>> import json
    >>> row = Row("net.py:build", "ab", RowStatus.COMPLETE, values={"macs": Value(48, "MACs")})
    >>> row_of_values(json.loads(json.dumps(row.to_dict()))) == row
    True
    """
    names = {each.name for each in fields(Row)}
    plain = {name: value for name, value in content.items() if name in names}
    plain |= {
        "status": RowStatus(content["status"]),
        "end": End(content["end"]),
        "flags": tuple(content["flags"]),
        "tries": {name: tuple(medians) for name, medians in content["tries"].items()},
        "values": {
            name: Value(**{**each, "completeness": Completeness(each["completeness"])})
            for name, each in content["metrics"].items()
        },
    }
    return Row(**plain)


def values_of(report: Report) -> dict[str, Value]:
    """Return the metrics of a report as the values of a row."""
    return {key: Value.of(record) for key, record in report.statuses.items()}


def status_of(values: Mapping[str, Value]) -> tuple[RowStatus, str]:
    """Return the status of a row and its reason, from its values: the worst completeness among them.

    The reason names the values with it, and has the reason of the first of them. What does not apply to the model is no
    gap, unless nothing does.
    """
    values = {name: value for name, value in values.items() if value.applies} or values
    for completeness in (Completeness.FAILED, Completeness.UNAVAILABLE, Completeness.PARTIAL):
        concerned = {name: value for name, value in values.items() if value.completeness is completeness}
        if concerned:
            status = RowStatus.FAILED if completeness is Completeness.FAILED else RowStatus.PARTIAL
            return status, f"{', '.join(concerned)} {completeness.value}: {next(iter(concerned.values())).reason}"
    return (RowStatus.COMPLETE, "") if values else (RowStatus.FAILED, "no metric was computed")
