"""A row of an audit: one model with one setting, its values, and the reasons for missing values.

A row is one struct: the same in memory, in the store (`encode` and `decode`), in JSON and in exports.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from numbers import Integral
from typing import Any

import msgspec

from profilerkit.errors import FailureCode
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.results.report import Report, StatusRecord
from profilerkit.times.measurement import Measurement
from profilerkit.trace.bounds import Bounds, Sign


class RowStatus(StrEnum):
    """How complete the requested metrics of a model are."""

    #: Every metric that applies to the model has a complete value.
    COMPLETE = "complete"
    #: The process came to its end; a metric is partial or unavailable.
    PARTIAL = "partial"
    #: A metric failed, the model could not be built, or its process ended early.
    FAILED = "failed"


class Value(msgspec.Struct, frozen=True):
    """One metric of a row.

    Args:
        value: The number in base units, exact for counts; the median of a measurement. None if there is no value, and
            for a metric that is no number, such as a table, which the report of the row has.
        unit: The base unit: "MACs", "B", "s"; empty for a plain count.
        completeness: Whether the whole value was counted.
        reason: The missing parts, or why there is no value; empty for a complete value.
        low: The lower end: the certain part of a partial count, the lower end of a measurement's confidence interval.
        high: The upper end; None if it is not known.
        samples: How many samples a measurement has; 0 for a count.
        noise: Half the width of the interval over the median; None for a count.
        shown: The value as text for people, with its unit.
        brief: ``shown`` without the interval of a measurement; empty if there is no interval.
        is_applicable: Whether the metric has a meaning for the model; if it has none, its absence is no gap.
        sign: The sign before a partial value, as its report has it: "≥ ", "≤ ", or "~ " for an estimate.
    """

    value: int | float | None
    unit: str = ""
    completeness: Completeness = Completeness.COMPLETE
    reason: str = ""
    low: int | float | None = None
    high: int | float | None = None
    samples: int = 0
    noise: float | None = None
    shown: str = ""
    brief: str = ""
    is_applicable: bool = True
    sign: Sign = Sign.EXACT

    @classmethod
    def of(cls, record: StatusRecord) -> Value:
        """Return the value of a report's record."""
        value, parts = record.value, record.text_parts
        number = low = high = noise = None
        if isinstance(value, Measurement):
            number, (low, high), noise = value.median, value.interval, value.noise
        elif is_number(value):
            ends = record.ends or Bounds()
            number, low, high = value, ends.low, ends.high
        return cls(
            _make_plain(number),
            unit=record.base_unit,
            completeness=record.completeness,
            reason="; ".join(record.missing),
            low=_make_plain(low),
            high=_make_plain(high),
            samples=len(value.samples) if isinstance(value, Measurement) else 0,
            noise=_make_plain(noise),
            shown=record.shown,
            brief="" if parts is None else parts.without_interval,
            is_applicable=record.is_applicable,
            sign=Sign.EXACT if value is None else record.sign,
        )

    @property
    def text(self) -> str:
        """The value as a report writes it, with its sign; empty without a value."""
        return f"{self.sign}{self.shown}"

    @property
    def digits(self) -> str:
        """The value in all digits, with its sign; for two values whose texts are equal."""
        return f"{self.sign}{self.value:,}"

    @property
    def has_value(self) -> bool:
        """Whether there is a value of any kind, such as a number or a table."""
        return self.value is not None or self.completeness in (Completeness.COMPLETE, Completeness.PARTIAL)

    @property
    def is_measured(self) -> bool:
        """Whether it was measured, so that it differs from run to run and from machine to machine."""
        return self.samples > 0


def _make_plain(number: Any) -> Any:
    """Return a number as JSON holds it, with every digit; None if it is not finite."""
    if number is None or not math.isfinite(number):
        return None
    return int(number) if isinstance(number, Integral) else float(number)


