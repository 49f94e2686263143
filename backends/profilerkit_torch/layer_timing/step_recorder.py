"""One step of a training loop: its layers, its optimizer, and the memory that the device's allocator reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from profilerkit import InputError, ModelInputs
from profilerkit.error_text import shown
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder

from ..compat.modules import hook_after_calls
from ..model.inventory import Inventory
from ..running.devices import memory_reader
from ..running.timed_passes import synchronize
from .time_recorder import EventClock, HostClock, choose_clock
from .timed_calls import TimedRun, sum_inner_calls
from .timer import TorchLayerTimer

__all__ = ["PhaseMemory", "Stretch", "TorchStepRecorder"]

#: Of so many calls of the model the times are kept, the last ones.
_KEPT = 1000
_NO_HOOKS = "the optimizer {} is no torch.optim.Optimizer, so that its steps cannot be seen"


class _StepBegin(NamedTuple):
    """What is known when a step begins.

    Attributes:
        clock: What the step is timed by.
        timer: What times the layers, in this step and those before.
        devices: The devices whose work is waited for.
        first_run: The number that the first pass of the step will have.
        moment: When the step begins.
    """

    clock: HostClock | EventClock
    timer: TorchLayerTimer
    devices: Sequence[torch.device]
    first_run: int
    moment: Any


class _CallSums(NamedTuple):
    """The seconds of all calls by the user's own code, and how many there were."""

    forward: float
    backward: float
    calls: int


