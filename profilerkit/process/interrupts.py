"""When an interrupt reaches the user's handler: not while a block is entered or left that changes something for a time.

While anything is changed (see `restoring`), SIGINT comes to `_deliver`. While a block is entered or left it waits until
that is done; anywhere else it goes to the user's own handler at once. An interrupt that was raised where Python drops
errors (in a finalizer, or the callback of a weak reference) is kept, and raised again by `whole_call`.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, TypeVar

__all__ = ["INTERRUPTS", "interruptible"]

F = TypeVar("F", bound=Callable[..., Any])

#: Functions inside which an interrupt is delivered wherever they are called from: they run the user's code, or wait.
_interruptible: set[CodeType] = set()
_CHANGING = frozenset(("__enter__", "__exit__", "__del__"))


def interruptible(function: F) -> F:
    """Let a function be interrupted, also where it is called while a block is entered."""
    _interruptible.add(function.__code__)
    return function


class _Interrupts:
    """The handler of SIGINT that was there, and the interrupt that it raised."""

    def __init__(self) -> None:
        self.handler: Any = None
        self._raised: BaseException | None = None

    def watch(self) -> None:
        """Have interrupts of the main thread come here, where the user has a handler of Python's."""
        if threading.main_thread().ident != get_ident():
            return
        self._raised = None
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler is not _deliver:
            self.handler = handler
            signal.signal(signal.SIGINT, _deliver)

    def leave(self) -> None:
        """Give the user's handler back, unless his code has set another one meanwhile."""
        if threading.main_thread().ident == get_ident() and signal.getsignal(signal.SIGINT) is _deliver:
            signal.signal(signal.SIGINT, self.handler)

    def deliver(self, number: int, frame: FrameType | None) -> Any:
        """Call the user's handler, and keep what it raises."""
        try:
            return self.handler(number, frame)
        except BaseException as error:
            self._raised = error
            raise

    def take_raised(self) -> BaseException | None:
        """Return what the handler has raised in the main thread, once."""
        if threading.main_thread().ident != get_ident():
            return None
        raised, self._raised = self._raised, None
        return raised


INTERRUPTS = _Interrupts()


def _deliver(number: int, frame: FrameType | None) -> Any:
    """Call the user's handler; while a block is entered or left, be called again a moment later."""
    if _is_changing(frame):
        _thread.start_new_thread(_send_again, (number,))
        return None
    return INTERRUPTS.deliver(number, frame)


def _send_again(number: int) -> None:
    """Let the main thread have a signal again: its handler does not return to what it interrupted otherwise."""
    time.sleep(0.001)
    _thread.interrupt_main(signal.Signals(number))


def _is_changing(frame: FrameType | None) -> bool:
    """Return whether our code, or what it calls, enters or leaves a block."""
    is_inside_ours = False
    while frame is not None:
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        is_ours = module.startswith("profilerkit")
        if code in _interruptible:
            return False
        if module == "contextlib":
            if code.co_name != "inner":  # that is the whole of a function with a decorator
                return True
        elif is_inside_ours and not is_ours:
            return False
        elif code.co_name in _CHANGING:
            return True
        is_inside_ours = is_ours
        frame = frame.f_back
    return False
