"""The code of the separate process: it loads the model, profiles it, and sends each result when it is computed.

Results that need no run of the model come first, so that they are known if the model hangs or crashes later.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from ..errors import InputError, ProfilerKitError, ProfilerKitWarning, classify
from ..inputs import NoInputs
from ..job import Job
from ..piping.function import Need
from ..piping.outcome import Completeness, Outcome
from ..piping.requests import read_request
from ..piping.status import Metric
from .channel import Channel
from .job_file import read_job
from .turns import wait_for_turns

if TYPE_CHECKING:
    from ..piping.registry import Registry
    from ..profiler import Profiler
    from ..results.report import Report, StatusRecord

__all__ = ["NOT_REACHED", "group_by_function", "run_job", "serve"]

#: The reason of a metric that is not computed yet, until the caller knows why it never was.
NOT_REACHED = "not reached"
#: More warnings than these are not handed over.
_MOST_WARNINGS = 100


def run_job(end: socket.socket, file: IO[bytes], facts: dict[str, Any]) -> None:
    """Run the job in a file of `job_file`, whose ``facts`` were read already, and end this process."""
    code = 1
    try:
        faulthandler.enable(file=2)
        with suppress(AttributeError, ValueError, OSError):  # the supervisor asks by this signal where the model is
            faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)
        channel = Channel(end)
        channel.send(pid=os.getpid(), stage="reading what to profile")
        serve(channel, read_job(file, facts))
        code = 0
    except SystemExit as error:  # the model has called sys.exit
        code = _read_exit_code(error)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


def _read_exit_code(error: SystemExit) -> int:
    """Return the exit code that Python would end with; a text is printed, as Python does."""
    if isinstance(error.code, int):
        return error.code
    if isinstance(error.code, str):
        sys.stderr.write(f"{error.code}\n")
    return 0 if error.code is None else 1


def serve(channel: Channel, job: Job) -> None:
    """Run a job and send all results over the channel, and the errors that `profile` would raise."""
    try:
        with ExitStack() as stack:
            stack.enter_context(_send_warnings(channel))
            if job.own_plugins_alone:
                from ..hooks.manager import limit_to_own_plugins

                stack.enter_context(limit_to_own_plugins())
            if job.in_turn:
                stack.enter_context(wait_for_turns(channel))
            _profile(channel, job)
    except Exception as error:
        if not isinstance(error, ProfilerKitError):
            traceback.print_exc()
        channel.send(error=error_message(error))
    channel.send(done=True)


def error_message(error: Exception) -> dict[str, Any]:
    """Return an error as a message: its type, its text and its code."""
    return {"type": type(error).__name__, "text": str(error)[:20_000], "failure": classify(error).value}


@contextmanager
def _send_warnings(channel: Channel) -> Iterator[None]:
    """Send profilerkit's own warnings to the caller; print all others as usual."""
    with warnings.catch_warnings():
        others = warnings.showwarning
        counted = 0

        def show(message: Warning | str, category: type[Warning], *location: Any, **kwargs: Any) -> None:
            nonlocal counted
            if issubclass(category, ProfilerKitWarning) and counted < _MOST_WARNINGS:
                counted += 1
                channel.send(warning={"type": category.__name__, "text": str(message)[:5_000]})
            else:
                others(message, category, *location, **kwargs)

        warnings.showwarning = show
        warnings.simplefilter("always", ProfilerKitWarning)
        yield


def _profile(channel: Channel, job: Job) -> None:
    """Load the model, and compute its metrics: counts first, runs last."""
    from ..api import profile

    channel.send(stage="loading the model")
    loaded = job.load()
    channel.send(stage="making its profiler")
    profiler = loaded.make_profiler()
    request = job.make_request(profile)
    (names,), arguments = read_request(request, [profiler._registry])
    shown = names if request.is_selective else None
    work = Work(channel, profiler, names, shown, replace(job, arguments=arguments))
    work.send_report(profiler._report(shown))  # it names everything that is to come
    work.count_without_running()
    work.compute()


def group_by_function(names: Sequence[str], registry: Registry) -> list[list[str]]:
    """Return the names of keys in the order in which they are computed, the keys of one function together.

    What follows from the trace is one group: all of it fails where the model cannot be traced. Functions that run the
    model come last, because a run can end the process: then all other values are known.
    """
    groups: dict[int, list[str]] = {}
    for name in (registry[name].key.NAME for name in names):
        follows_from_trace = registry.find_need(name) <= Need.TRACE
        groups.setdefault(0 if follows_from_trace else id(registry[name].function), []).append(name)
    return sorted(groups.values(), key=lambda group: registry.find_need(group[0]))


