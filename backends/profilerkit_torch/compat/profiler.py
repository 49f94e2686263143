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
    """End a session of the caller's own at any moment of it; one that was not entered, or has ended, stays as it is.

    Torch up to 2.10 begins no other session before one that was entered has begun and ended: such a session is begun
    here, to be ended. Then nothing runs, and torch's own note must not say otherwise.
    """
    if _is_waiting(session.profiler) and not _is_running():
        with suppress(RuntimeError):  # raised if it is prepared already
            _prepare(session.profiler)
        _begin(session.profiler)
    if _is_running():
        session.__exit__(None, None, None)
    if _is_noted():
        _PROFILER._is_profiler_enabled = False


def _is_waiting(inner: Any) -> bool:
    """Return whether torch's inner object of a session was entered, and has no results yet.

    Without these attributes it is taken for one that has ended.
    """
    if not hasattr(inner, "entered") or not hasattr(inner, "kineto_results"):
        return False
    return bool(inner.entered) and inner.kineto_results is None
