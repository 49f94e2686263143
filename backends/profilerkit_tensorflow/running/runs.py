"""Running a model in each of TensorFlow's execution modes: as a graph, eagerly, compiled by XLA, by ``predict``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.passes import DevicePass

from ..model.calls import compute_outputs
from ..model.inputs import copy_tensors
from ..model.kinds import is_unbuilt
from ..trace.messages import explain_failures
from ..trace.program import Program
from ..trace.traced_calls import quietly
from ..untouched.preservation import preserve
from .devices import has_accelerator, use_device
from .modes import prepare_pass, prepare_training_step
from .required_values import build_weightless

__all__ = ["prepare_run"]


@contextmanager
def prepare_run(
    model: Any, inputs: ModelInputs, device: DeviceLike, mode: str, earlier: Program | None, training: bool = False
) -> Iterator[DevicePass]:
    """Yield a `Run` of the model in inference mode; the values of all variables are restored at the end.

    With ``training`` it runs training steps: forward in training mode, and the gradients of the sum of the outputs.

    ``mode`` is "graph" (one traced function), "eager" (operator by operator), "xla" (compiled) or "predict" (the
    ``predict`` of Keras). ``earlier`` is an existing program of the model; if it fits, the model is not traced again.
    """
    # Keras' `predict` is traced anew for each profile, because the model is restored: TensorFlow would warn of it.
    without_warnings = quietly() if mode == "predict" else nullcontext()
    with preserve(model, variable_values=True), use_device(device), without_warnings:
        with explain_failures(model, inputs):
            build_weightless(model, inputs)
            if is_unbuilt(model):  # layers make variables only when they are called: no timed pass is to make any
                compute_outputs(model, inputs)
            fed = copy_tensors(inputs)
            # An earlier program was traced without a requested device: its operators may run on another one.
            reusable = earlier if device is None else None
            start = time.perf_counter()
            prepared = prepare_training_step(model, fed, mode) if training else prepare_pass(model, fed, mode, reusable)
            prepared.call_first()
        first_call_seconds = prepared.seconds_before + time.perf_counter() - start
        wait = tf.test.experimental.sync_devices if has_accelerator() else lambda: None
        timed = DevicePass(prepared.call, wait, prepared.in_parts, first_call_seconds)
        timed.runs.extend(prepared.list_observed_runs(earlier))
        yield timed
