"""Seconds of each layer: the model's operators timed in a profiler session, each assigned to its layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.times.layer_times import LayerTime
from profilerkit.trace.observed_runs import TimedLayers

from ..model.kinds import type_name
from ..operator_timing.session_passes import TimedModel, time_model
from ..trace.program import Program
from ..trace.program_trace import observe_run
from .live_calls import LiveCalls
from .remarks import find_unseen

__all__ = ["layer_times"]


def layer_times(
    model: Any,
    inputs: ModelInputs,
    device: DeviceLike = None,
    passes: int = 10,
    backward: bool = True,
    earlier: Program | None = None,
) -> list[LayerTime]:
    """Return the seconds of each layer's own work in each of several passes, forward and, if ``backward``, backward.

    Forward is the model in inference mode, like in `execution_time`, with or without ``backward``. Backward are the
    gradients of the sum of the outputs by the trainable variables, in a training step; the step's forward pass in
    training mode, and the sum, are left out. Each has a separate profiler session.

    A layer's seconds are the time in which its kernels ran; time in which several kernels ran is divided among them,
    so that all layers together never take more than the wall time. Time between kernels belongs to no layer. Operators
    of no inner layer belong to the root, and so do all operators of a function or a saved model. A kernel that
    TensorFlow has fused from operators of several layers belongs to the layer of its convolution or product;
    ``missing`` of the other layers says so. Where a training step raises, the times are those of forward passes alone,
    and ``missing`` of the root says why.

    Args:
        model: The model; the values of its variables are restored.
        inputs: The inputs of the call.
        device: The device that runs the model; the device of the model by default.
        passes: The number of passes, at least 1.
        backward: Whether to time the gradients.
        earlier: An existing program of the model; if it fits, the model is not traced again.

    Raises `WithoutValuesError` for a Keras model that is not built, `ProfilerBusyError` if a session of
    TensorFlow's profiler runs in this process, `InputError` for no passes, and `ModelFailedError` if
    the model raises for inference, or a training step has not enough memory.
    """
    timed = time_model(model, inputs, device, passes, backward, earlier=earlier)
    return TimedLayers(_list_times(timed), observe_run(timed.program, "the function that is timed", earlier))


def _list_times(timed: TimedModel) -> Iterator[LayerTime]:
    """Yield the times of each layer."""
    program = timed.program
    forward_passes = timed.forward.sum_by_layer(backward=False)
    backward_passes = None if timed.gradients is None else timed.gradients.sum_by_layer(backward=True)
    live = LiveCalls(program)
    calls = live.count(timed.forward)
    unseen = find_unseen(timed, calls, live)
    for path, layer in list_shown_layers(program.layers, program.calls.calls):
        is_model = not path
        yield LayerTime(
            path=path,
            type=type_name(layer),
            calls=max(1, calls[path]) if is_model else calls[path],  # the call of a function is in no graph
            own_forward=_list_seconds(forward_passes, path),
            own_backward=None if backward_passes is None else _list_seconds(backward_passes, path),
            missing="; ".join(unseen.get(path, ())),
        )


def _list_seconds(passes: Sequence[Mapping[str, float]], path: str) -> tuple[float, ...]:
    return tuple(seconds.get(path, 0.0) for seconds in passes)
