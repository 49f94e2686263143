"""One model in a separate process, as the caller sees it: its progress, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ..errors import FailureCode, ModelFailedError
from ..job import Job
from ..results.report import Report
from . import processes
from .channel import MESSAGE, ChannelError, FrameReader, decode, frame
from .limits import Limits
from .messages import Progress
from .reasons import Reason, describe_limits, find_reason
from .reports import add_limits, add_process, explain_missing, make_unreached_report
from .starting import start
from .supervisor import Ending
from .waiting import BoundedOutput, Source, is_closed, pump, receive

__all__ = ["IsolatedRun"]

#: Seconds that a supervisor may take to end everything; then this process does it.
PATIENCE = 8.0
#: Seconds after its channel has closed at which a process that goes on is ended: a moment earlier it may be about to
#: end by itself, and that says more.
SECOND_SIGN = 0.5
#: How many of the last bytes that a model printed on standard error may say why it ended.
_STDERR_READ = 20_000


class _Clock:
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


class _Due(NamedTuple):
    """What is done by the clock, and in how many seconds."""

    seconds: float
    act: Callable[[], None]


class IsolatedRun:
    """A process that runs one job: call `pump` until it is ``over``, then read its `result`.

    The process starts when this object is created. ``progress`` has everything that the process has reported. With
    ``quiet`` the model's output is not shown, and warnings are only kept in ``progress.warned``.

    Two sockets lead to it: ``control`` to the supervisor, which says how the process ended, and ``channel`` to the
    process itself, which sends its results.
    """

    def __init__(
        self, job: Job, limits: Limits, start_method: str = "spawn", preload: Sequence[str] = (), quiet: bool = False
    ) -> None:
        self.job = job
        self.limits = limits
        self.start_method = start_method
        self.progress: Progress = Progress(quiet=quiet)
        self.over: bool = False
        self.ending: Ending | None = None
        #: Why the caller has ended the model's process, and the details.
        self._code: FailureCode | None = None
        self._detail = ""
        #: The model's process, once it is known, which is also the number of its session; and a descriptor of it.
        self.pid: int | None = None
        self._pidfd: int | None = None
        self._stopped = False
        #: When a process whose channel has closed is ended unless it ends by itself, by `time.monotonic`.
        self._end_at: float | None = None
        #: When a supervisor that was told to end is waited for no longer.
        self._give_up_at: float | None = None
        self._control_reader, self._channel_reader = FrameReader(), FrameReader()
        self._outputs = [BoundedOutput(f"standard {name}", quiet=quiet) for name in ("output", "error")]
        self._clock = _Clock()
        self._started = start(start_method, job, limits, tuple(preload))
        self._ends = self._started.ends
        self._clock.run()  # the start of a fork server, which is kept, is not the model's

    @property
    def seconds(self) -> float:
        """The seconds that the process has run, waiting not included."""
        return self._clock.seconds

    # Reading ----------------------------------------------------------------------------------------------------

    def list_sources(self) -> list[Source]:
        """Return the open ends, to wait for."""
        if self.over:
            return []
        sources = [Source(self._ends.control, self._read_control), Source(self._ends.channel, self._read_channel)]
        for file, output in zip(self._ends.outputs, self._outputs, strict=True):
            sources.append(Source(file, partial(output.read_from, file)))
        return [source for source in sources if not is_closed(source.end)]

    def _read_control(self) -> bool:
        piece = receive(self._ends.control)
        if piece is None:
            return False
        is_open = bool(piece)
        try:
            for _, content in self._control_reader.read(piece):
                message = decode(content)
                if "child" in message:
                    self.pid = int(message["child"])
                    self._pidfd = processes.pidfd(self.pid)
                if "ended" in message:
                    self.ending = Ending(**message["ended"])
        except (ChannelError, TypeError, ValueError):  # the supervisor, which alone has the other end, is broken
            is_open = False
        if not is_open:
            self._finish()
        return is_open

    def _read_channel(self) -> bool:
        piece = receive(self._ends.channel)
        if piece is None:
            return False
        try:
            for kind, content in self._channel_reader.read(piece):
                self.progress.take(kind, content)
        except ChannelError as error:
            self._ends.channel.close()
            self._end_for(FailureCode.CHANNEL, str(error))
            return False
        if not piece:
            self._ends.channel.close()
            self._end_at = time.monotonic() + SECOND_SIGN
        return bool(piece)

    # Sending ----------------------------------------------------------------------------------------------------

    def send(self, **message: Any) -> None:
        """Send the child a message; if the child has ended, that is noticed elsewhere."""
        channel = self._ends.channel
        if channel.fileno() >= 0:
            with suppress(OSError):  # such a message is short: it fits, or nobody reads any more
                channel.send(frame(MESSAGE, json.dumps(message).encode()))

    def go_on(self) -> None:
        """Let the process run, if it was stopped."""
        self._clock.run()
        if self._stopped and self._pidfd is not None and not self.over:
            processes.send_signal(self._pidfd, signal.SIGCONT)
            self._stopped = False

    def stop(self) -> None:
        """Stop the process until `go_on`: while another one is measured, its threads must not run."""
        self._clock.pause()
        if not self._stopped and self._pidfd is not None and not self.over:
            processes.send_signal(self._pidfd, signal.SIGSTOP)
            self._stopped = True

    # How it ends ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the process if it still runs, and wait until all of it has ended."""
        if not self.over:
            self._end()
            pump([self], lambda: self.over)

    def _end_for(self, code: FailureCode, detail: str = "") -> None:
        """End the process, and record the reason."""
        if self._code is None and self.ending is None:
            self._code, self._detail = code, detail
        self._end(dump=code is FailureCode.TIMEOUT)

    def _end(self, dump: bool = False) -> None:
        if self._give_up_at is None:
            self._give_up_at = time.monotonic() + PATIENCE
            self._started.send(end=True, dump=dump)

    def _find_next_due(self) -> _Due | None:
        """Return what is done next by the clock; None if that may be nothing."""
        now = time.monotonic()
        if self._give_up_at is not None:
            return _Due(self._give_up_at - now, self._finish)
        due = []
        if self._end_at is not None:
            due.append(_Due(self._end_at - now, self._end_without_channel))
        if self.limits.timeout is not None and self._clock.runs:
            due.append(_Due(self.limits.timeout - self._clock.seconds, self._end_late))
        return min(due, key=lambda one: one.seconds, default=None)

    def seconds_left(self) -> float | None:
        """Return the seconds until `on_time` has work to do; None if that may be never."""
        due = self._find_next_due()
        return None if due is None else max(0.0, due.seconds)

    def on_time(self) -> None:
        """End a process that reached its time limit; finish without its supervisor if that does not end."""
        due = None if self.over else self._find_next_due()
        if due is not None and due.seconds <= 0:
            due.act()

    def _end_without_channel(self) -> None:
        """End a process that goes on although its channel is closed; of one that ended, the supervisor will say how."""
        self._end_at = None
        if self._pidfd is None or not processes.has_ended(self._pidfd):
            self._end_for(FailureCode.CHANNEL, "it was closed")

    def _end_late(self) -> None:
        self.go_on()  # so that it can say where it is
        self._end_for(FailureCode.TIMEOUT)

    def _finish(self) -> None:
        """Record that the process is over, after the rest of its output was read."""
        if self.over:
            return
        self._read_the_rest()
        self.over = True
        if self.ending is None:
            self._code = self._code or FailureCode.LOST
            started = self._started
            processes.end_tree(lambda: processes.find_marked(started.marker, self.pid, started.their_channel))
        self._started.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _read_the_rest(self) -> None:
        """Read the arrived bytes, to the end of the output and the latest report."""
        for source in self.list_sources():
            if source.end is not self._ends.control:
                while source.read():
                    pass
        for output in self._outputs:
            output.finish()
        try:
            self.progress.read_report()
        except ChannelError as error:
            self._code, self._detail = self._code or FailureCode.CHANNEL, str(error)

    # The result -------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> FailureCode | None:
        """Why there is no report, or why the process ended before it was done; None if it came to its end."""
        if self.progress.error is not None:
            return self.progress.failure
        return None if self._is_complete() else self._find_reason().code

    def result(self) -> Report:
        """Return the report; raises the errors that `profilerkit.profile` would have raised.

        An error for lack of memory or threads has the limits in its message.
        """
        progress = self.progress
        if progress.error is not None:
            limits = describe_limits(progress.failure, self.limits)
            if limits and len(progress.error.args) == 1:
                progress.error.args = (f"{progress.error}{limits}",)
            raise progress.error
        if progress.report is None:
            report = make_unreached_report(self.job.label, self.job.metrics, self.job.static)
            missing = list(report.statuses)
        else:
            report, missing = add_limits(progress.report, self.limits), progress.pending
        if not self._is_complete():
            reason = self._find_reason()
            if self.job.strict:
                raise ModelFailedError(f"{self.job.label}: {reason}")
            report = explain_missing(report, missing, progress.doing, reason)
        return add_process(report, self.start_method, self.limits, self.ending or Ending())

    def _is_complete(self) -> bool:
        progress = self.progress
        return progress.done and not progress.pending and progress.report is not None

    def _find_reason(self) -> Reason:
        stderr = self._outputs[1].tail[-_STDERR_READ:].decode("utf-8", "replace")
        return find_reason(
            self.ending,
            self.limits,
            code=self._code,
            detail=self._detail,
            stage=self.progress.stage,
            doing=self.progress.doing,
            stderr=stderr,
        )
