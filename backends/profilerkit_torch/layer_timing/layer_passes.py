"""The times of layers in passes made for timing: for inference, and in training steps."""

from __future__ import annotations

from torch import nn

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.process.collector import collector_paused
from profilerkit.times.layer_times import LayerTime

from ..running.runs import prepare_run
from ..running.training_steps import NothingTrainedError, explain_missing_steps
from .timer import TorchLayerTimer

__all__ = ["measure_layer_times"]


def measure_layer_times(
    model: nn.Module, inputs: ModelInputs, device: DeviceLike = None, passes: int = 10, backward: bool = True
) -> list[LayerTime]:
    """Return the seconds of each layer's own work in each of several passes, forward and (with ``backward``) backward.

    Forward is the model in inference mode, as in `execution_time`, with or without ``backward``. Backward is the
    gradient of the sum of the outputs in a training step, without the step's forward pass in training mode. If the
    model is in training mode, modules in inference mode stay in it.

    Where a training step raises, as with an operator without a gradient, the times are those of forward passes alone,
    and what is missing from the whole model says why.

    Raises `WithoutValuesError` for a model whose weights have no values, `InputError` if ``passes`` is below
    1, and `ModelFailedError` if the model raises for inference, or a training step has not enough memory.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    timer = _time(model, inputs, passes, RunOptions(device=device))
    forward = timer.runs()
    without_gradients = [None] * passes
    if not backward:
        return timer.sum_times(forward, without_gradients)
    try:
        steps = _time(model, inputs, passes, RunOptions(training=True, device=device)).runs()
    except (NothingTrainedError, ModelFailedError) as error:
        return timer.sum_times(forward, without_gradients, explain_missing_steps(error))
    return timer.sum_times(forward, steps)


def _time(model: nn.Module, inputs: ModelInputs, passes: int, options: RunOptions) -> TorchLayerTimer:
    """Run the model a few times, after a pass that is not timed, and return the timer that followed it."""
    with prepare_run(model, inputs, options) as call, collector_paused():
        timer = TorchLayerTimer(model, keep=passes)
        call()
        with timer:
            for _ in range(passes):
                call()
    return timer
