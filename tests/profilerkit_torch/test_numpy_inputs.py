"""Numpy arrays stand for tensors wherever inputs are given."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from profilerkit import profile

ARRAY = np.ones((4, 3), dtype=np.float32)


@pytest.mark.parametrize("inputs", [ARRAY, (ARRAY,), lambda batch_size: np.ones((batch_size, 3), dtype=np.float32)])
def test_arrays_are_inputs_of_a_batch_size(inputs: Any) -> None:
    report = profile(nn.Linear(3, 2), inputs, batch_size=2, num_iters=2, warmup=0)
    assert report["macs"] == 2 * 3 * 2
    assert report.batch_size == 2
    assert report["throughput"] is not None
