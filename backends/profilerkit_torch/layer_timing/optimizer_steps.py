"""When the steps of optimizers begin and end, and the closures that they call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from profilerkit.process.restoring import call_each, restored

__all__ = ["OptimizerSteps", "Stretch", "are_steps_seen"]


class Stretch(NamedTuple):
    """The moments at which a piece of work begins and ends."""

    begin: Any
    end: Any


class _Step(NamedTuple):
    """A step that runs.

    Torch calls both hooks from its wrapper around ``step``. The frame of the wrapper tells which step has ended: the
    wrapper of a step inside, of a base class or a wrapped optimizer, runs in it. A step that raised has no end.
    """

    frame: FrameType  #: the frame of the wrapper
    begin: Any  #: the moment when it began
    closures: list[Stretch]  #: the closures that it has called so far


class OptimizerSteps:
    """The steps of an optimizer, or of all optimizers for None.

    For an optimizer that wraps another one, as in accelerate, these are the steps of both. ``read`` returns the moment,
    and ``note_memory`` is called with the name of the phase that has ended.
    """

    def __init__(self, optimizer: Any, read: Callable[[], Any], note_memory: Callable[[str], None]) -> None:
        self.updates: list[Stretch] = []
        #: The forward and backward passes that these steps have computed, by a closure.
        self.closures: list[Stretch] = []
        self.last: Any = None  #: the optimizer that stepped last
        self._followed = None if optimizer is None else _list_with_wrapped(optimizer)
        self._read, self._note_memory = read, note_memory
        self._step: _Step | None = None  #: the outermost step that runs

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow the steps inside, by hooks around the steps of all optimizers: a wrapper may have no hooks."""
        stops: list[Callable[[], None]] = []
        with restored(partial(call_each, stops)):
            stops.append(register_optimizer_step_pre_hook(self._begin_update).remove)
            stops.append(register_optimizer_step_post_hook(self._end_update).remove)
            yield

    def _begin_update(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Note that a step begins; return its arguments with a closure that is timed, None if it has none."""
        if self._followed is not None and optimizer not in self._followed:
            return None
        wrapper = sys._getframe(1)
        if self._step is not None and _is_inside(wrapper, self._step.frame):
            return None
        self._note_memory("backward")
        self.last = optimizer
        self._step = _Step(wrapper, self._read(), [])
        return _replace_closure(args, kwargs, partial(self._time, self._step))

    def _time(self, step: _Step, closure: Callable[[], Any]) -> Callable[[], Any]:
        """Return a closure for an optimizer's step, which computes the loss and its gradients, with its times noted."""

        def run() -> Any:
            begin = self._read()
            try:
                return closure()
            finally:
                step.closures.append(Stretch(begin, self._read()))
                self._note_memory("backward")

        return run

    def _end_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        step = self._step
        if step is None or sys._getframe(1) is not step.frame:
            return
        self._step = None
        self.updates.append(Stretch(step.begin, self._read()))
        self.closures += step.closures  # not before: those of a step that raised belong to no update
        self._note_memory("optimizer")


def are_steps_seen(optimizer: Any) -> bool:
    """Return whether torch calls hooks around the steps of an optimizer, or of one that it wraps."""
    return any(isinstance(part, torch.optim.Optimizer) for part in _list_with_wrapped(optimizer))


def _list_with_wrapped(optimizer: Any) -> tuple[Any, Any]:
    """Return an optimizer and the one that it wraps; None if it wraps none."""
    return optimizer, getattr(optimizer, "optimizer", None)


def _replace_closure(
    args: Any, kwargs: Any, wrap: Callable[[Callable[[], Any]], Callable[[], Any]]
) -> tuple[Any, Any] | None:
    """Return the arguments of a step, the optimizer itself first, with its closure wrapped; None if it has none."""
    if callable(kwargs.get("closure")):
        return args, {**kwargs, "closure": wrap(kwargs["closure"])}
    if len(args) > 1 and callable(args[1]):
        return (args[0], wrap(args[1]), *args[2:]), kwargs
    return None


def _is_inside(frame: FrameType | None, outer: FrameType) -> bool:
    """Return whether a frame was called, directly or not, from a frame that still runs."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer
