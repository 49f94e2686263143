"""The measured memory, with what is known beside it: with and without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit.backend import RunOptions
from profilerkit.inputs import ModelInputs
from profilerkit.piping.outcome import Outcome
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.observed_runs import MeasuredPeak, ObservedRun
from profilerkit_metrics.measured_memory import ComputeMeasuredMemory

RUN = ObservedRun("the measured run", macs=7)


class Measuring(FakeBackend):
    """Stands for a backend whose allocator tells a peak of 32 bytes."""

    def measure_memory(self, model: Any, inputs: ModelInputs, device: Any = None) -> int:
        return MeasuredPeak(32, [RUN])


def refuse() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("include_weights", [True, False])
@pytest.mark.parametrize("is_traced", [True, False])
def test_the_conditions_and_the_observed_runs_do_not_depend_on_the_trace(
    is_traced: bool, include_weights: bool
) -> None:
    """Ten parameters of four bytes are 40 bytes of weights."""
    backend, inputs = Measuring(), ModelInputs(FakeTensor((1, 3)))
    model = FakeModel(layers=[FakeLayer("first", params=10)])
    if not is_traced:
        model.on_call = refuse
    trace = backend.trace(model, inputs)
    assert (trace.failure is None) == is_traced
    found = Outcome.of(
        ComputeMeasuredMemory()(
            model, backend, inputs, trace, include_weights=include_weights, run_options=RunOptions(num_threads=1)
        )
    )
    assert found.value == 32 + 40 * (is_traced and include_weights)
    assert "measured without the options of execution_time: on 1 thread" in found.note
    assert ("memory_footprint predicts" in found.note) == is_traced
    assert found.runs == (RUN,)
    assert found.missing == (() if is_traced or not include_weights else ("the weights, for the trace failed",))
