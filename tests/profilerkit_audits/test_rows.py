"""The status of a row: what does not apply to a model is no gap."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from profilerkit import Completeness, Measurement, Metric, Partial, Unavailable
from profilerkit.piping.outcome import Outcome
from profilerkit.results.report import StatusRecord
from profilerkit.trace.bounds import UNKNOWN_ENDS, Bounds
from profilerkit_audits import Row, RowStatus, Value
from profilerkit_audits.rows import decode, encode, judge

COUNTED = Value(48, "MACs")
MEANINGLESS = Value(None, completeness=Completeness.UNAVAILABLE, reason="a file has no weights", is_applicable=False)
MISSING = Value(None, completeness=Completeness.UNAVAILABLE, reason="the backend counts models, and does not run them")
BROKEN = Value(None, completeness=Completeness.FAILED, reason="boom")


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ({"macs": COUNTED}, RowStatus.COMPLETE, ""),
        ({"macs": COUNTED, "trainable_params": MEANINGLESS}, RowStatus.COMPLETE, ""),
        (
            {"macs": COUNTED, "execution_time": MISSING},
            RowStatus.PARTIAL,
            f"{MISSING.reason} (execution_time unavailable)",
        ),
        ({"trainable_params": MEANINGLESS}, RowStatus.PARTIAL, "a file has no weights (trainable_params unavailable)"),
        ({"macs": BROKEN}, RowStatus.FAILED, "boom (macs failed)"),
        ({"macs": BROKEN, "total_params": COUNTED, "flops": BROKEN}, RowStatus.FAILED, "boom (macs, flops failed)"),
        ({"macs": Value(None, completeness=Completeness.FAILED)}, RowStatus.FAILED, "macs failed"),
        ({}, RowStatus.FAILED, "no metric was computed"),
    ],
)
def test_the_status_is_the_worst_of_what_applies(values: dict[str, Value], status: RowStatus, reason: str) -> None:
    """The cause stands before the values that it concerns: a narrow column shows how a text begins."""
    assert judge(values) == (status, reason)


class Depth(Metric):
    NAME = "depth"


@pytest.mark.parametrize("is_applicable", [True, False])
def test_no_words_of_a_reason_tell_whether_a_metric_applies(is_applicable: bool) -> None:
    returned = Unavailable("does not apply to this model", is_applicable=is_applicable)
    value = Value.of(StatusRecord.of(Depth().with_outcome(Outcome.of(returned), ())))
    assert value.is_applicable is is_applicable
    status = RowStatus.PARTIAL if is_applicable else RowStatus.COMPLETE
    assert judge({"macs": COUNTED, "depth": value})[0] is status


@pytest.mark.parametrize(
    ("returned", "sign"),
    [
        (5, ""),
        (Partial(5, ("a loop",)), "≥ "),
        (Partial(5, ("a branch",), Bounds(None, 5)), "≤ "),
        (Partial(5, ("a branch",), Bounds(2, 9)), "~ "),
        (Measurement((1.0, 2.0, 3.0)), ""),
        (Partial(Measurement((1.0, 2.0, 3.0)), ("the energy of the memory",)), "≥ "),
        (Partial(Measurement((1.0, 2.0, 3.0)), ("work of a branch over time",), UNKNOWN_ENDS), "~ "),
    ],
)
def test_a_value_has_the_sign_that_it_has_in_its_report(returned: object, sign: str) -> None:
    """The interval of a measurement says nothing about what it lacks."""
    record = StatusRecord.of(Depth().with_outcome(Outcome.of(returned), ()))
    assert (record.sign, Value.of(record).sign) == (sign, sign)


@pytest.mark.parametrize("number", [np.float32(0.75), np.float16(0.75), np.array(0.75), Fraction(3, 4), 0.75])
def test_a_number_of_any_type_keeps_its_fraction(number: object) -> None:
    """A user's metric may return what NumPy computes, which is no float of Python."""
    for returned in (number, Partial(number, ("a part",))):
        value = Value.of(StatusRecord.of(Depth().with_outcome(Outcome.of(returned), ())))
        assert (value.value, value.low) == (0.75, 0.75)
    (whole,) = (Value.of(StatusRecord.of(Depth().with_outcome(Outcome.of(np.int64(2**60 + 1)), ()))),)
    assert whole.value == 2**60 + 1, "which no float holds"


def test_a_measured_value_has_a_text_without_its_interval() -> None:
    measured, counted = (
        Value.of(StatusRecord.of(Depth().with_outcome(Outcome.of(returned), ())))
        for returned in (Measurement((1.0, 2.0, 3.0)), 5)
    )
    assert measured.shown.startswith(f"{measured.brief} [1 to 3")
    assert measured.brief.startswith("2")
    assert (counted.shown, counted.brief) == ("5", "")


def test_rows_keep_what_does_not_apply_and_older_rows_without_it_are_read() -> None:
    row = Row("net.onnx", "ab", RowStatus.COMPLETE, values={"trainable_params": MEANINGLESS})
    assert decode(encode(row)) == row
    older = encode(row).replace(', "is_applicable": false', "")
    assert "is_applicable" not in older
    assert decode(older).values["trainable_params"].is_applicable