class TorchStepRecorder(StepRecorder):
    """Has stand-ins and hooks in the model, and hooks on optimizers, from `begin` to `end` and no longer.

    ``clock`` is for tests; without it the model's device decides.
    """

    #: How the step began; there once `begin` was called, as `end` is only then.
    _begin: _StepBegin

    def __init__(self, model: nn.Module, optimizer: Any = None, clock: HostClock | EventClock | None = None) -> None:
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise InputError(
                f"optimizer={shown(optimizer)}: give what updates the weights, such as a torch.optim.Optimizer"
            )
        self._model, self._optimizer = model, optimizer
        self._steps = OptimizerSteps(optimizer)
        self._clock = clock
        self._timer: TorchLayerTimer | None = None
        self._active: ExitStack | None = None
        self._inputs: ModelInputs | None = None
        self._memory = PhaseMemory()

    def begin(self) -> None:
        """Begin to measure a step."""
        used = {tensor.device for tensor in Inventory(self._model).tensors}
        if self._timer is None or self._clock is None:
            self._timer = TorchLayerTimer(self._model, _KEPT, clock=self._clock)
            self._clock = self._clock or choose_clock(used)
        clock, timer = self._clock, self._timer
        devices = [device for device in used if device.type not in ("cpu", "meta")]
        self._memory = PhaseMemory(devices)
        first_run = max((run.number + 1 for run in timer.runs()), default=0)
        with ExitStack() as stack:
            stack.enter_context(timer)
            self._follow_calls(stack)
            for handle in self._steps.follow(clock.read, self._memory.note):
                stack.callback(handle.remove)
            self._active = stack.pop_all()
        synchronize(*devices)
        self._begin = _StepBegin(clock, timer, devices, first_run, clock.read())

    def end(self) -> StepRecord:
        """End it, take all hooks away, and return its seconds."""
        begin = self._begin
        try:
            synchronize(*begin.devices)
            whole = Stretch(begin.moment, begin.clock.read())
            self._memory.note("step")
        finally:
            self.abandon()
        updates, closures = self._steps.updates, self._steps.closures
        runs = [run for run in begin.timer.runs() if run.number >= begin.first_run]
        sums = _sum_outermost(runs)
        return StepRecord(
            seconds=_sum_seconds([whole], begin.clock),
            forward=sums.forward if runs else None,
            backward=sums.backward if any(run.has_backward for run in runs) else None,
            optimizer=_sum_seconds(updates, begin.clock) - _sum_seconds(closures, begin.clock) if updates else None,
            memory=dict(self._memory.figures),
            calls=sums.calls,
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


def _sum_seconds(stretches: Iterable[Stretch], clock: HostClock | EventClock) -> float:
    """Return the seconds that these take together."""
    seconds = (clock.seconds([stretch.begin, stretch.end]) for stretch in stretches)
    return sum(end - begin for begin, end in seconds)


def _sum_outermost(runs: Iterable[TimedRun]) -> _CallSums:
    outermost = [seconds for run in runs for seconds in sum_inner_calls(run) if seconds.call.outer is None]
    forward, backward = sum(call.forward for call in outermost), sum(call.backward for call in outermost)
    return _CallSums(forward, backward, len(outermost))


class PhaseMemory:
    """What was allocated at the end of each phase on the first device that tells; nothing where none does.

    The allocator knows the highest peak so far alone, and to reset it would be a change of the user's process: so a
    phase has a peak where no earlier one was as high.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        #: Bytes, by the name of the phase with ``_end`` or ``_peak`` behind it.
        self.figures: dict[str, int] = {}
        self._device: torch.device | None = None
        self._reader: Any = None
        for device in devices:
            reader = memory_reader(device)
            if reader is not None:
                self._device, self._reader = device, reader
                break
        self._peak = self._read_peak()

    @property
    def is_told(self) -> bool:
        """Whether a device tells its memory."""
        return self._device is not None

    def note(self, phase: str) -> None:
        """Note what is allocated at the end of a phase, and its peak."""
        if self._device is None:
            return
        peak = self._read_peak()
        self.figures[f"{phase}_end"] = self._reader.memory_allocated(self._device)
        if peak > self._peak:
            self.figures[f"{phase}_peak"] = self._peak = peak

    def _read_peak(self) -> int:
        return int(self._reader.max_memory_allocated(self._device)) if self._device is not None else 0


# When the steps of optimizers begin and end, and the closures that they call ------------------------------------------


class Stretch(NamedTuple):
    """The moments at which something begins and ends."""

    begin: Any
    end: Any


class OptimizerSteps:
    """The steps of an optimizer, or of all optimizers for None; of one that is not torch's no step is seen."""

    def __init__(self, optimizer: Any) -> None:
        self.updates: list[Stretch] = []
        #: The forward and backward passes that optimizers have computed in their steps, by a closure.
        self.closures: list[Stretch] = []
        #: The optimizer that stepped last.
        self.last: Any = None
        self._optimizer = optimizer
        self._began: Any = None
        #: Where torch's step runs that is being timed: it calls the hooks again where it calls its base class's step.
        self._frame: FrameType | None = None

    def follow(self, read: Callable[[], Any], note_memory: Callable[[str], None]) -> Iterator[Any]:
        """Follow the steps from now on, by hooks around them whose handles are yielded.

        Args:
            read: Returns the moment.
            note_memory: Called with the name of the phase that is over.
        """
        self._read, self._note_memory = read, note_memory
        self._frame = None
        self.updates.clear()
        self.closures.clear()
        if self._optimizer is None:
            yield register_optimizer_step_pre_hook(self._begin_update)
            yield register_optimizer_step_post_hook(self._end_update)
        elif isinstance(self._optimizer, torch.optim.Optimizer):
            yield self._optimizer.register_step_pre_hook(self._begin_update)
            yield self._optimizer.register_step_post_hook(self._end_update)

    def _begin_update(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Note that a step begins; return its arguments with a closure that is timed, None if it has none."""
        caller = sys._getframe(1)
        if self._frame is not None and _is_inside(caller, self._frame):
            return None
        self._frame = caller
        self._note_memory("backward")
        self.last = optimizer
        self._began = self._read()
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._time(kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):  # behind the optimizer itself
            return (args[0], self._time(args[1]), *args[2:]), kwargs
        return None

    def _time(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return a closure for an optimizer's step, which computes the loss and its gradients, with its times noted."""

        def run() -> Any:
            begin = self._read()
            try:
                return closure()
            finally:
                self.closures.append(Stretch(begin, self._read()))
                self._note_memory("backward")

        return run

    def _end_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if sys._getframe(1) is not self._frame:
            return
        self._frame = None
        self.updates.append(Stretch(self._began, self._read()))
        self._note_memory("optimizer")


def _is_inside(frame: FrameType | None, outer: FrameType) -> bool:
    """Return whether a frame was called, directly or not, from another one that still runs."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer
