"""One step of a training loop: the seconds of its layers and of its optimizer, and the memory of its phases."""

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
from ..running.devices import memory_reader
from ..running.timed_passes import synchronize
from .clocks import EventClock, HostClock
from .optimizer_steps import OptimizerSteps, Stretch
from .timed_calls import TimedRun, sum_inner_calls
from .timer import SECOND_GRADIENTS, TorchLayerTimer

__all__ = ["PhaseMemory", "TorchStepRecorder"]

#: How many of the last calls of the model have their times kept.
_KEPT = 1000
_TOO_MANY = "the model was called more than {} times in a step: so many times are not kept"
_NO_HOOKS = "the optimizer {} is no torch.optim.Optimizer, so that its steps cannot be seen"


class _Begin(NamedTuple):
    """The state at the beginning of a step."""

    devices: Sequence[torch.device]  #: the model's devices that run beside the host
    runs: set[TimedRun]  #: the calls of the model in earlier steps that are still kept
    calls: int  #: how many calls of the model had begun
    moment: Any  #: the clock's reading


class TorchStepRecorder(StepRecorder):
    """Has stand-ins and hooks in the model, and hooks on optimizers, only from `begin` to `end`.

    ``clock`` is for tests; without it the model's device decides.
    """

    #: The state at the beginning of a step: set by `begin`, which is called before `end`.
    _begun: _Begin

    def __init__(self, model: nn.Module, optimizer: Any = None, clock: HostClock | EventClock | None = None) -> None:
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise InputError(
                f"optimizer={shown(optimizer)}: give what updates the weights, such as a torch.optim.Optimizer"
            )
        self._model, self._optimizer = model, optimizer
        self._steps = OptimizerSteps(optimizer)
        self._given_clock = clock
        self._active: ExitStack | None = None
        self._inputs: ModelInputs | None = None
        self._memory = PhaseMemory()
        #: Whether a step called the model more often than times are kept.
        self._has_lost_calls = False

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
        self._memory = PhaseMemory(devices)
        runs, calls = set(self._timer.runs()), self._timer.count_begun()
        with ExitStack() as stack:
            stack.enter_context(self._timer)
            self._follow_calls(stack)
            stack.enter_context(self._steps.follow(self._timer.clock.read, self._memory.note))
            self._active = stack.pop_all()
        synchronize(*devices)
        self._begun = _Begin(devices, runs, calls, self._timer.clock.read())

    def end(self) -> StepRecord:
        """End the step, take all hooks away, and return its seconds.

        A step of more calls than are kept has no forward and no backward seconds: a sum of the last calls would pass
        for the whole.
        """
        clock = self._timer.clock
        try:
            synchronize(*self._begun.devices)
            whole = Stretch(self._begun.moment, clock.read())
            self._memory.note("step")
        finally:
            self.abandon()
        updates, closures = self._steps.updates, self._steps.closures
        record = StepRecord(
            seconds=_sum_seconds([whole], clock),
            optimizer=_sum_seconds(updates, clock) - _sum_seconds(closures, clock) if updates else None,
            memory=dict(self._memory.figures),
        )
        if self._timer.count_begun() - self._begun.calls > _KEPT:
            self._has_lost_calls = True
            return record
        return self._add_calls(record)

    def _add_calls(self, record: StepRecord) -> StepRecord:
        """Return the record of a step with the seconds of the calls that the user's own code made in it."""
        runs = [run for run in self._timer.runs() if run not in self._begun.runs]
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
        active, self._active = self._active, None
        if active is not None:
            active.close()

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
        return self._optimizer if self._optimizer is not None else self._steps.last

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
        if not self._steps.are_seen:
            reasons["optimizer"] = _NO_HOOKS.format(type(self._optimizer).__name__)
        return reasons

    def _follow_calls(self, stack: ExitStack) -> None:
        """Have the calls of the model noted until the stack is closed."""
        if isinstance(self._model, torch.jit.ScriptModule):  # takes no hooks itself
            stack.callback(hook_after_calls(self._note_call, always=False))
            return
        stack.callback(self._model.register_forward_pre_hook(self._note_inputs, with_kwargs=True).remove)
        if self._memory.is_told:
            stack.callback(self._model.register_forward_hook(self._note_end).remove)

    # Hooks, in torch's form -------------------------------------------------------------------------------------------

    def _note_call(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is self._model:
            self._note_inputs(module, args, kwargs)
            self._note_end(module, args, output)

    def _note_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inputs = ModelInputs(*args, **kwargs)

    def _note_end(self, module: nn.Module, args: Any, output: Any) -> None:
        self._memory.note("forward")


class PhaseMemory:
    """The bytes allocated at the end of each phase, on all devices that report them together; nothing if none does.

    An allocator only knows the highest peak so far, and a reset would change the user's process: so a phase has a peak
    only if it is higher than all earlier ones. The peak of several devices is the sum of their own peaks.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        #: Bytes, by the name of the phase with ``_end`` or ``_peak`` behind it.
        self.figures: dict[str, int] = {}
        readers = [(memory_reader(device), device) for device in devices]
        self._readers = [(reader, device) for reader, device in readers if reader is not None]
        self._peak = self._add_up("max_memory_allocated")

    @property
    def is_told(self) -> bool:
        """Whether a device reports its memory."""
        return bool(self._readers)

    def note(self, phase: str) -> None:
        """Note the bytes allocated at the end of a phase, and its peak."""
        if not self._readers:
            return
        self.figures[f"{phase}_end"] = self._add_up("memory_allocated")
        peak = self._add_up("max_memory_allocated")
        if peak > self._peak:
            self.figures[f"{phase}_peak"] = self._peak = peak

    def _add_up(self, figure: str) -> int:
        """Return the bytes of all devices by a function of the allocators."""
        return sum(int(getattr(reader, figure)(device)) for reader, device in self._readers)


def _sum_seconds(stretches: Iterable[Stretch], clock: HostClock | EventClock) -> float:
    """Return the seconds of all stretches together."""
    seconds = (clock.seconds([stretch.begin, stretch.end]) for stretch in stretches)
    return sum(end - begin for begin, end in seconds)
