"""Running a model in each of TensorFlow's execution modes: as a graph, eagerly, compiled by XLA, by ``predict``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import (
    BackendFailedError,
    InputError,
    ModelFailedError,
    ModelInputs,
    NotOfferedError,
    WithoutValuesError,
)
from profilerkit.backend import RunOptions
from profilerkit.backend_kit.passes import DevicePass

from ..model.calls import compute_outputs
from ..model.kinds import is_unbuilt, list_layers
from ..model.unmade_weights import describe_unmade_weights
from ..model.variables import list_weights
from ..trace.first_call import as_before_the_call
from ..trace.messages import explain_failed_pass
from ..trace.observation import Observation
from ..trace.program import Program, build_symbolically, loss_and_gradients, quietly, trace_program
from ..trace.tracing import observe_run, trace_model
from ..untouched.preservation import preserve
from .devices import resolve_device

__all__ = ["Pass", "build_weightless", "prepare_run", "require_offered", "require_values"]


class Pass(DevicePass):
    """A run whose call returns when the device is done.

    Args:
        call: Runs one pass. In eager mode a training step takes a function too, and calls it between its two parts.
        first_call_seconds: What the first pass took, with tracing and compilation.
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
    model: Any, inputs: ModelInputs, device: str | None, mode: str, earlier: Program | None, training: bool = False
) -> Iterator[Pass]:
    """Yield a `Run` of the model in inference mode; the values of all variables are restored at the end.

    With ``training`` it runs training steps: forward in training mode, and the gradients of the sum of the outputs.

    ``mode`` is "graph" (one traced function), "eager" (operator by operator), "xla" (compiled) or "predict" (the
    ``predict`` of Keras). ``earlier`` is an existing program of the model; if it fits, the model is not traced again.
    """
    require_values(model, inputs)
    target = resolve_device(model, device)
    placed = tf.device(target) if device is not None else nullcontext()
    # Keras' `predict` is traced anew for each profile, since the model is restored: TensorFlow would warn of it.
    without_warnings = quietly() if mode == "predict" else nullcontext()
    with preserve(model, variable_values=True), placed, without_warnings:
        build_weightless(model, inputs)
        if is_unbuilt(model):  # a layer that was never called: this call makes its variables
            with as_before_the_call(model):
                compute_outputs(model, inputs)
        fed = inputs.map(lambda leaf: tf.identity(leaf) if tf.is_tensor(leaf) else leaf)
        start = time.perf_counter()
        before = 0.0
        program: Program | None = None
        is_seen = not training and mode in ("eager", "predict")
        observation = Observation() if is_seen else None
        try:
            if training:
                run = _make_training_step(model, fed, mode)
            elif mode == "graph" and device is None and earlier is not None and earlier.fits(model, fed):
                run, before = _of_program(earlier, fed), earlier.seconds
            elif mode in ("graph", "xla"):
                program = trace_program(model, fed, compiled=mode == "xla")
                run = _of_program(program, fed)
            else:
                run = _RUNS[mode](model, fed)
            with nullcontext() if observation is None else observation.watch():
                run()
        except InputError:
            raise
        except Exception as error:  # whatever the model raises
            raise explain_failed_pass(model, error, inputs) from error
        first_call_seconds = before + time.perf_counter() - start
        timed = Pass(run, first_call_seconds, not target.startswith("/CPU"), mode if training else None)
        if observation is not None:
            timed.runs.append(observation.report_run("its first run"))
        elif program is not None and not training:
            timed.runs.extend(observe_run(program, "the function that is timed", earlier))
        yield timed


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


def require_values(model: Any, inputs: ModelInputs | None = None) -> None:
    """Raise `WithoutValuesError` for a Keras model whose call would make weights, or the error of a model that raises.

    A model that is not built may have all its weights: one around a built model, or one that needs none. To find out,
    it is built and restored; without inputs, its layers are checked.
    """
    if not _never_called(model):
        return
    if inputs is None:
        lacking = bool(describe_unmade_weights(model))
    else:
        try:
            with preserve(model, variable_values=True):
                lacking = _makes_weights(model, inputs)
        except MemoryError:
            raise
        except Exception:  # whatever the model raises
            failure = trace_model(model, inputs).failure
            if isinstance(failure, (ModelFailedError, BackendFailedError)):
                raise failure from failure.__cause__
            lacking = bool(describe_unmade_weights(model))  # the model runs, but cannot be built symbolically
    if lacking:
        raise WithoutValuesError(
            f"the model {model.name!r} is not built: its weights have no values yet, so it cannot be run, only its "
            "static metrics can be had; call it once with real inputs, or give its input shape to model.build()"
        )


def build_weightless(model: Any, inputs: ModelInputs) -> None:
    """Build a model that `require_values` has accepted, and that has not been called. Use inside `preserve`."""
    if _never_called(model):
        build_symbolically(model, inputs)


def _never_called(model: Any) -> bool:
    return is_unbuilt(model) and not model.built


def _makes_weights(model: Any, inputs: ModelInputs) -> bool:
    before = len(list_weights(model))
    return bool(build_symbolically(model, inputs)) or len(list_weights(model)) > before


def _of_program(program: Program, inputs: ModelInputs) -> Callable[[], Any]:
    tensors = [leaf for leaf in inputs.leaves() if tf.is_tensor(leaf)]
    return lambda: program.concrete(*tensors)


def _eagerly(model: Any, inputs: ModelInputs) -> Callable[[], Any]:
    return lambda: compute_outputs(model, inputs)


def _make_training_step(model: Any, inputs: ModelInputs, mode: str) -> Callable[..., Any]:
    if mode not in ("graph", "eager", "xla"):
        raise InputError(f"training=True: mode={mode!r} has no training steps; use 'graph', 'eager' or 'xla'")
    if mode == "eager":
        return lambda *between: loss_and_gradients(list_layers(model), inputs, *between)
    return _of_program(trace_program(model, inputs, training=True, compiled=mode == "xla"), inputs)


def _by_predict(model: Any, inputs: ModelInputs) -> Callable[[], Any]:
    if not hasattr(model, "predict"):
        raise InputError(
            f"mode='predict': a {type(model).__name__} has no predict(), which Keras models have; use another mode: "
            "'graph', 'eager' or 'xla'"
        )
    if inputs.function is not None:
        raise InputError("mode='predict' runs model.predict() and no function given as call=; use 'graph' or 'eager'")
    fed: Any = inputs.kwargs or (inputs.args[0] if len(inputs.args) == 1 else list(inputs.args))
    first = next(leaf for leaf in inputs.leaves() if tf.is_tensor(leaf))
    return lambda: model.predict(fed, batch_size=int(first.shape[0]), verbose=0)


_RUNS: dict[str, Callable[[Any, ModelInputs], Callable[[], Any]]] = {
    "eager": _eagerly,
    "predict": _by_predict,
}
