"""A clock for the seconds that a process runs."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """A clock that is stopped while the process waits for its turn."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._since: float | None = None

    def run(self) -> None:
        """Start the clock."""
        if self._since is None:
            self._since = time.monotonic()

    def pause(self) -> None:
        """Stop the clock until the next `run`."""
        self._spent, self._since = self.seconds, None

    @property
    def runs(self) -> bool:
        """Whether the clock runs."""
        return self._since is not None

    @property
    def seconds(self) -> float:
        """The seconds until now."""
        return self._spent + (0.0 if self._since is None else time.monotonic() - self._since)
