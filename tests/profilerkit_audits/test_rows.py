"""The status of a row: what does not apply to a model is no gap."""

from __future__ import annotations

import pytest

from profilerkit import Completeness
from profilerkit_audits import RowStatus, Value
from profilerkit_audits.rows import judge

COUNTED = Value(48, "MACs")
MEANINGLESS = Value(None, completeness=Completeness.UNAVAILABLE, reason="does not apply to this model: no weights")
MISSING = Value(None, completeness=Completeness.UNAVAILABLE, reason="the backend counts models, and does not run them")


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ({"macs": COUNTED}, RowStatus.COMPLETE, ""),
        ({"macs": COUNTED, "trainable_params": MEANINGLESS}, RowStatus.COMPLETE, ""),
        ({"macs": COUNTED, "execution_time": MISSING}, RowStatus.PARTIAL, "execution_time unavailable: the backend"),
        ({"trainable_params": MEANINGLESS}, RowStatus.PARTIAL, "trainable_params unavailable: does not apply"),
        ({"macs": Value(None, completeness=Completeness.FAILED, reason="boom")}, RowStatus.FAILED, "macs failed: boom"),
        ({}, RowStatus.FAILED, "no metric was computed"),
    ],
)
def test_the_status_is_the_worst_of_what_applies(values: dict[str, Value], status: RowStatus, reason: str) -> None:
    found, text = judge(values)
    assert (found, text.startswith(reason)) == (status, True)
    assert bool(text) == bool(reason)


def test_only_what_has_no_meaning_does_not_apply() -> None:
    assert [item.is_applicable for item in (COUNTED, MEANINGLESS, MISSING)] == [True, False, True]
