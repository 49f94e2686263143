"""The passes of a model in profiler sessions, with the place of each node that ran, by layers and directions."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import InputError, ModelFailedError, ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.errors import explain_missing_step

from ..model.inputs import copy_tensors
from ..running.devices import has_accelerator, use_device
from ..running.required_values import build_weightless
from ..trace.messages import explain_failures
from ..trace.program import Program, trace_program
from ..untouched.preservation import preserve
from .node_owners import NodeOwners, NodePlace, XlaCall
from .profiler_session import MAX_PASSES, PassTimes, op_seconds

__all__ = ["TimedModel", "TimedPasses", "time_model"]


@dataclass(frozen=True)
class TimedPasses:
    """The passes of a program; a pass may lack nodes that another has.

    Attributes:
        passes: The seconds of the nodes, pass by pass.
        places: Where each node belongs, by the name under which it ran.
        compiled: The calls of functions that XLA compiles, whose nodes are not seen.
    """

    passes: Sequence[PassTimes]
    places: Mapping[str, NodePlace]
    compiled: AbstractSet[XlaCall]

    def sum_by_layer(self, backward: bool) -> list[Mapping[str, float]]:
        """Return the seconds of each layer in one direction, pass by pass."""
        sums: list[Mapping[str, float]] = []
        for times in self.passes:
            seconds: defaultdict[str, float] = defaultdict(float)
            for name, node in times.nodes.items():
                if self.places[name].backward == backward:
                    seconds[self.places[name].owner.path] += node.seconds
            sums.append(seconds)
        return sums

    def list_places(self, backward: bool) -> Iterable[NodePlace]:
        """Return the places of the nodes of one direction."""
        return [node_place for node_place in self.places.values() if node_place.backward == backward]


class TimedModel(NamedTuple):
    """A model's passes.

    Attributes:
        program: The program of its forward pass.
        forward: The passes of that program.
        gradients: The passes of training steps; None if there are none.
        no_gradients: Why there are none, although they were requested.
    """

    program: Program
    forward: TimedPasses
    gradients: TimedPasses | None = None
    no_gradients: str = ""


def time_model(
    model: Any,
    inputs: ModelInputs,
    device: DeviceLike,
    passes: int,
    backward: bool,
    *,
    earlier: Program | None = None,
    export: str | os.PathLike[str] | None = None,
) -> TimedModel:
    """Time the forward pass of a model in inference mode and, with ``backward``, as many training steps.

    Where no training step can be made, as with an operator without a gradient, the result says why. If the ``earlier``
    program fits, the model is not traced again. A profile is one session: the file ``export`` has the last session.

    Raises the errors of `profilerkit_tensorflow.layer_timing.timer.layer_times`.
    """
    if passes < 1:
        raise InputError(f"passes={passes}: at least one pass is needed to time anything")
    with preserve(model, variable_values=True), use_device(device):
        with explain_failures(model, inputs):
            build_weightless(model, inputs)
            fed = copy_tensors(inputs)
            if device is None and earlier is not None and earlier.fits(model, fed):
                program = earlier
            else:
                with preserve(model):  # the trace of a training step would find tensors of this graph in caches
                    program = trace_program(model, fed)
            time_program = partial(_time_passes, inputs=fed, passes=passes, export=export)
            timed = TimedModel(program, time_program(program))
        return _add_gradients(timed, model, fed, time_program) if backward else timed


def _add_gradients(
    timed: TimedModel, model: Any, fed: ModelInputs, time_program: Callable[[Program], TimedPasses]
) -> TimedModel:
    """Return the passes of a model with those of training steps, or with the reason why there are none."""
    if not any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in timed.program.graph.outputs):
        reason = "it has no backward pass: none of its outputs is of a floating-point type"
        return timed._replace(no_gradients=reason)
    try:
        with explain_failures(model, fed):
            gradients = time_program(trace_program(model, fed, training=True))
    except ModelFailedError as error:
        return timed._replace(no_gradients=explain_missing_step(error.__cause__ or error))
    return timed._replace(gradients=gradients)


def _time_passes(
    program: Program, inputs: ModelInputs, passes: int, export: str | os.PathLike[str] | None
) -> TimedPasses:
    """Run a program in as many profiler sessions as its passes need; the file ``export`` gets the last profile."""
    owners = NodeOwners(program)
    call = _make_fresh_call(program, inputs)
    timed: list[PassTimes] = []
    while len(timed) < passes:
        timed += op_seconds(call, min(MAX_PASSES, passes - len(timed)), export=export)
    places: dict[str, NodePlace] = {}
    for times in timed:
        places.update(owners.locate(times))
    compiled = owners.find_compiled()  # in the functions that the nodes located before have led to
    return TimedPasses(timed, places, compiled)


def _make_fresh_call(program: Program, inputs: ModelInputs) -> Callable[[], None]:
    """Return a call of a program, all of whose kernels TensorFlow's profiler will record; it waits for a GPU."""
    is_synchronized = has_accelerator()
    tensors = [leaf for leaf in inputs.leaves() if tf.is_tensor(leaf)]
    # A new function knows no cheap kernels yet, which would not be recorded; a partial is no retracing to TensorFlow.
    function = tf.function(partial(_call, program.concrete), autograph=False)

    def call() -> None:
        function(*tensors)
        if is_synchronized:
            tf.test.experimental.sync_devices()

    function.get_concrete_function(*tensors)
    return call


def _call(concrete: Any, *tensors: Any) -> Any:
    return concrete(*tensors)
