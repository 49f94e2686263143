"""The progress of an audit: a line that is drawn anew on a terminal, a line for each row in a pipe."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING, Any

from profilerkit.foreign_text import on_terminal

from ..estimating import format_duration
from ..rows import Row, RowStatus
from ..running import Watch
from ..summary import shorten

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..cases import Case

__all__ = ["PlainLines", "TerminalLine", "watch"]

#: How much of a reason stands in a line.
_REASON = 160


def watch(stream: IO[str]) -> Watch:
    """Return what shows the progress on a stream."""
    return TerminalLine(stream) if stream.isatty() else PlainLines(stream)


class Counts(Watch):
    """Counts what runs, what is done and what failed."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.total: int = 0
        self.done: int = 0
        self.failed: int = 0
        self.reused: int = 0
        self.running: set[str] = set()
        self.began_at: float = time.monotonic()

    def begin(self, cases: int, reused: int) -> None:
        """Note the numbers of cases, and the moment."""
        self.total, self.reused, self.began_at = cases, reused, time.monotonic()

    def start(self, case: Case) -> None:
        """Note a case that runs."""
        self.running.add(case.key)

    def end(self, case: Case, row: Row) -> None:
        """Note a case that is done."""
        self.running.discard(case.key)
        self.done += 1
        self.failed += row.status is RowStatus.FAILED

    @property
    def seconds_left(self) -> float | None:
        """The seconds that the rest will take at the pace so far; None before the first row."""
        left = self.total - self.reused - self.done
        return (time.monotonic() - self.began_at) / self.done * left if self.done else None


class PlainLines(Counts):
    """Writes a line for each row, for pipes and logs."""

    def begin(self, cases: int, reused: int) -> None:
        """Write how much there is to do."""
        super().begin(cases, reused)
        self._write(f"{cases} cases, {reused} of them in the store already")

    def end(self, case: Case, row: Row) -> None:
        """Write the row's line."""
        super().end(case, row)
        settings = " ".join(f"{name}={value}" for name, value in row.settings.items())
        reason = f": {shorten(row.reason, _REASON)}" if row.reason else ""
        left = "" if self.seconds_left is None else f", {format_duration(self.seconds_left)} left"
        number = f"[{self.reused + self.done}/{self.total}{left}]"
        self._write(f"{number} {row.status.value} {row.spec}{f' {settings}' if settings else ''}{reason}")

    def _write(self, line: str) -> None:
        self.stream.write(f"{on_terminal(line)}\n")
        self.stream.flush()


class TerminalLine(Counts):
    """Draws one line anew: running, done, failed, time left; between two events only, never by a thread."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self.display: Progress | None = None
        self.task: Any = None

    def begin(self, cases: int, reused: int) -> None:
        """Start the display."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().begin(cases, reused)
        console = Console(file=self.stream)
        columns = (BarColumn(30), TextColumn("{task.description}"))
        self.display = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self.task = self.display.add_task(self.text(), total=cases, completed=reused)
        self.display.start()
        self.display.refresh()

    def start(self, case: Case) -> None:
        """Draw the line with one more that runs."""
        super().start(case)
        self._draw()

    def end(self, case: Case, row: Row) -> None:
        """Draw the line with one more that is done; a failure is printed above it."""
        super().end(case, row)
        if self.display is not None and row.status is RowStatus.FAILED:
            line = on_terminal(f"failed {row.spec}: {shorten(row.reason, _REASON)}")
            self.display.console.print(line, markup=False, highlight=False)
        self._draw()
        if self.display is not None and self.reused + self.done >= self.total:
            self.display.stop()

    def text(self) -> str:
        """Return the line."""
        left = "" if self.seconds_left is None else f", {format_duration(self.seconds_left)} left"
        return f"{len(self.running)} running, {self.reused + self.done}/{self.total} done, {self.failed} failed{left}"

    def _draw(self) -> None:
        if self.display is not None:
            self.display.update(self.task, completed=self.reused + self.done, description=self.text())
            self.display.refresh()
