"""Changes that are put back whatever is raised meanwhile: Ctrl-C, a failing allocation, an error of a signal handler.

Each block puts itself on a stack before it changes anything, with steps that put the change back and may be repeated.
At its end it takes itself off, and all blocks above it: an error may have kept an inner block from its own end.

While any block is on a stack, `interrupts` decides when an interrupt is delivered; see docs/decisions/interrupts.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import wraps
from threading import get_ident
from traceback import walk_tb
from types import GeneratorType, TracebackType
from typing import Any, TypeVar, cast

from .interrupts import INTERRUPTS

__all__ = ["Step", "call_each", "for_each", "restored", "whole_call"]

F = TypeVar("F", bound=Callable[..., Any])
Step = Callable[[], object]
#: How often a step that raises is done again. A second Ctrl-C cannot reach it; a step that still raises always raises.
_TRIES = 3


def call_each(steps: Iterable[Step]) -> None:
    """Call all steps, also if one raises; its error is raised when all are done."""
    for_each(lambda step: step(), [(step,) for step in steps])


def for_each(function: Callable[..., Any], arguments: Iterable[Any]) -> None:
    """Call a function with each of the arguments, also if a call raises; its error is raised when all are done."""
    errors: list[BaseException] = []
    for values in arguments:
        try:
            function(*values)
        except BaseException as error:
            errors.append(error)
    if errors:
        raise _find_worst(errors)


def _find_worst(errors: list[BaseException]) -> BaseException:
    """Return the first interrupt among errors; the first error if there is no interrupt."""
    return next((error for error in errors if not isinstance(error, Exception)), errors[0])


class restored:
    """Calls the steps at the end of a ``with`` block, in order; an interrupted step is called again.

    The first error of a step is raised when all are done. Make the changes inside the block: the steps must know the
    earlier state before. A block without steps only runs the remaining steps of inner blocks.

    If another thread forks the process meanwhile, the steps are called in the child, while the fork is in progress:
    they must be short there and acquire no lock but Python's. If ``in_child`` is a function, it is called in their
    place, or alone if there are no steps; if it is False, nothing is called, as for settings that each thread has for
    itself.

    >>> settings = {"fast": True}
    >>> with restored(lambda: settings.update(fast=True)):
    ...     settings["fast"] = False
    >>> settings
    {'fast': True}
    """

    __slots__ = ("in_child", "remaining", "thread")

    def __init__(self, *steps: Step, in_child: Step | bool = True) -> None:
        self.remaining: list[Step] = [*reversed(steps)]
        self.in_child = in_child
        self.thread = 0

    def __enter__(self) -> None:
        self.thread = get_ident()
        stack = _stacks.setdefault(self.thread, [])
        try:
            if not stack:
                INTERRUPTS.watch()
            stack.append(self)
        except BaseException:  # another thread has raised it in this one
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            _put_back(self, error)
        except BaseException:  # it may have come before all was put back
            _put_back(self, error)
            raise


#: The blocks that have begun and not ended, by thread, the innermost last.
_stacks: dict[int, list[restored]] = {}


def _put_back(block: restored, error: BaseException | None) -> None:
    """Call the steps of inner blocks whose end was not reached, then the steps of this block, which ends with an error.

    The worst error of a step is raised at the end, unless the block ended with an interrupt, which is worse.
    """
    stack = _stacks.get(block.thread, [])
    if error is not None:
        _end_suspended(error)
    errors: list[BaseException] = []
    while block in stack:
        remaining = stack[-1].remaining
        if remaining:
            errors += _call_step(remaining[-1])
            remaining.pop()
        else:
            stack.pop()
    if not stack and block.thread in _stacks:
        INTERRUPTS.leave()
        _stacks.pop(block.thread, None)
    if error is not None and not isinstance(error, Exception):
        errors = [failure for failure in errors if not isinstance(failure, Exception)]
    if errors:
        raise _find_worst(errors)


def _call_step(step: Step) -> list[BaseException]:
    """Call a step, and call it again if it raises, at most `_TRIES` times; return its errors."""
    errors: list[BaseException] = []
    for _ in range(_TRIES):
        try:
            step()
            break
        except BaseException as error:
            errors.append(error)
            _end_suspended(error)
    return errors


def whole_call(function: F) -> F:
    """Decorate a function that is a whole call of ours: at its end all is put back, and no interrupt is lost.

    An error that another thread raises in this one (`PyThreadState_SetAsyncExc`), or the handler of another signal, may
    come before the first line of an ``__exit__``, which then does nothing: after an error it is called again. Only two
    such errors in a row could keep SIGINT with the handler of `interrupts`.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        block = restored()
        try:
            with block:
                result = function(*args, **kwargs)
        except BaseException as error:
            block.__exit__(type(error), error, error.__traceback__)
            _raise_dropped(error)
            raise
        _raise_dropped(None)
        return result

    return cast("F", call)


def _raise_dropped(error: BaseException | None) -> None:
    """Raise again what the user's handler has raised where Python drops errors; ``error`` is raised by the call."""
    dropped = INTERRUPTS.take_raised()
    is_interrupted = error is not None and not isinstance(error, Exception)
    if dropped is not None and not is_interrupted:
        raise dropped.with_traceback(None)


def _end_suspended(error: BaseException) -> None:
    """End what an error, raised while a block was entered or left, has kept from its end: generators, guards in C++.

    Python would end them when the error is forgotten, after all was put back: one of torch's would then switch a mode
    on again. Guards end when the locals that hold them are cleared.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        is_of_contextlib = frame.f_globals is vars(contextlib)
        with suppress(Exception):  # they would be dropped later too
            if is_of_contextlib:
                for manager in (frame.f_locals.get("self"), frame.f_locals.get("cm")):
                    if isinstance(gen := getattr(manager, "gen", None), GeneratorType):
                        gen.close()
                    elif isinstance(manager, ExitStack) and frame.f_code.co_name == "__exit__":
                        manager.close()
            if is_of_contextlib or frame.f_code.co_name in ("__enter__", "__exit__"):
                frame.clear()


# Forks ----------------------------------------------------------------------------------------------------------------


def _undo(block: restored) -> None:
    """Do the remaining steps of a block in a forked child."""
    if callable(block.in_child):
        block.in_child()
    elif block.in_child:
        for step in reversed(block.remaining):
            step()


def _undo_in_child() -> None:
    """Put back, in a forked child, the changes of the threads that it has not."""
    this_thread = get_ident()
    for thread in [thread for thread in _stacks if thread != this_thread]:
        for block in reversed(_stacks.pop(thread)):
            try:
                _undo(block)
            except Exception as error:
                warnings.warn(
                    "the process forked while another thread profiled, and what that thread had changed cannot be "
                    f"restored in the child ({type(error).__name__}: {error}); use the model in the process that "
                    "profiles it, or fork before profiling",
                    RuntimeWarning,
                    stacklevel=1,
                )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_undo_in_child)
