"""Sessions of torch's profiler: each is ended whatever is raised, and its log does not reach the user."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from torch.profiler import ProfilerActivity, profile

from profilerkit import ProfilerBusyError
from profilerkit.process.restoring import restored

from ..compat.profiler import is_profiler_enabled, stop_session

__all__ = ["require_idle_profiler", "run_profiler"]

#: A line of the profiler's own log: ``USDT:2026-11-26 12:59:02 106:106 SyncActivityProfilerHandler.cpp:39] start``.
_LINE = re.compile(rb"^(?P<level>[A-Z]+):\d{4}-\d\d-\d\d [\d:]+ \d+:\d+ \w+\.\w+:\d+\] .*(?:\n|\Z)", re.MULTILINE)
_ERRORS = (b"ERROR", b"WARNING")


@contextmanager
def run_profiler(activities: list[ProfilerActivity], **options: Any) -> Iterator[profile]:
    """Run a session of torch's profiler around the block; ``options`` are those of `torch.profiler.profile`.

    Raises `ProfilerBusyError` where a session runs already: with a second one it would be ended, and lose its events.
    """
    require_idle_profiler()
    session = profile(activities=activities, acc_events=True, **options)  # else torch 2.10 warns that it forgets events
    watches_device = len(activities) > 1

    def stop() -> None:
        with _without_log(keeps_errors=watches_device):
            stop_session(session)

    with restored(stop, in_child=False):
        with _without_log(keeps_errors=watches_device):
            session.__enter__()
        yield session


def require_idle_profiler() -> None:
    """Raise `ProfilerBusyError` where torch's profiler, of which there is one, is in use in this process."""
    if is_profiler_enabled():
        raise ProfilerBusyError(
            "this is measured by torch's profiler, of which there is one per process, and it runs already; leave its "
            "block (torch.profiler.profile, torch.autograd.profiler) first, and try again"
        )


@contextmanager
def _without_log(*, keeps_errors: bool) -> Iterator[None]:
    """Take the profiler's log out of what is written to standard error inside; all else is written there at the end.

    The log comes from C++, so that the file descriptor is what is redirected, for the moment of a start or an end.
    With ``keeps_errors`` the errors and warnings of the log are passed on: they matter where a device is watched.
    """
    _flush()
    try:
        saved = [os.dup(2)]
    except OSError:  # there is no standard error
        yield
        return

    def put_back() -> None:
        if saved:
            _flush()
            os.dup2(saved[0], 2)

    with tempfile.TemporaryFile() as scratch:
        try:
            with restored(put_back):
                os.dup2(scratch.fileno(), 2)
                yield
        finally:
            put_back()  # where an error kept the block from its end
            os.close(saved.pop())
            scratch.seek(0)
            rest = _LINE.sub(lambda line: line[0] if keeps_errors and line["level"] in _ERRORS else b"", scratch.read())
            with suppress(OSError):  # the reader has closed the pipe
                os.write(2, rest)


def _flush() -> None:
    with suppress(OSError, ValueError, AttributeError):  # a stand-in for the stream, or one that is closed
        sys.stderr.flush()
