"""One step of a training loop: its layers, its optimizer, and the memory that the device's allocator reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from profilerkit import InputError, ModelInputs
from profilerkit.error_text import shown
from profilerkit.times.layer_times import LayerTime
from profilerkit.times.steps import StepRecord, StepRecorder

from ..model.modules import list_tensors
from ..running.devices import memory_reader
from ..running.timed_passes import synchronize
from ..untouched.global_hooks import hook_after_calls
from .clocks import EventClock, HostClock, choose_clock
from .timeline import TimedRun, inclusive
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
        self._last_optimizer: Any = None
        self._given_clock = clock
        self._timer: TorchLayerTimer | None = None
        self._active: ExitStack | None = None
        self._inputs: ModelInputs | None = None
        self._updates: list[Any] = []
        #: Moments at which closures begin and end that optimizers call in their step: the forward and backward pass.
        self._closures: list[Any] = []
        #: Where torch's step runs that is being timed: it calls the hooks again where it calls its base class's step.
        self._update: FrameType | None = None
        self._memory: dict[str, int] = {}
        self._device: torch.device | None = None
        self._reader: Any = torch.cuda

    def begin(self) -> None:
        """Begin to measure a step."""
        used = {tensor.device for tensor in list_tensors(self._model)}
        if self._timer is None:
            self._clock = self._given_clock or choose_clock(used)
            self._timer = TorchLayerTimer(self._model, _KEPT, clock=self._given_clock)
        self._devices = [device for device in used if device.type not in ("cpu", "meta")]
        readers = [(device, memory_reader(device)) for device in self._devices]
        self._device, self._reader = next((pair for pair in readers if pair[1] is not None), (None, None))
        self._updates.clear()
        self._closures.clear()
        self._memory.clear()
        self._peak = self._read_peak()
        self._last = max((run.number for run in self._runs()), default=-1)
        with ExitStack() as stack:
            stack.enter_context(self._timer)
            self._follow_calls(stack)
            for register, note in self._hooks():
                stack.callback(register(note).remove)
            self._active = stack.pop_all()
        self._wait()
        self._began = self._now()

    def end(self) -> StepRecord:
        """End it, take all hooks away, and return its seconds."""
        try:
            self._wait()
            ended = self._now()
            self._note_memory("step")
        finally:
            self.abandon()
        runs = [run for run in self._runs() if run.number > self._last]
        count = len(self._updates) // 2 * 2
        seconds = self._clock.seconds([self._began, ended, *self._updates[:count], *self._closures])
        stretches = [end - start for start, end in zip(seconds[::2], seconds[1::2], strict=True)]
        updates, closures = stretches[1 : 1 + count // 2], stretches[1 + count // 2 :]
        forward, backward, calls = _outermost(runs)
        return StepRecord(
            seconds=stretches[0],
            forward=forward if runs else None,
            backward=backward if any(run.has_backward for run in runs) else None,
            optimizer=sum(updates) - sum(closures) if updates else None,
            memory=dict(self._memory),
            calls=calls,
        )

    def abandon(self) -> None:
        """Take all hooks away."""
        active, self._active = self._active, None
        self._update = None
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
        return self._optimizer if self._optimizer is not None else self._last_optimizer

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

    # What is noted in a step ---------------------------------------------------------------------------------------

    def _hooks(self) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
        """Return what registers hooks around optimizers' steps, with the hooks."""
        if self._optimizer is None:
            return [
                (register_optimizer_step_pre_hook, self._update_begins),
                (register_optimizer_step_post_hook, self._update_ends),
            ]
        if not isinstance(self._optimizer, torch.optim.Optimizer):
            return []
        return [
            (self._optimizer.register_step_pre_hook, self._update_begins),
            (self._optimizer.register_step_post_hook, self._update_ends),
        ]

    def _follow_calls(self, stack: ExitStack) -> None:
        """Have the calls of the model noted until the stack is closed."""
        if isinstance(self._model, torch.jit.ScriptModule):  # which takes no hooks of its own
            stack.callback(hook_after_calls(self._end_call, always=False))
            return
        stack.callback(self._model.register_forward_pre_hook(self._begin_call, with_kwargs=True).remove)
        if self._device is not None:
            stack.callback(self._model.register_forward_hook(self._end_forward).remove)

    def _end_call(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is self._model:
            self._begin_call(module, args, kwargs)
            self._end_forward(module, args, output)

    def _begin_call(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inputs = ModelInputs(*args, **kwargs)

    def _end_forward(self, module: nn.Module, args: Any, output: Any) -> None:
        self._note_memory("forward")

    def _update_begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        caller = sys._getframe(1)
        if self._update is not None and _is_inside(caller, self._update):
            return None
        self._update = caller
        self._note_memory("backward")
        self._last_optimizer = optimizer
        del self._updates[len(self._updates) // 2 * 2 :]  # one that began and raised
        self._updates.append(self._now())
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._time(kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):  # behind the optimizer itself
            return (args[0], self._time(args[1]), *args[2:]), kwargs
        return None

    def _time(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return a closure for an optimizer's step, which computes the loss and its gradients, with its times noted."""

        def run() -> Any:
            began = self._now()
            try:
                return closure()
            finally:
                self._closures += (began, self._now())
                self._note_memory("backward")

        return run

    def _update_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if sys._getframe(1) is not self._update:
            return
        self._update = None
        self._updates.append(self._now())
        self._note_memory("optimizer")

    def _note_memory(self, phase: str) -> None:
        """Note what is allocated at the end of a phase; and its peak, where no earlier one was as high.

        The allocator knows the highest peak so far alone, and to reset it would be a change of the user's process.
        """
        if self._device is None:
            return
        peak = self._read_peak()
        self._memory[f"{phase}_end"] = self._reader.memory_allocated(self._device)
        if peak > self._peak:
            self._memory[f"{phase}_peak"] = self._peak = peak

    def _read_peak(self) -> int:
        return int(self._reader.max_memory_allocated(self._device)) if self._device is not None else 0

    def _now(self) -> Any:
        return self._clock.read()

    def _wait(self) -> None:
        for device in self._devices:
            synchronize(device)

    def _runs(self) -> list[TimedRun]:
        return self._timer.runs() if self._timer is not None else []


def _outermost(runs: Sequence[TimedRun]) -> tuple[float, float, int]:
    """Return the seconds of all calls by the user's own code, forward and backward, and how many there were."""
    seconds = [(forward, backward) for run in runs for call, forward, backward in inclusive(run) if call.outer is None]
    return sum(forward for forward, _ in seconds), sum(backward for _, backward in seconds), len(seconds)


def _is_inside(frame: FrameType | None, outer: FrameType) -> bool:
    """Return whether a frame was called, directly or not, from another one that still runs."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer
