"""The sessions of torch's profiler, of which one runs at a time: whether a session runs, and how to end it.

Without these names torch itself refuses a second session, and a session whose start was interrupted cannot be ended.
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
    """End a session of the caller's own; one that was not entered, or has ended, is left as it is.

    An interrupt may have come at any moment of it. Torch up to 2.10 begins no other session before one that was entered
    has begun and ended, so that such a one is begun here. Torch's note that a session runs is corrected.
    """
    if not _is_running() and _has_only_been_entered(session.profiler):
        with suppress(RuntimeError):  # raised if it is prepared already
            _prepare(session.profiler)
        _begin(session.profiler)
    if _is_running():
        session.__exit__(None, None, None)
    if _is_noted():
        _PROFILER._is_profiler_enabled = False


def _has_only_been_entered(inner: Any) -> bool:
    """Return whether torch's inner object of a session was entered, and has neither begun nor ended.

    Without these attributes it is taken for one that has ended.
    """
    return bool(getattr(inner, "entered", False)) and getattr(inner, "kineto_results", "") is None
