"""One step of a training loop: its layers, its optimizer, and the memory that the device's allocator reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from profilerkit import InputError, ModelInputs
from profilerkit.error_text import shown
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder

from ..model.modules import list_tensors
from ..running.timed_passes import synchronize
from ..untouched.global_hooks import hook_after_calls
from .clocks import EventClock, HostClock, choose_clock
from .optimizer_steps import OptimizerSteps, Stretch
from .phase_memory import PhaseMemory
from .timed_calls import TimedRun, sum_inner_calls
from .timer import TorchLayerTimer

__all__ = ["TorchStepRecorder"]

#: Of so many calls of the model the times are kept, the last ones.
_KEPT = 1000
_NO_HOOKS = "the optimizer {} is no torch.optim.Optimizer, so that its steps cannot be seen"


class TorchStepRecorder(StepRecorder):
    """Has stand-ins and hooks in the model, and hooks on optimizers, from `begin` to `end` and no longer.

    ``clock`` is for tests; without it the model's device decides.
    """

    def __init__(self, model: nn.Module, optimizer: Any = None, clock: HostClock | EventClock | None = None) -> None:
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise InputError(
                f"optimizer={shown(optimizer)}: give what updates the weights, such as a torch.optim.Optimizer"
            )
        self._model, self._optimizer = model, optimizer
        self._steps = OptimizerSteps(optimizer)
        self._given_clock = clock
        self._timer: TorchLayerTimer | None = None
        self._active: ExitStack | None = None
        self._inputs: ModelInputs | None = None
        self._memory = PhaseMemory()

    def begin(self) -> None:
        """Begin to measure a step."""
        used = {tensor.device for tensor in list_tensors(self._model)}
        if self._timer is None:
            self._clock = self._given_clock or choose_clock(used)
            self._timer = TorchLayerTimer(self._model, _KEPT, clock=self._given_clock)
        self._devices = [device for device in used if device.type not in ("cpu", "meta")]
        self._memory = PhaseMemory(self._devices)
        self._last_run = max((run.number for run in self._timer.runs()), default=-1)
        with ExitStack() as stack:
            stack.enter_context(self._timer)
            self._follow_calls(stack)
            for handle in self._steps.follow(self._clock.read, self._memory.note):
                stack.callback(handle.remove)
            self._active = stack.pop_all()
        self._wait()
        self._begin_moment = self._clock.read()

    def end(self) -> StepRecord:
        """End it, take all hooks away, and return its seconds."""
        try:
            self._wait()
            whole = Stretch(self._begin_moment, self._clock.read())
            self._memory.note("step")
        finally:
            self.abandon()
        updates, closures = self._steps.updates, self._steps.closures
        step_seconds, *seconds = self._measure([whole, *updates, *closures])
        update_seconds, closure_seconds = seconds[: len(updates)], seconds[len(updates) :]
        runs = [run for run in self._timer.runs() if run.number > self._last_run] if self._timer is not None else []
        forward, backward, calls = _sum_outermost(runs)
        return StepRecord(
            seconds=step_seconds,
            forward=forward if runs else None,
            backward=backward if any(run.has_backward for run in runs) else None,
            optimizer=sum(update_seconds) - sum(closure_seconds) if updates else None,
            memory=dict(self._memory.figures),
            calls=calls,
        )

    def abandon(self) -> None:
        """Take all hooks away."""
        active, self._active = self._active, None
        if active is not None:
            active.close()

    def layers(self) -> Sequence[LayerTime]:
        """Return the times of each layer; every call of the model is a pass."""
        return self._timer.times() if self._timer is not None else ()

    @property
    def inputs(self) -> ModelInputs | None:
        """What the model was last called with."""
        return self._inputs

    @property
    def optimizer(self) -> Any:
        """The given optimizer, or the one that stepped last."""
        return self._optimizer if self._optimizer is not None else self._steps.last

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why a part cannot be measured."""
        reasons = {
            "forward": "the model was not called in the steps that were measured",
            "backward": "no backward pass came through the model in the steps that were measured",
            "optimizer": "no optimizer made a step in the steps that were measured",
            "memory": "only a CUDA device's allocator is asked; training_memory has the prediction of a static trace",
        }
        if self._optimizer is not None and not isinstance(self._optimizer, torch.optim.Optimizer):
            reasons["optimizer"] = _NO_HOOKS.format(type(self._optimizer).__name__)
        return reasons

    def _follow_calls(self, stack: ExitStack) -> None:
        """Have the calls of the model noted until the stack is closed."""
        if isinstance(self._model, torch.jit.ScriptModule):  # which takes no hooks of its own
            stack.callback(hook_after_calls(self._note_call, always=False))
            return
        stack.callback(self._model.register_forward_pre_hook(self._note_inputs, with_kwargs=True).remove)
        if self._memory.is_told:
            stack.callback(self._model.register_forward_hook(self._note_end).remove)

    def _note_call(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is self._model:
            self._note_inputs(module, args, kwargs)
            self._note_end(module, args, output)

    def _note_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inputs = ModelInputs(*args, **kwargs)

    def _note_end(self, module: nn.Module, args: Any, output: Any) -> None:
        self._memory.note("forward")

    def _measure(self, stretches: Sequence[Stretch]) -> list[float]:
        """Return the seconds of each of these."""
        seconds = self._clock.seconds([moment for stretch in stretches for moment in stretch])
        return [end - begin for begin, end in zip(seconds[::2], seconds[1::2], strict=True)]

    def _wait(self) -> None:
        for device in self._devices:
            synchronize(device)


def _sum_outermost(runs: Sequence[TimedRun]) -> tuple[float, float, int]:
    """Return the seconds of all calls by the user's own code, forward and backward, and how many there were."""
    outermost = [seconds for run in runs for seconds in sum_inner_calls(run) if seconds.call.outer is None]
    forward, backward = sum(call.forward for call in outermost), sum(call.backward for call in outermost)
    return forward, backward, len(outermost)
