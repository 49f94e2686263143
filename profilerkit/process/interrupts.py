"""When an interrupt reaches the user's handler: not while a block is entered or left that changes something for a time.

An interrupt in the middle of such an ``__enter__`` or ``__exit__`` would leave half of the change. So while anything is
changed, which `restoring` says by `INTERRUPTS.watch` and `INTERRUPTS.leave`, SIGINT comes to this module: while a
block is entered or left it is sent again a moment later, and anywhere else it goes to the user's own handler at once.

Python drops the error of a handler in a finalizer, or in the callback of a weak reference. So the error of the user's
handler is kept, until `restoring.whole_call` takes it and raises it again.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from .user_lines import is_own_module

__all__ = ["INTERRUPTS", "interruptible", "keep_interrupts_from"]

F = TypeVar("F", bound=Callable[..., Any])

#: Whether an interrupt waits inside a function, wherever that is called from. It does not if the function runs the
#: user's code, or waits itself; it does if code in C calls the function, and the process crashes if it raises.
_waits_in: dict[CodeType, bool] = {}
#: How long until an interrupt that came while a block was entered or left is sent again.
_SECONDS_UNTIL_AGAIN = 0.001


def interruptible(function: F) -> F:
    """Let a function be interrupted, also if it is called while a block is entered."""
    _waits_in[function.__code__] = False
    return function


def keep_interrupts_from(function: object) -> None:
    """Have interrupts wait while a Python function of a framework runs whose errors the calling C code ignores.

    Nothing is done for a function in C, which is never interrupted.
    """
    if isinstance(function, FunctionType):
        _waits_in[function.__code__] = True


class _Interrupts:
    """Keeps the user's handler of SIGINT, and its error."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._raised: BaseException | None = None

    def watch(self) -> None:
        """Have interrupts of the main thread come here, where the user has a handler of Python's."""
        if not _is_main_thread():
            return
        self._raised = None
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler != self._handle:
            self._handler = handler
            signal.signal(signal.SIGINT, self._handle)

    def leave(self) -> None:
        """Give the user's handler back, unless his code has set another one meanwhile."""
        if _is_main_thread() and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._handler)

    def take_raised(self) -> BaseException | None:
        """Return the error of the handler in the main thread, once."""
        if not _is_main_thread():
            return None
        raised, self._raised = self._raised, None
        return raised

    def _handle(self, number: int, frame: FrameType | None) -> Any:
        """Call the user's handler and keep its error; while a block is entered or left, have the signal sent again."""
        if _is_changing(frame):
            _thread.start_new_thread(_send_again, (number,))
            return None
        try:
            return self._handler(number, frame)
        except BaseException as error:
            self._raised = error
            raise


INTERRUPTS = _Interrupts()


def _is_main_thread() -> bool:
    return threading.main_thread().ident == get_ident()


def _send_again(number: int) -> None:
    """Let the main thread have a signal again, in a thread of its own: it goes on with its block meanwhile."""
    time.sleep(_SECONDS_UNTIL_AGAIN)
    _thread.interrupt_main(signal.Signals(number))


def _is_changing(frame: FrameType | None) -> bool:
    """Return whether our code, or a function that it calls, enters or leaves a block.

    The search goes from the innermost call outwards, and ends where other code has called ours: the blocks around this
    call are not ours.
    """
    is_inner_ours = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if frame.f_code in _waits_in:
            return _waits_in[frame.f_code]
        is_ours = is_own_module(module)
        if is_inner_ours and not is_ours and module != "contextlib":
            return False
        if _changes_something(frame.f_code.co_name, module):
            return True
        is_inner_ours, frame = is_ours, frame.f_back
    return False


def _changes_something(name: str, module: str) -> bool:
    """Return whether a function enters or leaves a block, or takes something away that was kept for one."""
    if module == "contextlib":
        return name != "inner"  # that is a whole call, with a block as its decorator
    return name in ("__enter__", "__exit__", "__del__")
