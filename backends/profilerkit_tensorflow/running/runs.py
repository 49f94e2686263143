"""Running a model in each of TensorFlow's execution modes: as a graph, eagerly, compiled by XLA, by ``predict``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs, NotOfferedError
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.passes import DevicePass

from ..model.calls import compute_outputs
from ..model.kinds import is_unbuilt
from ..trace.messages import explain_failed_pass, explain_failures
from ..trace.program import Program
from ..trace.traced_calls import quietly
from ..untouched.preservation import preserve
from .devices import copy_tensors, resolve_device
from .modes import prepare_pass, prepare_training_step
from .required_values import build_weightless, require_values

__all__ = ["prepare_run"]


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
        build_weightless(model, inputs)
        if is_unbuilt(model):  # layers make variables only when they are called: no timed pass is to make any
            compute_outputs(model, inputs)
        fed = copy_tensors(inputs)
        # An earlier program was traced without a requested device: its operators may run on another one.
        reusable = earlier if device is None else None
        start = time.perf_counter()
        with explain_failures(lambda error: explain_failed_pass(model, error, inputs)):
            prepared = prepare_training_step(model, fed, mode) if training else prepare_pass(model, fed, mode, reusable)
            prepared.call_first()
        first_call_seconds = prepared.seconds_before + time.perf_counter() - start
        timed = _Pass(prepared.call, first_call_seconds, not target.startswith("/CPU"), mode if training else None)
        timed.runs.extend(prepared.list_observed_runs(earlier))
        yield timed
