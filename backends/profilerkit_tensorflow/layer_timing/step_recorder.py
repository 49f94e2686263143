"""One step of a training loop in TensorFlow, timed as a whole."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from profilerkit import InputError
from profilerkit.backend_kit.optimizers import optimizer_bytes
from profilerkit.error_text import shown
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder

from ..running.devices import find_device, has_accelerator

__all__ = ["TFStepRecorder"]

_ONE_FUNCTION = (
    "TensorFlow runs a step as one compiled function, of which a running loop shows no parts: its profiler leaves out "
    "cheap operators of functions that have run often; layer_times measures a training step of its own"
)


class TFStepRecorder(StepRecorder):
    """Reads the clock at both ends of a step, and the allocator of a GPU; nothing is put into the model.

    A GPU is waited for at both ends, and nowhere in the step.
    """

    def __init__(self, model: Any, optimizer: Any = None) -> None:
        if isinstance(optimizer, str):
            optimizer_bytes(optimizer, ())  # raises for an unknown name
        elif optimizer is not None and not hasattr(optimizer, "apply_gradients"):
            raise InputError(
                f"optimizer={shown(optimizer)}: give the name of an optimizer, such as 'adam', or one of Keras"
            )
        self._model, self._optimizer = model, optimizer
        self._began = 0.0
        self._gpu: str | None = None

    def begin(self) -> None:
        """Begin to measure a step."""
        device = find_device(self._model)
        self._gpu = device if device.startswith("/GPU") else None
        self._wait()
        self._began = time.perf_counter()

    def end(self) -> StepRecord:
        """End it and return its seconds."""
        self._wait()
        seconds = time.perf_counter() - self._began
        memory = {} if self._gpu is None else tf.config.experimental.get_memory_info(self._gpu.strip("/"))
        return StepRecord(seconds, memory={"step_end": memory["current"]} if memory else {})

    def abandon(self) -> None:
        """Do nothing: there is nothing to take away."""

    def layers(self) -> Sequence[LayerTime]:
        """Return nothing; `reasons` says why."""
        return ()

    @property
    def optimizer(self) -> Any:
        """The given optimizer; without one, the backend reads the one that the model was compiled with."""
        return self._optimizer

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why a part cannot be measured."""
        parts = dict.fromkeys(("forward", "backward", "optimizer"), _ONE_FUNCTION)
        return {**parts, "memory": "only a GPU's allocator is asked; training_memory has the prediction of a trace"}

    def _wait(self) -> None:
        if has_accelerator():
            tf.test.experimental.sync_devices()