class Work:
    """The status keys that one profiler computes; keys that need no run of the model come first.

    Args:
        channel: The channel for results.
        profiler: The profiler.
        names: The keys to compute.
        requested: The keys that the report has; None for all metrics among ``names``.
        job: The job, with the arguments that the functions get.
    """

    def __init__(
        self, channel: Channel, profiler: Profiler, names: Sequence[str], requested: Sequence[str] | None, job: Job
    ) -> None:
        self.channel = channel
        self.profiler = profiler
        self.registry = profiler._registry
        self.requested = requested
        self.job = job
        #: The keys of each function, in the order in which functions run.
        self.groups: list[list[str]] = group_by_function(names, self.registry)
        #: Whether the next function that runs the model waits until the caller lets it.
        self.waits: bool = job.in_turn or job.gated
        #: The keys whose results were sent already, and the records of those that were counted without inputs.
        self.reported: set[str] = set()
        self.counted: dict[str, StatusRecord] = {}

    def count_without_running(self) -> None:
        """Send the results of the layers alone, which are known even if the model cannot be traced."""
        groups = [group for group in self.groups if self.registry.find_need(group[0]) <= Need.TRACE]
        names = [name for group in groups for name in group]
        twin = self.profiler.clone()
        without_inputs = {**self.job.arguments, "inputs": NoInputs(InputError(NOT_REACHED))}
        self.channel.send(stage="looking at its layers")
        with suppress(Exception):  # they are computed again, with the inputs: then an error is told
            twin._compute_all(names, without_inputs)
            report = replace(twin._report(self.requested), arguments={}, notes=(), inputs="", data={})
            usable = (Completeness.COMPLETE, Completeness.PARTIAL)
            self.counted = {key: record for key, record in report.statuses.items() if record.completeness in usable}
            self.reported |= self.counted.keys()
            self.send_report(replace(report, statuses=self.counted))

    def compute(self) -> None:
        """Compute all keys, and send each result when it is computed, unless it was counted before."""
        names = [name for group in self.groups for name in group]
        computing = self.profiler.compute_each(names, strict=self.job.strict, **self.job.arguments)
        for group in self.groups:
            self._begin(group)
            for done, name in enumerate(group, 1):
                next(computing)
                if name not in self.reported or done == len(group):
                    self.reported.add(name)
                    self.send_report(self.profiler._report(self.requested), group[done:])
        for _ in computing:  # its last steps
            pass

    def _begin(self, group: Sequence[str]) -> None:
        """Send the next keys to compute; a function that runs the model may have to wait for the caller."""
        missing = self._find_missing()
        self.channel.send(doing=[name for name in group if name in missing])
        if self.waits and self.registry.find_need(group[0]) is Need.RUN:
            self.channel.send(turn=type(self.registry[group[0]].function).__qualname__)
            self.channel.receive()
            self.waits = self.job.in_turn  # a job that is gated, and measures by itself, waits once

    def _find_missing(self) -> list[str]:
        """Return the names that the report still lacks: metrics, and other keys that were requested by name."""
        names = [name for group in self.groups for name in group if name not in self.reported]
        return [name for name in names if self.requested is not None or isinstance(self.registry[name].key, Metric)]

    def send_report(self, report: Report, doing: Sequence[str] = ()) -> None:
        """Send the values computed so far, a record for each metric that is missing yet, and which come now."""
        from ..results.report import StatusRecord
        from ..results.saving import to_dict

        missing = self._find_missing()
        unreached = Outcome(None, Completeness.UNAVAILABLE, (NOT_REACHED,))
        keys = [self.registry[name].key for name in missing]
        records = self.counted | dict(report.statuses)
        records |= {key.NAME: StatusRecord.of(key.with_outcome(unreached)) for key in keys if isinstance(key, Metric)}
        registered = [binding.key.NAME for binding in self.registry]
        ordered = {name: records[name] for name in registered if name in records}
        now = [name for name in doing if name in missing]
        self.channel.send(report=to_dict(replace(report, statuses=ordered)), pending=missing, doing=now)
