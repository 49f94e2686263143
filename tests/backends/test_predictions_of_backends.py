"""Predictions of time for the models of each framework, and of training steps; numbers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from profilerkit import DeviceInfo, predict, profile
from profilerkit.devices import Figure

#: One byte takes a second, and products take no time worth mentioning.
BYTES = DeviceInfo(
    "bytes", dense_peaks={"float32": Figure(1e30, "made up")}, figures={"memory_bandwidth": Figure(1.0, "made up")}
)


def test_a_training_step_moves_gradients_too(framework: Any) -> None:
    model, x = framework.dense(6, 3), framework.tensor(np.zeros((2, 6), np.float32))
    # 21 weights, 12 inputs and 6 outputs of four bytes each; the gradients of the 21 weights besides.
    forward, step = predict(model, x, on=BYTES), predict(model, x, on=BYTES, training=True)
    assert (forward.phase, forward.bound.traffic) == ("forward", 4 * (21 + 12 + 6))
    assert (step.phase, step.bound.traffic) == ("training", 4 * (21 + 12 + 6 + 21))


def test_the_passes_of_a_training_step_are_apart(framework: Any) -> None:
    model, x = framework.dense(6, 3), framework.tensor(np.zeros((2, 6), np.float32))
    macs = {"forward": 0, "backward": 0}
    for operator in framework.profiler(model, inputs=x).compute_status("training_trace").operators:
        macs[operator.phase] += operator.macs
    # 2 * 6 * 3 forward, as many for the gradient of the weights; the input needs none.
    assert macs == {"forward": 36, "backward": 36}


def test_a_model_that_computes_nothing_has_no_time(framework: Any) -> None:
    x = framework.tensor(np.zeros((2, 3), np.float32))
    report = profile(framework.identity(), x, metrics=["predicted_time"], on=BYTES)
    assert report["predicted_time"] is None
    assert "the model computes nothing: its trace has no operators" in " ".join(report.to_text().split())
