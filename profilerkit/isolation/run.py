"""One model in a separate process, as the caller sees it: its progress, and how it ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from ..errors import FailureCode, ModelFailedError
from ..results.report import Report, StatusRecord
from . import processes
from .channel import MESSAGE, ChannelError, FrameReader, decode, frame
from .job import Job
from .limits import Limits, format_bytes
from .messages import Progress
from .output import BoundedOutput
from .reasons import Fate, find_code, report_before, with_reason, write_reason
from .starting import start
from .supervisor import Ending

__all__ = ["IsolatedRun", "pump"]

#: How long a supervisor may take to end everything before that is left to this process.
PATIENCE = 8.0
#: How long after its channel has closed a child that goes on is ended; one that has ended itself is waited for.
SECOND_SIGN = 0.5
_PIECE = 2**18
_STDERR_READ = 20_000


class Clock:
    """A clock for the seconds that a process runs; it is stopped while the process waits for its turn."""

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


class IsolatedRun:
    """A process that runs one job: call `pump` until it is ``over``, then read its `result`.

    The process starts when this object is created. ``progress`` has everything that the process has reported. With
    ``quiet`` what the model prints is not shown, and warnings are only kept in ``progress.warned``.
    """

    def __init__(
        self,
        job: Job,
        limits: Limits,
        start_method: str = "spawn",
        preload: Sequence[str] = (),
        quiet: bool = False,
    ) -> None:
        self.job = job
        self.limits = limits
        self.start_method = start_method
        self.progress: Progress = Progress(quiet=quiet)
        self.over: bool = False
        self.ending: Ending | None = None
        self._code: FailureCode | None = None
        self._detail = ""
        self._session: int | None = None
        self._pidfd: int | None = None
        self._stopped = False
        self._closed_until: float | None = None
        self._patience_until: float | None = None
        self._control_reader, self._channel_reader = FrameReader(), FrameReader()
        self._outputs = [BoundedOutput(f"standard {name}", quiet=quiet) for name in ("output", "error")]
        self._clock = Clock()
        self._started = start(start_method, job, limits, tuple(preload))
        self._clock.run()  # the start of a fork server, which is kept, is not the model's

    # What is read -----------------------------------------------------------------------------------------------

    def sources(self) -> list[tuple[Any, Callable[[], bool]]]:
        """Return the descriptors to wait for, each with a function that reads it and returns whether more may come."""
        if self.over:
            return []
        both = [(self._started.control, self._read_control), (self._started.channel, self._read_channel)]
        printed = [
            (file, lambda file=file, output=output: _read_output(file, output))
            for file, output in zip(self._started.outputs, self._outputs, strict=True)
        ]
        return [(end, read) for end, read in both if end.fileno() >= 0] + [
            (file, read) for file, read in printed if not file.closed
        ]

    def _read_control(self) -> bool:
        piece = _receive(self._started.control)
        if piece is None:
            return False
        try:
            for _, content in self._control_reader.feed(piece):
                self._take_control(decode(content))
        except (ChannelError, TypeError, ValueError):  # nobody but the supervisor has this end
            piece = b""
        if not piece:
            self._finish()
        return bool(piece)

    def _take_control(self, message: dict[str, Any]) -> None:
        if "child" in message:
            self._session = int(message["child"])
            self._pidfd = processes.pidfd(self._session)
        if "ended" in message:
            names = {field.name for field in fields(Ending)}
            self.ending = Ending(**{name: value for name, value in message["ended"].items() if name in names})

    def _read_channel(self) -> bool:
        piece = _receive(self._started.channel)
        if piece is None:
            return False
        try:
            for kind, content in self._channel_reader.feed(piece):
                self.progress.take(kind, content)
        except ChannelError as error:
            self._started.channel.close()
            self._end_for(FailureCode.CHANNEL, str(error))
            return False
        if not piece:
            self._started.channel.close()
            self._closed_until = time.monotonic() + SECOND_SIGN
        return bool(piece)

    # Sending messages -----------------------------------------------------------------------------------------------

    def send(self, **message: Any) -> None:
        """Send the child a message; if the child has ended, that is noticed elsewhere."""
        channel = self._started.channel
        if channel.fileno() >= 0:
            with suppress(OSError):  # such a message is short: it fits, or nobody reads any more
                channel.send(frame(MESSAGE, json.dumps(message).encode()))

    def let(self, run: bool) -> None:
        """Let the process run, or stop it: while another process is measured, its threads must not run."""
        (self._clock.run if run else self._clock.pause)()
        if self._pidfd is not None and run == self._stopped and not self.over:
            processes.send_signal(self._pidfd, signal.SIGCONT if run else signal.SIGSTOP)
            self._stopped = not run

    def _end_for(self, code: FailureCode, detail: str = "") -> None:
        """End the process, and record the reason."""
        if self._code is None and self.ending is None:
            self._code, self._detail = code, detail
        self._end(dump=code is FailureCode.TIMEOUT)

    def _end(self, dump: bool = False) -> None:
        if self._patience_until is None:
            self._patience_until = time.monotonic() + PATIENCE
            self._started.send(end=True, dump=dump)

    # Time -------------------------------------------------------------------------------------------------------

    def seconds_left(self) -> float | None:
        """Return the seconds until `on_time` has work to do; None if that may be never."""
        now = time.monotonic()
        if self._patience_until is not None:
            return max(0.0, self._patience_until - now)
        ends = [] if self._closed_until is None else [self._closed_until - now]
        if self.limits.timeout is not None and self._clock.runs:
            ends.append(self.limits.timeout - self._clock.seconds)
        return max(0.0, min(ends)) if ends else None

    def on_time(self) -> None:
        """End a process that reached its time limit; finish without its supervisor if that does not end."""
        if self.over or self.seconds_left() != 0.0:
            return
        if self._patience_until is not None:
            self._finish()
        elif self._closed_until is not None and self._closed_until <= time.monotonic():
            self._closed_until = None
            if self._pidfd is None or not processes.has_ended(self._pidfd):  # else the supervisor will say how
                self._end_for(FailureCode.CHANNEL, "it was closed")
        else:
            self.let(run=True)  # so that it can say where it is
            self._end_for(FailureCode.TIMEOUT)

    def _finish(self) -> None:
        """Record that the process is over, after the rest of its output was read."""
        if self.over:
            return
        left = [read for source, read in self.sources() if source is not self._started.control]
        for read in left:
            while read():
                pass
        self.over = True
        for output in self._outputs:
            output.finish()
        try:
            self.progress.read_report()
        except ChannelError as error:
            self._code, self._detail = self._code or FailureCode.CHANNEL, str(error)
        if self.ending is None:
            self._code = self._code or FailureCode.LOST
            processes.end_tree(lambda: processes.find_marked(self._started.marker, self._session))
        self._started.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def close(self) -> None:
        """End the process if it still runs, and wait until all of it has ended."""
        if not self.over:
            self._end()
            pump([self], lambda: self.over)

    @property
    def pid(self) -> int | None:
        """The process of the model; None before it is known."""
        return self._session

    @property
    def seconds(self) -> float:
        """The seconds that the process has run, waiting not included."""
        return self._clock.seconds

    @property
    def failure(self) -> FailureCode | None:
        """Why there is no report, or why the process ended before it was done; None if it came to its end."""
        if self.progress.error is not None:
            return self.progress.failure
        return None if self._is_complete() else find_code(self._fate())

    def _is_complete(self) -> bool:
        progress = self.progress
        return progress.done and not progress.pending and progress.report is not None

    # What came of it --------------------------------------------------------------------------------------------

    def result(self) -> Report:
        """Return the report; raises the errors that `profilerkit.profile` would have raised."""
        progress = self.progress
        if progress.error is not None:
            raise self._with_limits(progress.error, progress.failure)
        if progress.report is None:
            report, pending = report_before(self.job.called, self.job.metrics)
        else:
            report, pending = self._under_limits(progress.report), progress.pending
        if self._is_complete():
            return self._finish_report(report)
        fate = self._fate()
        reason = write_reason(fate)
        if self.job.strict:
            raise ModelFailedError(f"{self.job.called}: {reason}")
        return self._finish_report(with_reason(report, pending, progress.doing, reason, find_code(fate)))

    def _fate(self) -> Fate:
        stderr = self._outputs[1].tail[-_STDERR_READ:].decode("utf-8", "replace")
        doing = tuple(self.progress.doing)
        return Fate(self.ending, self.limits, self._code, self._detail, self.progress.stage, doing, stderr)

    def _finish_report(self, report: Report) -> Report:
        ending = self.ending or Ending()
        notes = list(report.notes)
        if ending.left_behind:
            notes.append(f"{ending.left_behind} processes that the model had started were ended when it was done")
        if ending.survivors:
            notes.append(f"{ending.survivors} processes that the model had started could not be ended")
        environment = {**report.environment, "isolation": self._describe_process()}
        return replace(report, notes=tuple(notes), environment=environment)

    def _under_limits(self, report: Report) -> Report:
        """Return a report in which values that failed for lack of memory or threads have the limits in their reason."""
        return replace(report, statuses={key: self._under_limit(record) for key, record in report.statuses.items()})

    def _under_limit(self, record: StatusRecord) -> StatusRecord:
        limits = self._describe_limits(record.failure)
        if not limits or not record.missing:
            return record
        first, *others = record.missing
        return replace(record, missing=(f"{first}{limits}", *others))

    def _with_limits(self, error: Exception, code: FailureCode) -> Exception:
        """Return an error of loading for lack of memory or threads, with the limits in its message."""
        limits = self._describe_limits(code)
        if limits and len(error.args) == 1:
            error.args = (f"{error}{limits}",)
        return error

    def _describe_limits(self, code: FailureCode | None) -> str:
        """Return in brackets the limits that a failure is about; empty if it is about none."""
        limits = []
        if self.limits.memory is not None and code in (FailureCode.MEMORY, FailureCode.THREADS):
            limits.append(f"{format_bytes(self.limits.memory)} of memory")
        if self.limits.max_threads is not None and code is FailureCode.THREADS:
            limits.append(f"{self.limits.max_threads:,} threads")
        return f" (the process was limited to {' and '.join(limits)})" if limits else ""

    def _describe_process(self) -> str:
        parts = [f"a process of its own ({self.start_method})"]
        if self.limits.timeout is not None:
            parts.append(f"at most {self.limits.timeout:g} s")
        if self.limits.memory is not None:
            parts.append(f"at most {format_bytes(self.limits.memory)}, a GPU's memory not limited")
        return ", ".join(parts)


def _receive(end: socket.socket) -> bytes | None:
    """Return the bytes that arrived; empty if the other end is closed, None if nothing arrived yet."""
    if end.fileno() < 0:
        return None
    try:
        return end.recv(_PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _read_output(file: Any, output: BoundedOutput) -> bool:
    if file.closed:
        return False
    try:
        piece = file.read(_PIECE)
    except OSError:
        piece = b""
    if piece is None:
        return False
    if piece:
        output.feed(piece)
    else:
        file.close()
    return bool(piece)


def pump(runs: Iterable[IsolatedRun], until: Callable[[], bool]) -> None:
    """Read the messages of processes and enforce their time limits, until a condition is true or all are over."""
    everyone = list(runs)
    while not until():
        with selectors.DefaultSelector() as selector:
            for run in everyone:
                for source, read in run.sources():
                    selector.register(source, selectors.EVENT_READ, read)
            if not selector.get_map():
                return
            left = [seconds for run in everyone if (seconds := run.seconds_left()) is not None and not run.over]
            for key, _ in selector.select(min(left, default=None)):
                key.data()
        for run in everyone:
            run.on_time()
