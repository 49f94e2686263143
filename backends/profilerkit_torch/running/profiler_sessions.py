"""Sessions of torch's profiler, whose log of its own starts and ends does not reach the user."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from torch.profiler import ProfilerActivity, profile

__all__ = ["run_profiler"]

#: A line of the profiler's own log: ``USDT:2026-11-26 12:59:02 106:106 SyncActivityProfilerHandler.cpp:39] start``.
_LINE = re.compile(rb"^(?P<level>[A-Z]+):\d{4}-\d\d-\d\d [\d:]+ \d+:\d+ \w+\.\w+:\d+\] .*(?:\n|\Z)", re.MULTILINE)
_ERRORS = (b"ERROR", b"WARNING")


@contextmanager
def run_profiler(activities: list[ProfilerActivity], **options: Any) -> Iterator[profile]:
    """Run a session of torch's profiler around the block; ``options`` are those of `torch.profiler.profile`."""
    session = profile(activities=activities, acc_events=True, **options)  # else torch 2.10 warns that it forgets events
    watches_device = len(activities) > 1
    with _without_log(keeps_errors=watches_device):
        session.__enter__()
    try:
        yield session
    finally:
        with _without_log(keeps_errors=watches_device):
            session.__exit__(None, None, None)


@contextmanager
def _without_log(*, keeps_errors: bool) -> Iterator[None]:
    """Take the profiler's log out of what is written to standard error inside; all else is written there at the end.

    The log comes from C++, so that the file descriptor is what is redirected, for the moment of a start or an end.
    With ``keeps_errors`` the errors and warnings of the log are passed on: they matter where a device is watched.
    """
    with suppress(OSError, ValueError, AttributeError):  # a stand-in for the stream, or one that is closed
        sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as scratch:
        os.dup2(scratch.fileno(), 2)
        try:
            yield
        finally:
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            scratch.seek(0)
            rest = _LINE.sub(lambda line: line[0] if keeps_errors and line["level"] in _ERRORS else b"", scratch.read())
            with suppress(OSError):  # the reader has closed the pipe
                os.write(2, rest)