class Row(msgspec.Struct, frozen=True):
    """One measurement of a model with one setting.

    Args:
        spec: The text by which the model was loaded: ``net.py:build``, ``hf:bert``.
        key: The measurement as a digest: equal for the same spec, code, package versions, settings and environment.
        status: How complete the requested metrics are.
        failure: Why the row failed, as a code for programs; None if it did not fail. ``reason`` has the words.
        reason: Why the status is not complete, in words; empty if it is.
        settings: The point of the matrix: ``input_shape``, ``batch_size``, ``dtype``, ``device``, run options; settings
            that the plan does not name are absent.
        values: The metrics, by name.
        name: The name of the model in its report.
        backend: The backend; "unknown" if the model was not built.
        model_type: The class of the model.
        fingerprint: The fingerprint of the report: equal for models of the same layers.
        flags: The values that are not plausible, each with its reason; do not trust a row with a flag.
        conditions: ``beside`` (how many models of the audit ran at the same time while this one was timed, or counted
            if it was not timed) and ``signs``: in words, that the machine was busy with other work while it was timed.
        machine: The kind of machine, as a digest: times are compared within one kind only. `Store.machines` has it in
            words.
        versions: The versions of Python and of the packages that the model and its measurement depend on.
        code: A digest of the model's own source files; empty if its code is all in packages.
        commit: The commit of the repository that the plan lies in; it ends with "+" if files were changed since, and is
            empty if there is none.
        seconds: How long the process took, waiting not included.
        peak_bytes: The most memory that its processes held together; None if it was not read.
        attempt: 1 for the first measurement of this key, counted up with each ``--rerun``.
        run: The run that measured it.
        created: When it ended: ISO 8601, UTC.
        checksum: The checksum of the report in the store; empty if there is no report.
        id: The number of the row in its store; None before it is stored.
    """

    spec: str
    key: str
    status: RowStatus
    failure: FailureCode | None = None
    reason: str = ""
    settings: dict[str, Any] = {}
    values: dict[str, Value] = {}
    name: str = ""
    backend: str = "unknown"
    model_type: str = "unknown"
    fingerprint: str = ""
    flags: tuple[str, ...] = ()
    conditions: dict[str, Any] = {}
    machine: str = ""
    versions: dict[str, str] = {}
    code: str = ""
    commit: str = ""
    seconds: float = 0.0
    peak_bytes: int | None = None
    attempt: int = 1
    run: str = ""
    created: str = ""
    checksum: str = ""
    id: int | None = None

    def __getitem__(self, metric: str) -> float | None:
        """Return the number of a metric; None if it has none. An unknown metric raises `KeyError`."""
        return self.values[metric].value

    def to_dict(self) -> dict[str, Any]:
        """Return the row as values that JSON holds."""
        return _convert(self)


_DECODER = msgspec.json.Decoder(Row)


def _convert(struct: msgspec.Struct) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(struct, enc_hook=str)
    return content


def encode(struct: msgspec.Struct) -> str:
    """Return a row, or another struct, as JSON; half of a surrogate pair, which no file holds, is a question mark."""
    return json.dumps(_convert(struct), ensure_ascii=False).encode("utf-8", "replace").decode()


def decode(text: str | bytes) -> Row:
    r"""Return the row of its JSON; raises `msgspec.DecodeError` for other text.

    >>> row = Row("net.py:build", "ab", RowStatus.COMPLETE, reason="\x00", values={"macs": Value(2**70 + 1, "MACs")})
    >>> decode(encode(row)) == row
    True
    """
    return _DECODER.decode(text)


def read_report(report: Report, **about: Any) -> Row:
    """Return the row of a report, with further fields; ``failure`` is the most telling failure of its values."""
    values = {name: Value.of(record) for name, record in report.statuses.items()}
    status, reason = judge(values)
    codes = [code for code in (record.failure for record in report.statuses.values()) if code is not None]
    telling = next((code for code in codes if code is not FailureCode.MODEL), FailureCode.MODEL)
    failure = telling if status is RowStatus.FAILED else None
    facts = {name: getattr(report, name) for name in ("name", "backend", "model_type", "fingerprint")}
    return Row(**{"status": status, "failure": failure, "reason": reason, "values": values, **facts, **about})


def judge(values: Mapping[str, Value]) -> tuple[RowStatus, str]:
    """Return the status of a row and its reason, from its values: the worst completeness among them.

    The reason is that of the first value with this completeness; all of them are named after it. A value that does not
    apply to the model is no gap, unless no value applies.
    """
    values = {name: value for name, value in values.items() if value.is_applicable} or values
    for completeness in (Completeness.FAILED, Completeness.UNAVAILABLE, Completeness.PARTIAL):
        concerned = {name: value for name, value in values.items() if value.completeness is completeness}
        if concerned:
            status = RowStatus.FAILED if completeness is Completeness.FAILED else RowStatus.PARTIAL
            names = f"{', '.join(concerned)} {completeness.value}"
            cause = next(iter(concerned.values())).reason
            return status, f"{cause} ({names})" if cause else names
    return (RowStatus.COMPLETE, "") if values else (RowStatus.FAILED, "no metric was computed")
