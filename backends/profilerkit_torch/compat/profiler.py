"""The sessions of torch's profiler, of which one runs at a time: whether a session runs, and how to end it.

If a name is missing, torch itself refuses a second session, and a session with an interrupted start cannot be ended.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from profilerkit.backend_kit.private_names import find

from .names import find_first

_PROFILER: Any = find("torch.autograd.profiler")


def _is_noted() -> bool:
    """Return whether torch has noted in Python that a session runs."""
    return bool(getattr(_PROFILER, "_is_profiler_enabled", False))


_is_running: Callable[[], bool] = find_first("torch._C._autograd._profiler_enabled", instead=_is_noted)
_prepare: Callable[[Any], None] = find_first(
    "torch.autograd.profiler.profile._prepare_trace", instead=lambda session: None
)
_begin: Callable[[Any], None] = find_first("torch.autograd.profiler.profile._start_trace", instead=lambda session: None)


def is_profiler_enabled() -> bool:
    """Return whether a session runs, or torch has noted that a session runs."""
    return _is_running() or _is_noted()


def stop_session(session: Any) -> None:
    """End a session; a session that was not entered, or has ended, is left as it is.

    An interrupt may come between the end of a session and torch's note of the end: the note is corrected.
    """
    if not _is_running():
        _finish_beginning(session.profiler)
    if _is_running():
        session.__exit__(None, None, None)
    if _is_noted():
        _PROFILER._is_profiler_enabled = False


def _finish_beginning(inner: Any) -> None:
    """Begin a session that was entered and has not begun: torch up to 2.10 begins no other before this one ends."""
    if inner is None or not inner.entered or inner.kineto_results is not None:
        return
    with suppress(RuntimeError):  # raised if it is prepared already
        _prepare(inner)
    _begin(inner)
