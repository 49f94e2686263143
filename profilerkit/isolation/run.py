"""One model in a separate process, as the caller sees it: its progress, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ..errors import FailureCode, ModelFailedError
from ..job import Job
from ..results.report import Report
from . import processes
from .channel import MESSAGE, ChannelError, FrameReader, decode, frame
from .limits import Limits
from .messages import Progress
from .reasons import Cause, Reason, describe_limits, find_reason
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


class _ModelProcess:
    """The process that runs the model, once the supervisor has said which it is: it can be stopped for a while."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._descriptor: int | None = None
        self._is_stopped = False

    def begin(self, pid: int) -> None:
        """Note which process it is."""
        self.pid, self._descriptor = pid, processes.pidfd(pid)

    def stop(self) -> None:
        """Stop the process until `go_on`."""
        if not self._is_stopped and self._descriptor is not None:
            processes.send_signal(self._descriptor, signal.SIGSTOP)
            self._is_stopped = True

    def go_on(self) -> None:
        """Let the process run, if it was stopped."""
        if self._is_stopped and self._descriptor is not None:
            processes.send_signal(self._descriptor, signal.SIGCONT)
            self._is_stopped = False

    def close(self) -> None:
        """Close the descriptor: the process is over."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class IsolatedRun:
    """A process that runs one job: call `pump` until it is ``over``, then read its `result`.

    The process starts when this object is created. With ``quiet`` the model's output is not shown, and warnings are
    only kept in ``progress.warned``.

    Two sockets lead to it: ``control`` to the supervisor, which says how the process ended, and ``channel`` to the
    process itself, which sends its results.

    Attributes:
        progress: Everything that the process has reported.
        over: Whether the process, and all that it has started, have ended.
        ending: How it ended, as its supervisor says.
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
        #: Why the caller has ended the process.
        self._cause: Cause | None = None
        #: What is done at which time, by `time.monotonic`, unless it has become needless by then.
        self._deadlines: dict[Callable[[], None], float] = {}
        self._process = _ModelProcess()
        self._control_reader, self._channel_reader = FrameReader(), FrameReader()
        self._outputs = [BoundedOutput(f"standard {name}", quiet=quiet) for name in ("output", "error")]
        self._clock = _Clock()
        self._started = start(start_method, job, limits, tuple(preload))
        self._ends = self._started.ends
        self._clock.run()  # the start of a fork server, which is kept, is not the model's

    @property
    def pid(self) -> int | None:
        """The model's process, once it is known, which is also the number of its session."""
        return self._process.pid

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
                    self._process.begin(int(message["child"]))
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
            self._deadlines[self._end_without_channel] = time.monotonic() + SECOND_SIGN
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
        self._process.go_on()

    def stop(self) -> None:
        """Stop the process until `go_on`: while another one is measured, its threads must not run."""
        self._clock.pause()
        self._process.stop()

    # How it ends ------------------------------------------------------------------------------------------------
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
        left = min(self._list_seconds_left().values(), default=None)
        return None if left is None else max(0.0, left)

    def on_time(self) -> None:
        """Do what is due by now: end a process at its time limit, or finish without its supervisor."""
        left = {} if self.over else self._list_seconds_left()
        act = min(left, key=left.__getitem__, default=None)
        if act is not None and left[act] <= 0:
            self._deadlines.pop(act, None)
            act()

    def _list_seconds_left(self) -> dict[Callable[[], None], float]:
        """Return what is done by the clock, each with the seconds until then."""
        now = time.monotonic()
        left = {act: deadline - now for act, deadline in self._deadlines.items()}
        if self.limits.timeout is not None and self._clock.runs and not self._is_told_to_end():
            left[self._end_late] = self.limits.timeout - self._clock.seconds
        return left

    def _end_late(self) -> None:
        self.go_on()  # so that it can say where it is
        self._end_for(FailureCode.TIMEOUT)

    def _end_without_channel(self) -> None:
        """End a process that goes on although its channel is closed; of one that has ended, the supervisor says how."""
        self._end_for(FailureCode.CHANNEL)

    def _end_for(self, code: FailureCode, detail: str = "") -> None:
        """End the process, and record the cause."""
        if self._cause is None and self.ending is None:
            self._cause = Cause(code, detail)
        self._end(dump=code is FailureCode.TIMEOUT)

    def _end(self, dump: bool = False) -> None:
        """Tell the supervisor to end everything, once; it is waited for no longer than `PATIENCE`."""
        if not self._is_told_to_end():
            self._deadlines = {self._finish: time.monotonic() + PATIENCE}
            self._started.send(end=True, dump=dump)

    def _is_told_to_end(self) -> bool:
        return self._finish in self._deadlines

    def _finish(self) -> None:
        """Record that the process is over, after the rest of its output was read."""
        if self.over:
            return
        self._read_the_rest()
        self.over = True
        if self.ending is None:
            self._cause = self._cause or Cause(FailureCode.LOST)
            started = self._started
            processes.end_tree(lambda: processes.find_marked(started.marker, self.pid, started.their_channel))
        self._started.close()
        self._process.close()

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
            self._cause = self._cause or Cause(FailureCode.CHANNEL, str(error))

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
            cause=self._cause,
            stage=self.progress.stage,
            doing=self.progress.doing,
            stderr=stderr,
        )
