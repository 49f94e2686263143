"""Running a model in each of TensorFlow's execution modes: as a graph, eagerly, compiled by XLA, by ``predict``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import InputError, ModelInputs, NotOfferedError
from profilerkit.backend import DeviceLike, RunOptions
from profilerkit.backend_kit.passes import DevicePass
from profilerkit.trace.observed_runs import ObservedRun

from ..model.calls import compute_outputs
from ..model.kinds import is_unbuilt, list_layers
from ..trace.messages import explain_failed_pass, explain_failures
from ..trace.observation import Observation
from ..trace.program import Program, trace_program
from ..trace.program_trace import observe_run
from ..trace.traced_calls import compute_loss_and_gradients, quietly
from ..untouched.preservation import preserve
from .devices import copy_tensors, resolve_device
from .required_values import build_weightless, require_values

__all__ = ["prepare_run", "require_offered"]


class _Pass(DevicePass):
    """A run whose call returns when the device is done.

    Args:
        call: Runs one pass. In eager mode a training step takes a function too, and calls it between its two parts.
        first_call_seconds: The seconds of the first pass, with tracing and compilation.
        on_accelerator: Whether to wait for devices other than the CPU.
        training_mode: The execution mode of a training step; None for a forward pass.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        first_call_seconds: float,
        on_accelerator: bool = False,
        training_mode: str | None = None,
    ) -> None:
        wait = tf.test.experimental.sync_devices if on_accelerator else lambda: None
        super().__init__(call, wait, call if training_mode == "eager" else None, first_call_seconds)
        self.training_mode = training_mode

    def parts(self, clock: Callable[[], float] = time.perf_counter) -> Mapping[str, float]:
        """Run one training step and return the seconds of its "forward" and "backward" part; empty in inference.

        "forward" includes the sum of the outputs, whose gradients are taken. Raises `NotOfferedError` for a step that
        is one function, in mode "graph" or "xla": TensorFlow runs an operator of it as soon as its inputs are there, or
        compiles it with others, so that there is no moment between the parts.
        """
        if self.training_mode not in (None, "eager"):
            raise NotOfferedError(
                f"mode={self.training_mode!r}: TensorFlow runs a training step as one function, in which no moment "
                "divides the forward from the backward part; use mode='eager' to time both, or layer_times for the "
                "gradients of each layer"
            )
        return super().parts(clock)


@contextmanager
def prepare_run(
    model: Any, inputs: ModelInputs, device: DeviceLike, mode: str, earlier: Program | None, training: bool = False
) -> Iterator[_Pass]:
    """Yield a `Run` of the model in inference mode; the values of all variables are restored at the end.

    With ``training`` it runs training steps: forward in training mode, and the gradients of the sum of the outputs.

    ``mode`` is "graph" (one traced function), "eager" (operator by operator), "xla" (compiled) or "predict" (the
    ``predict`` of Keras). ``earlier`` is an existing program of the model; if it fits, the model is not traced again.
    """
    require_values(model, inputs)
    target = resolve_device(model, device)
    # Without a requested device the placement stays as it is: the caller's `tf.device`, or TensorFlow's own choice.
    placed = tf.device(target) if device is not None else nullcontext()
    # Keras' `predict` is traced anew for each profile, because the model is restored: TensorFlow would warn of it.
    without_warnings = quietly() if mode == "predict" else nullcontext()
    with preserve(model, variable_values=True), placed, without_warnings:
        _make_variables(model, inputs)
        fed = copy_tensors(inputs)
        # An earlier program was traced without a requested device: its operators may run on another one.
        reusable = earlier if device is None else None
        start = time.perf_counter()
        with explain_failures(lambda error: explain_failed_pass(model, error, inputs)):
            if training:
                prepared = _prepare_training_step(model, fed, mode)
            else:
                prepared = _prepare_pass(model, fed, mode, reusable)
            prepared.call_first()
        first_call_seconds = prepared.seconds_before + time.perf_counter() - start
        timed = _Pass(prepared.call, first_call_seconds, not target.startswith("/CPU"), mode if training else None)
        timed.runs.extend(prepared.list_observed_runs(earlier))
        yield timed


def _make_variables(model: Any, inputs: ModelInputs) -> None:
    """Build a model, and call it if layers make their variables only then: no timed pass is to make any."""
    build_weightless(model, inputs)
    if is_unbuilt(model):
        compute_outputs(model, inputs)


class _PreparedCall(NamedTuple):
    """A function that runs one pass, and the facts of its first call about the timed work.

    Attributes:
        call: Runs one pass.
        seconds_before: The seconds of earlier work for it: the tracing of a program that is used again.
        observation: Sees the operators of the first call, which eager runs and ``predict`` show; otherwise None.
        program: The program of a forward pass that was traced for it, which may differ from the static trace's.
    """

    call: Callable[..., Any]
    seconds_before: float = 0.0
    observation: Observation | None = None
    program: Program | None = None

    def call_first(self) -> None:
        """Run the first pass, under observation if there is one."""
        if self.observation is None:
            self.call()
            return
        with self.observation.watch():
            self.call()

    def list_observed_runs(self, earlier: Program | None) -> list[ObservedRun]:
        """Return the runs to compare with the static trace, whose program is ``earlier``."""
        if self.observation is not None:
            return [self.observation.report_run("its first run")]
        if self.program is not None:
            return observe_run(self.program, "the function that is timed", earlier)
        return []


def _prepare_pass(model: Any, inputs: ModelInputs, mode: str, earlier: Program | None) -> _PreparedCall:
    """Return the call of a forward pass; in mode "graph" an ``earlier`` program that fits is run, not traced anew."""
    if mode == "eager":
        return _PreparedCall(lambda: compute_outputs(model, inputs), observation=Observation())
    if mode == "predict":
        return _PreparedCall(_bind_predict(model, inputs), observation=Observation())
    if mode == "graph" and earlier is not None and earlier.fits(model, inputs):
        return _PreparedCall(_bind_program(earlier, inputs), seconds_before=earlier.seconds)
    program = trace_program(model, inputs, compiled=mode == "xla")
    return _PreparedCall(_bind_program(program, inputs), program=program)


def _prepare_training_step(model: Any, inputs: ModelInputs, mode: str) -> _PreparedCall:
    """Return the call of a training step."""
    if mode not in ("graph", "eager", "xla"):
        raise InputError(f"training=True: mode={mode!r} has no training steps; use 'graph', 'eager' or 'xla'")
    if mode == "eager":
        return _PreparedCall(lambda *between: compute_loss_and_gradients(list_layers(model), inputs, *between))
    program = trace_program(model, inputs, training=True, compiled=mode == "xla")
    return _PreparedCall(_bind_program(program, inputs))


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
    fed: Any = inputs.kwargs or (inputs.args[0] if len(inputs.args) == 1 else list(inputs.args))
    first = next(leaf for leaf in inputs.leaves() if tf.is_tensor(leaf))
    return lambda: model.predict(fed, batch_size=int(first.shape[0]), verbose=0)


def require_offered(options: RunOptions) -> None:
    """Raise `NotOfferedError` for options that TensorFlow does not offer, `InputError` for another compiler."""
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
