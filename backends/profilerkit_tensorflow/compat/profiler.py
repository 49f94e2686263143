"""The profiler of TensorFlow, of which one session runs at a time: whether a session runs, and its file format."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field, find

from .names import find_first

__all__ = ["is_session_kept", "is_session_running", "make_xspace"]

#: Has a function that tells whether a session runs, in 2.18 a flag. Where it is missing, TensorFlow itself refuses a
#: second session.
_TRACE: Any = find("tensorflow.python.profiler.trace")
_ENABLED = field("enabled")
#: Holds the session that was started by ``tf.profiler.experimental.start``.
_STARTED: Any = find("tensorflow.python.profiler.profiler_v2")
_SESSION = field("_profiler")


def is_session_running() -> bool:
    """Return whether a session runs; False if this release does not tell."""
    enabled = getattr(_TRACE, _ENABLED, False)
    return bool(enabled() if callable(enabled) else enabled)


def is_session_kept() -> bool:
    """Return whether TensorFlow holds a session that its ``stop`` ends, also one whose start was interrupted."""
    if not hasattr(_STARTED, _SESSION):
        return is_session_running()
    return getattr(_STARTED, _SESSION) is not None


def make_xspace() -> Any:
    """Return an empty profile, to read a file with; None if this release has another format: nothing is timed by it."""
    kind = find_first(
        "tensorflow.tsl.profiler.protobuf.xplane_pb2.XSpace",
        "xla.tsl.profiler.protobuf.xplane_pb2.XSpace",
        "tensorflow.core.profiler.protobuf.xplane_pb2.XSpace",
    )
    return None if kind is None else kind()
