"""Steps of a training loop: the seconds of their layers and optimizers, and the memory of their phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit import InputError, ModelInputs
from profilerkit.error_text import shown
from profilerkit.process.cached import cached_property
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder

from ..compat.modules import hook_after_calls
from ..model.inventory import Inventory
from ..running.measured_memory import PhaseMemory
from ..running.timed_passes import synchronize
from .clocks import EventClock, HostClock
from .optimizer_steps import OptimizerSteps, Stretch, are_steps_seen
from .timed_calls import TimedRun, sum_inner_calls
from .timer import SECOND_GRADIENTS, TorchLayerTimer

__all__ = ["TorchStepRecorder"]

#: How many of the last calls of the model have their times kept.
_KEPT = 1000
_TOO_MANY = "the model was called more than {} times in a step: so many times are not kept"
_NO_HOOKS = "the optimizer {} is no torch.optim.Optimizer, so that its steps cannot be seen"


class _Step(NamedTuple):
    """A step that runs, and the state at its beginning."""

    hooks: ExitStack  #: takes the hooks away when it is closed
    updates: OptimizerSteps
    devices: Sequence[torch.device]  #: the model's devices that run beside the host
    memory: PhaseMemory
    earlier_runs: set[TimedRun]  #: the calls of the model in earlier steps that are still kept
    earlier_calls: int  #: how many calls of the model had begun
    moment: Any  #: the clock's reading


class TorchStepRecorder(StepRecorder):
    """Measures the steps of a training loop, each from `begin` to `end`.

    Only in between the model has stand-ins and hooks, and optimizers have hooks. ``clock`` is for tests; without it the
    model's device decides.
    """

    def __init__(self, model: nn.Module, optimizer: Any = None, clock: HostClock | EventClock | None = None) -> None:
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise InputError(
                f"optimizer={shown(optimizer)}: give what updates the weights, such as a torch.optim.Optimizer"
            )
        self._model, self._optimizer = model, optimizer
        self._stepped: Any = None  #: the optimizer that stepped last
        self._given_clock = clock
        self._step: _Step | None = None  #: the step that runs; None between steps
        self._inputs: ModelInputs | None = None
        self._has_lost_calls = False  #: whether a step called the model more often than times are kept

    @cached_property
    def _timer(self) -> TorchLayerTimer:
        """The timer of the layers in all steps; it is made in the first step, when the model is on its device."""
        return TorchLayerTimer(self._model, _KEPT, clock=self._given_clock)

    def begin(self) -> None:
        """Add the hooks, and note the state from which the step is measured.

        The clock is read last, so that adding hooks is no part of the step.
        """
        used = {tensor.device for tensor in Inventory(self._model).tensors}
        devices = [device for device in used if device.type not in ("cpu", "meta")]
        memory = PhaseMemory(devices)
        timer = self._timer
        earlier_runs, earlier_calls = set(timer.runs()), timer.count_begun()
        with ExitStack() as stack:
            stack.enter_context(timer)
            self._follow_calls(stack, memory)
            updates = OptimizerSteps(self._optimizer, timer.clock.read, memory.note)
            stack.enter_context(updates.follow())
            synchronize(*devices)
            moment = timer.clock.read()
            self._step = _Step(stack.pop_all(), updates, devices, memory, earlier_runs, earlier_calls, moment)

    def end(self) -> StepRecord:
        """End the step, take all hooks away, and return its seconds.

        A step of more calls than are kept has no forward and no backward seconds: a sum of the last calls would pass
        for the whole.
        """
        step, clock = self._step, self._timer.clock
        if step is None:
            raise RuntimeError("no step has begun: call begin() first")
        try:
            synchronize(*step.devices)
            whole = Stretch(step.moment, clock.read())
            step.memory.note("step")
        finally:
            self.abandon()
        updates, closures = step.updates.updates, step.updates.closures
        record = StepRecord(
            seconds=_sum_seconds([whole], clock),
            optimizer=_sum_seconds(updates, clock) - _sum_seconds(closures, clock) if updates else None,
            memory=dict(step.memory.figures),
        )
        if self._timer.count_begun() - step.earlier_calls > _KEPT:
            self._has_lost_calls = True
            return record
        return self._add_calls(record, [run for run in self._timer.runs() if run not in step.earlier_runs])

    def _add_calls(self, record: StepRecord, runs: Sequence[TimedRun]) -> StepRecord:
        """Return the record of a step with the seconds of the calls that the user's own code made in these passes."""
        calls = [call for run in runs for call in sum_inner_calls(run) if call.call.outer is None]
        has_backward = any(run.has_backward for run in runs) and not self._timer.has_second_gradients
        return replace(
            record,
            forward=sum(call.forward for call in calls) if runs else None,
            backward=sum(call.backward for call in calls) if has_backward else None,
            calls=len(calls),
        )

    def abandon(self) -> None:
        """Take all hooks away."""
        step, self._step = self._step, None
        if step is not None:
            if step.updates.last is not None:
                self._stepped = step.updates.last
            step.hooks.close()

    def layers(self) -> Sequence[LayerTime]:
        """Return the times of each layer; every call of the model is a pass, of which the last 1000 are kept."""
        return self._timer.times()

    @property
    def inputs(self) -> ModelInputs | None:
        """The inputs of the last call of the model."""
        return self._inputs

    @property
    def optimizer(self) -> Any:
        """The given optimizer, or the optimizer that stepped last."""
        return self._optimizer if self._optimizer is not None else self._stepped

    @property
    def reasons(self) -> Mapping[str, str]:
        """The reasons why parts cannot be measured, by part."""
        reasons = {
            "forward": "the model was not called in the steps that were measured",
            "backward": "no backward pass came through the model in the steps that were measured",
            "optimizer": "no optimizer made a step in the steps that were measured",
            "memory": "only a CUDA device's allocator is asked; training_memory has the prediction of a static trace",
        }
        if self._has_lost_calls:
            reasons["forward"] = reasons["backward"] = _TOO_MANY.format(_KEPT)
        if self._timer.has_second_gradients:
            reasons["backward"] = SECOND_GRADIENTS
        if self._optimizer is not None and not are_steps_seen(self._optimizer):
            reasons["optimizer"] = _NO_HOOKS.format(type(self._optimizer).__name__)
        return reasons

    def _follow_calls(self, stack: ExitStack, memory: PhaseMemory) -> None:
        """Have the inputs of the model noted, and the memory after its calls, until the stack is closed."""

        def note_inputs(module: nn.Module, args: Any, kwargs: Any) -> None:
            self._inputs = ModelInputs(*args, **kwargs)

        def note_end(module: nn.Module, args: Any, output: Any) -> None:
            memory.note("forward")

        def note_call(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            if module is self._model:
                note_inputs(module, args, kwargs)
                note_end(module, args, output)

        if isinstance(self._model, torch.jit.ScriptModule):  # takes no hooks itself
            stack.callback(hook_after_calls(note_call, always=False))
            return
        stack.callback(self._model.register_forward_pre_hook(note_inputs, with_kwargs=True).remove)
        if memory.is_told:
            stack.callback(self._model.register_forward_hook(note_end).remove)


def _sum_seconds(stretches: Iterable[Stretch], clock: HostClock | EventClock) -> float:
    """Return the seconds of all stretches together."""
    seconds = (clock.seconds([stretch.begin, stretch.end]) for stretch in stretches)
    return sum(end - begin for begin, end in seconds)
