"""Sessions of torch's profiler: each is ended, also after an error, and none begins inside of another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.profiler import ProfilerActivity, profile

from profilerkit import ProfilerBusyError
from profilerkit.process.restoring import restored

from ..compat.profiler import is_profiler_enabled, stop_session

__all__ = ["require_idle_profiler", "run_profiler"]


@contextmanager
def run_profiler(activities: list[ProfilerActivity], **options: Any) -> Iterator[profile]:
    """Run a session of torch's profiler around the block, with ``options`` of `torch.profiler.profile`.

    Raises `ProfilerBusyError` if a session runs already: a second session would end it and lose its events.
    """
    require_idle_profiler()
    session = profile(activities=activities, acc_events=True, **options)  # else torch 2.10 warns that it forgets events
    with restored(partial(stop_session, session), in_child=False):
        session.__enter__()
        yield session


def require_idle_profiler() -> None:
    """Raise `ProfilerBusyError` if torch's profiler is in use in this process, which can have one session."""
    if is_profiler_enabled():
        raise ProfilerBusyError(
            "this is measured by torch's profiler, of which there is one per process, and it runs already; leave its "
            "block (torch.profiler.profile, torch.autograd.profiler) first, and try again"
        )
