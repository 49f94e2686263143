"""One model in a separate process, as the caller sees it: its progress, and how it ended."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from ..errors import FailureCode, ModelFailedError
from ..job import Job
from ..results.report import Report
from . import processes
from .channel import ChannelError, LineReader, write_line
from .limits import Limits
from .messages import Progress
from .reasons import Cause, Reason, find_reason
from .reports import add_process, explain_missing, make_unreached_report
from .starting import start
from .supervisor import Ending
from .waiting import End, pump, receive

__all__ = ["IsolatedRun"]

#: Seconds that a supervisor may take to end everything; then it is ended itself.
PATIENCE = 8.0
#: How many of the last bytes that a model printed on standard error are kept: they may say why it ended.
_KEPT = 20_000


#: Makes a decoder of UTF-8 that comes in pieces.
_make_decoder = partial(getincrementaldecoder("utf-8"), "replace")


class IsolatedRun:
    """A process that runs one job: call `pump` until it is ``over``, then read its `result`.

    The process starts when this object is created. With ``quiet`` the model's output is not shown, and warnings are
    only kept in ``progress.warned``.

    Attributes:
        progress: Everything that the process has reported.
        over: Whether the process, and all that it has started, have ended.
        ending: How it ended, as its supervisor says.
        sources: The open ends of its sockets and pipes, each with the method that reads from it.
    """

    def __init__(self, job: Job, limits: Limits, preload: tuple[str, ...] | None = None, quiet: bool = False) -> None:
        self.job = job
        self.limits = limits
        self.quiet = quiet
        self.progress: Progress = Progress(quiet=quiet)
        self.over: bool = False
        self.ending: Ending | None = None
        #: Why the caller has ended the process, or why it could not wait for its end.
        self._cause: Cause | None = None
        #: When the supervisor is given up, by `time.monotonic`; None if it was not told to end everything.
        self._deadline: float | None = None
        self._lines = {"control": LineReader(), "channel": LineReader()}
        self._stderr = b""
        #: A descriptor of the model's process, by which it is stopped while it waits.
        self._process: int | None = None
        started = self._started = start(job, limits, preload)
        self.sources: dict[End, Callable[[], object]] = {
            started.control: self._read_control,
            started.channel: self._read_channel,
            started.output: partial(self._read_output, started.output, _make_decoder()),
            started.errors: partial(self._read_output, started.errors, _make_decoder()),
        }
        #: The seconds before the process last waited, and since when it runs again; None while it waits.
        self._spent = 0.0
        self._since: float | None = time.monotonic()  # the start of a fork server, which is kept, is not the model's

    @property
    def seconds(self) -> float:
        """The seconds that the process has run, waiting not included."""
        return self._spent + (0.0 if self._since is None else time.monotonic() - self._since)

    def answer(self, **message: Any) -> None:
        """Let a process go on that waits for an answer: ``go=True``, ``sample=True``, or what to ``finish`` with."""
        self.progress.answer()
        self._since = time.monotonic()
        self._signal(signal.SIGCONT)
        self._send(self._started.channel, **message)

    # Reading: each method returns whether more may have come already --------------------------------------------------

    def _read_control(self) -> bool:
        """Read how the process ended, which is all that the supervisor says; the end of its socket is the end."""
        piece = receive(self._started.control)
        with suppress(ChannelError, msgspec.MsgspecError):  # the supervisor, which alone has the other end, is broken
            for line in self._lines["control"].read(piece or b""):
                self.ending = msgspec.json.decode(line, type=Ending)
        if piece == b"":
            self._finish()
        return bool(piece)

    def _read_channel(self) -> bool:
        piece = receive(self._started.channel)
        try:
            for line in self._lines["channel"].read(piece or b""):
                self.progress.take(line)
        except ChannelError as error:
            self.sources.pop(self._started.channel)
            self._end_for(FailureCode.CHANNEL, str(error))
            return False
        if piece == b"":
            self.sources.pop(self._started.channel)
        if self._process is None and self.progress.pid is not None:
            self._process = processes.pidfd(self.progress.pid)
        if self.progress.waiting and self._since is not None:
            self._spent, self._since = self.seconds, None
            self._signal(signal.SIGSTOP)  # its threads would disturb the measurement of another one
        return bool(piece)

    def _signal(self, number: signal.Signals) -> None:
        """Send the model's process a signal; by a descriptor, which leads to no other process once it has ended."""
        if self._process is not None:
            with suppress(OSError, AttributeError):
                signal.pidfd_send_signal(self._process, number)  # type: ignore[attr-defined,unused-ignore]

    def _read_output(self, end: End, decoder: IncrementalDecoder) -> bool:
        """Show output of the model on standard error; of its standard error the last bytes are kept."""
        piece = receive(end)
        if piece == b"":
            self.sources.pop(end)
        if not piece:
            return False
        if end is self._started.errors:
            self._stderr = (self._stderr + piece)[-_KEPT:]
        if not self.quiet and sys.stderr is not None:
            with suppress(OSError, ValueError):  # closed, or full: the results matter more
                sys.stderr.write(decoder.decode(piece))
                sys.stderr.flush()
        return True

    # How it ends ------------------------------------------------------------------------------------------------------
    #
    # A process ends by itself, or is ended for a cause: then its supervisor is told to end everything (`_end`). In both
    # cases the supervisor says how it ended and closes its socket, or is given up: then the run is over (`_finish`).

    def close(self) -> None:
        """End the process if it still runs, and wait until all of it has ended."""
        if not self.over:
            self._end()
            pump([self], lambda: self.over)

    def seconds_left(self) -> float | None:
        """Return the seconds until `on_time` has work to do; None if that may be never."""
        if self._deadline is not None:
            return max(0.0, self._deadline - time.monotonic())
        if self.limits.timeout is None or self._since is None:
            return None
        return max(0.0, self.limits.timeout - self.seconds)

    def on_time(self) -> None:
        """End a process at its time limit; finish without its supervisor if that is late."""
        if self.over or self.seconds_left() != 0:
            return
        if self._deadline is None:
            self._end_for(FailureCode.TIMEOUT)
        else:
            self._finish()

    def _end_for(self, code: FailureCode, detail: str = "") -> None:
        """End the process, and record the cause."""
        if self._cause is None and self.ending is None:
            self._cause = Cause(code, detail)
        self._end(dump=code is FailureCode.TIMEOUT)

    def _end(self, dump: bool = False) -> None:
        """Tell the supervisor to end everything, once; it is waited for no longer than `PATIENCE`."""
        if self._deadline is None:
            self._deadline = time.monotonic() + PATIENCE
            self._send(self._started.control, end=True, dump=dump)

    @staticmethod
    def _send(end: socket.socket, /, **message: Any) -> None:
        with suppress(OSError):  # such a message is short: it fits, or nobody reads any more
            end.send(write_line(message))

    def _finish(self) -> None:
        """Record that the process is over, after the rest of its output was read."""
        self.sources.pop(self._started.control)
        for read in list(self.sources.values()):
            while read():
                pass
        try:
            self.progress.read_report()
        except ChannelError as error:
            self._cause = self._cause or Cause(FailureCode.CHANNEL, str(error))
        self.over = True
        self.sources.clear()
        if self.ending is None:
            self._cause = self._cause or Cause(FailureCode.LOST)
        self._started.close()
        if self._process is not None:
            os.close(self._process)
            self._process = None

    # The result -------------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> FailureCode | None:
        """Why there is no report, or why the process ended before it was done; None if it came to its end."""
        if self.progress.error is not None:
            return self.progress.failure
        return None if self._is_complete() else self._find_reason().code

    def result(self) -> Report:
        """Return the report; raises the errors that `profilerkit.profile` would have raised."""
        progress = self.progress
        if progress.error is not None:
            raise progress.error
        if progress.report is None:
            report = make_unreached_report(self.job.label, self.job.metrics, self.job.static)
            missing = list(report.statuses)
        else:
            report, missing = progress.report, progress.pending
        if not self._is_complete():
            reason = self._find_reason()
            if self.job.strict:
                raise ModelFailedError(f"{self.job.label}: {reason}")
            report = explain_missing(report, missing, progress.doing, reason)
        return add_process(report, self.limits, self.ending or Ending())

    def _is_complete(self) -> bool:
        progress = self.progress
        return progress.done and not progress.pending and progress.report is not None

    def _find_reason(self) -> Reason:
        return find_reason(
            self.ending,
            self.limits,
            cause=self._cause,
            stage=self.progress.stage,
            doing=self.progress.doing,
            stderr=self._stderr.decode("utf-8", "replace"),
        )
