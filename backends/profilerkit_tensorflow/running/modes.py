"""The execution modes of TensorFlow: the one that options lead to, and the function that runs one pass in each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

import tensorflow as tf

from profilerkit import InputError, ModelInputs, NotOfferedError
from profilerkit.backend import RunOptions
from profilerkit.backend_kit.keras_calls import call_arguments
from profilerkit.trace.observed_runs import ObservedRun

from ..model.calls import compute_outputs
from ..model.kinds import list_layers
from ..trace.observation import Observation
from ..trace.program import Program, trace_program
from ..trace.program_trace import observe_run
from ..trace.traced_calls import compute_training_step

__all__ = ["PreparedCall", "choose_mode", "prepare_pass", "prepare_training_step"]


def choose_mode(options: RunOptions, usual: str) -> str:
    """Return the execution mode that options lead to: "xla" with ``compile``, otherwise the ``usual`` one.

    Raises `NotOfferedError` for options that TensorFlow does not offer, and `InputError` for another compiler.
    """
    if options.num_threads is not None:
        raise NotOfferedError(
            f"num_threads={options.num_threads}: TensorFlow takes its threads once, before its first operation; call "
            "tf.config.threading.set_intra_op_parallelism_threads() at the start of the program"
        )
    if "autocast" in options.requested:
        raise NotOfferedError(
            f"autocast={options.autocast!r}: TensorFlow has no autocast; build the model under a mixed policy, "
            "keras.mixed_precision.set_global_policy('mixed_bfloat16')"
        )
    if "compile" in options.requested and (options.compile is not True or options.mode not in (None, "xla")):
        requested = f"compile={options.compile!r}" + (f" and mode={options.mode!r}" if options.mode is not None else "")
        raise InputError(
            f"{requested}: TensorFlow compiles by XLA alone; give compile=True, or mode='xla', which is the same"
        )
    return "xla" if "compile" in options.requested else usual


class PreparedCall(NamedTuple):
    """A function that runs one pass, and the facts of its first call about the timed work.

    Attributes:
        call: Runs one pass.
        seconds_before: The seconds of earlier work for it: the tracing of a program that is used again.
        observation: Sees the operators of the first call, which eager runs and ``predict`` show; otherwise None.
        program: The program of a forward pass that was traced for it, which may differ from the static trace's.
        in_parts: Runs a training step, and calls a function between its two parts; None for a forward pass.
    """

    call: Callable[[], Any]
    seconds_before: float = 0.0
    observation: Observation | None = None
    program: Program | None = None
    in_parts: Callable[[Callable[[], None]], Any] | None = None

    def call_first(self) -> None:
        """Run the first pass, under observation if there is one."""
        if self.observation is None:
            self.call()
        else:
            self.observation.observe(self.call)

    def list_observed_runs(self, earlier: Program | None) -> list[ObservedRun]:
        """Return the runs to compare with the static trace, whose program is ``earlier``."""
        if self.observation is not None:
            return [self.observation.report_run("its first run")]
        if self.program is not None:
            return observe_run(self.program, "the function that is timed", earlier)
        return []


def prepare_pass(model: Any, inputs: ModelInputs, mode: str, earlier: Program | None) -> PreparedCall:
    """Return the call of a forward pass; in mode "graph" an ``earlier`` program that fits is run, not traced anew."""
    if mode == "eager":
        return PreparedCall(lambda: compute_outputs(model, inputs), observation=Observation())
    if mode == "predict":
        return PreparedCall(_bind_predict(model, inputs), observation=Observation())
    if mode == "graph" and earlier is not None and earlier.fits(model, inputs):
        return PreparedCall(_bind_program(earlier, inputs), seconds_before=earlier.seconds)
    program = trace_program(model, inputs, compiled=mode == "xla")
    return PreparedCall(_bind_program(program, inputs), program=program)


def prepare_training_step(model: Any, inputs: ModelInputs, mode: str) -> PreparedCall:
    """Return the call of a training step."""
    if mode not in ("graph", "eager", "xla"):
        raise InputError(f"training=True: mode={mode!r} has no training steps; use 'graph', 'eager' or 'xla'")
    if mode == "eager":
        step = partial(compute_training_step, list_layers(model), inputs)
        return PreparedCall(step, in_parts=step)
    program = trace_program(model, inputs, training=True, compiled=mode == "xla")
    return PreparedCall(_bind_program(program, inputs), in_parts=partial(_refuse_parts, mode))


def _refuse_parts(mode: str, between: object) -> NoReturn:
    """Raise `NotOfferedError` where the parts of a training step are asked for that is one function.

    TensorFlow runs an operator of it as soon as its inputs are there, or compiles it with others.
    """
    raise NotOfferedError(
        f"mode={mode!r}: TensorFlow runs a training step as one function, in which no moment divides the forward from "
        "the backward part; use mode='eager' to time both, or layer_times for the gradients of each layer"
    )


def _bind_program(program: Program, inputs: ModelInputs) -> Callable[[], Any]:
    """Return a function that calls a program with these inputs."""
    tensors = [leaf for leaf in inputs.leaves() if tf.is_tensor(leaf)]
    return lambda: program.concrete(*tensors)


def _bind_predict(model: Any, inputs: ModelInputs) -> Callable[[], Any]:
    """Return a function that calls the ``predict`` of a Keras model with these inputs, as one batch."""
    if not hasattr(model, "predict"):
        raise InputError(
            f"mode='predict': a {type(model).__name__} has no predict(), which Keras models have; use another mode: "
            "'graph', 'eager' or 'xla'"
        )
    if inputs.function is not None:
        raise InputError("mode='predict' runs model.predict() and no function given as call=; use 'graph' or 'eager'")
    if inputs.args and inputs.kwargs:
        raise InputError(
            f"mode='predict': model.predict() takes no {', '.join(inputs.kwargs)} beside the inputs; use 'graph' or "
            "'eager'"
        )
    takes_several = len(call_arguments(model, inputs.args, inputs.kwargs).args) != 1
    if takes_several and (len(inputs.args) > 1 or inputs.kwargs):
        raise InputError(
            f"mode='predict': model.predict() hands on one structure of inputs, and the call of this "
            f"{type(model).__name__} takes them as several arguments; use 'graph' or 'eager'"
        )
    fed: Any = inputs.kwargs or (inputs.args[0] if len(inputs.args) == 1 else list(inputs.args))
    first = next(leaf for leaf in inputs.leaves() if tf.is_tensor(leaf))
    return lambda: model.predict(fed, batch_size=int(first.shape[0]), verbose=0)
