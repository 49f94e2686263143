"""The progress of an audit: a line that is drawn anew on a terminal, a line for each row in a pipe."""

from __future__ import annotations

import sys
import time
from typing import IO, TYPE_CHECKING, Any, Self

from profilerkit.count_text import format_count
from profilerkit.foreign_text import on_terminal
from profilerkit.process.progress import is_terminal

from ..estimating import format_duration
from ..rows import Row, RowStatus
from ..running import Watch
from ..summary import shorten

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..cases import Case

__all__ = ["ShownProgress"]

#: How much of a reason stands in a line.
_REASON = 160


class ShownProgress(Watch):
    """Shows the progress of an audit on a stream.

    A terminal has one line, which is drawn anew between two events, never by a thread; failures are printed above it.
    A pipe or a log has a line for each row.

    It is a context around the run: when the block ends, for whatever reason, the line is gone, and the terminal and the
    streams of the process are as they were.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.total: int = 0
        self.reused: int = 0
        self.done: int = 0
        self.failed: int = 0
        self.running: set[str] = set()
        self.began_at: float = 0.0
        #: The progress line of a terminal, and its bar; None in a pipe.
        self.display: Progress | None = None
        self.bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.display is not None:
            self.display.stop()

    def begin(self, cases: int, reused: int) -> None:
        """Start the line of a terminal; in a pipe write how much there is to do."""
        self.total, self.reused, self.began_at = cases, reused, time.monotonic()
        if not self.stream.isatty():
            self._write(f"{format_count(cases, 'case')}, {reused} of them in the store already")
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(30), TextColumn("{task.description}"))
        self.display = Progress(
            *columns,
            console=Console(file=self.stream),
            transient=True,
            auto_refresh=False,
            redirect_stdout=is_terminal(sys.stdout),  # what a model prints to a file stays there
        )
        self.bar = self.display.add_task("", total=cases)
        self.display.start()
        self._draw(self.display)

    def start(self, case: Case) -> None:
        """Draw the line with one more running case."""
        self.running.add(case.key)
        if self.display is not None:
            self._draw(self.display)

    def end(self, case: Case, row: Row) -> None:
        """Draw the line with one more finished case; in a pipe write the row's line."""
        self.running.discard(case.key)
        self.done += 1
        self.failed += row.status is RowStatus.FAILED
        if self.display is None:
            self._write(self._describe_row(row))
            return
        if row.status is RowStatus.FAILED:
            line = on_terminal(f"failed {row.spec}: {shorten(row.reason, _REASON)}")
            self.display.console.print(line, markup=False, highlight=False)
        self._draw(self.display)

    def _draw(self, display: Progress) -> None:
        done = self.reused + self.done
        text = f"{len(self.running)} running, {done}/{self.total} done, {self.failed} failed{self._describe_rest()}"
        display.update(self.bar, completed=done, description=text)
        display.refresh()

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

    def _write(self, line: str) -> None:
        self.stream.write(f"{on_terminal(line)}\n")
        self.stream.flush()
