"""The profiler of TensorFlow: whether it runs, and what it writes."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field, find

#: Whether a session of the profiler runs: a function, in 2.18 a flag. Without it TensorFlow refuses another one itself.
_trace: Any = find("tensorflow.python.profiler.trace")
_ENABLED = field("enabled")
#: What holds the session that was begun in Python.
_holder: Any = find("tensorflow.python.profiler.profiler_v2")
_SESSION = field("_profiler")


def is_session_running() -> bool:
    """Return whether a session of the profiler runs; False if this release does not tell."""
    enabled = getattr(_trace, _ENABLED, False)
    return bool(enabled() if callable(enabled) else enabled)


def is_session_kept() -> bool:
    """Return whether TensorFlow keeps a session for its ``stop``, begun or not; else whether one runs."""
    return getattr(_holder, _SESSION, is_session_running() or None) is not None


def make_xspace() -> Any:
    """Return an empty profile, to read a file with; None if this release has another format: nothing is timed by it."""
    kind = (
        find("tensorflow.tsl.profiler.protobuf.xplane_pb2.XSpace")
        or find("xla.tsl.profiler.protobuf.xplane_pb2.XSpace")
        or find("tensorflow.core.profiler.protobuf.xplane_pb2.XSpace")
    )
    return None if kind is None else kind()
