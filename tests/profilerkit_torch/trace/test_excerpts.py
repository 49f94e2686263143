"""What is recorded in a branch is taken off the record as a whole, and put back as a whole."""

from __future__ import annotations

from torch import nn

from profilerkit_torch.trace.excerpts import Peaks, record_apart
from profilerkit_torch.trace.layers import LayerStack
from profilerkit_torch.trace.pass_record import PassRecord


def test_what_could_not_be_counted_goes_with_its_branch() -> None:
    record = PassRecord(LayerStack(nn.Linear(1, 1)))
    record.miss_unsized("before")
    excerpt, _ = record_apart(record, lambda: record.miss_unsized("inside"))
    assert record.unsized == record.uncounted == {"before": 1}
    excerpt.put_back(record, 0, Peaks(0, 0), "a branch")
    assert record.unsized == record.uncounted == {"before": 1, "inside": 1}
