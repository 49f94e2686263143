"""The progress of an audit: a line that is drawn anew on a terminal, a line for each row in a pipe."""

from __future__ import annotations

import os
import shutil
import time
from typing import IO, TYPE_CHECKING, Self

from profilerkit.count_text import format_count
from profilerkit.foreign_text import on_terminal

from ..rows import Row, RowStatus
from ..running import Watch
from ..summary import shorten

if TYPE_CHECKING:
    from ..cases import Case

#: How much of a reason stands in a line.
_REASON = 160
#: The most characters of the bar, which has fewer where the counts beside it leave no more.
_BAR = 30
#: Goes to the start of the terminal's line, and erases the line. Nothing else of a terminal is changed: a signal that
#: ends the process leaves nothing to restore.
_ERASE = "\r\x1b[2K"


class ShownProgress(Watch):
    """Shows the progress of an audit on a stream.

    A terminal has one line, which is drawn anew between two events, never by a thread; failures are printed above it.
    A pipe or a log has a line for each row. It is a context around the run: when the block ends, the line is gone.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.has_line: bool = stream.isatty() and os.environ.get("TERM") != "dumb"
        self.total: int = 0
        self.reused: int = 0
        self.done: int = 0
        self.failed: int = 0
        self.running: set[str] = set()
        self.began_at: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.has_line:
            self._write(_ERASE)

    def begin(self, cases: int, reused: int) -> None:
        """Draw the line; in a pipe write how much there is to do."""
        self.total, self.reused, self.began_at = cases, reused, time.monotonic()
        if self.has_line:
            self._draw()
        else:
            self._write(f"{format_count(cases, 'case')}, {reused} of them in the store already\n")

    def start(self, case: Case) -> None:
        """Draw the line with one more running case."""
        self.running.add(case.key)
        if self.has_line:
            self._draw()

    def end(self, case: Case, row: Row) -> None:
        """Draw the line with one more finished case; in a pipe write the row's line."""
        self.running.discard(case.key)
        self.done += 1
        has_failed = row.status is RowStatus.FAILED
        self.failed += has_failed
        if not self.has_line:
            self._write(f"{on_terminal(self._describe_row(row))}\n")
            return
        if has_failed:
            self._write(f"{_ERASE}{on_terminal(f'failed {row.spec}: {shorten(row.reason, _REASON)}')}\n")
        self._draw()

    def _draw(self) -> None:
        done = self.reused + self.done
        counts = f"{len(self.running)} running, {done}/{self.total} done, {self.failed} failed{self._describe_rest()}"
        room = shutil.get_terminal_size().columns - 1  # a line that goes on in the next one could not be erased
        length = max(0, min(_BAR, room - len(counts) - 1))
        bar = ("#" * (length * done // max(self.total, 1))).ljust(length, "-")
        self._write(f"{_ERASE}{f'{bar} {counts}'[:room]}")

    def _describe_row(self, row: Row) -> str:
        settings = "".join(f" {name}={value}" for name, value in row.settings.items())
        reason = f": {shorten(row.reason, _REASON)}" if row.reason else ""
        number = f"[{self.reused + self.done}/{self.total}{self._describe_rest()}]"
        return f"{number} {row.status.value} {row.spec}{settings}{reason}"

    def _describe_rest(self) -> str:
        """Return how long the rest will take at the pace so far; an empty text before the first row."""
        if not self.done:
            return ""
        pace = (time.monotonic() - self.began_at) / self.done
        return f", {format_duration(pace * (self.total - self.reused - self.done))} left"

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def format_duration(seconds: float) -> str:
    """Return seconds as people read them.

    >>> format_duration(42.4), format_duration(59.6), format_duration(90), format_duration(7384)
    ('42 s', '1:00 min', '1:30 min', '2:03 h')
    """
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"
