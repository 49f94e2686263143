"""The code of the separate process: it loads the model, profiles it, and sends each result when it is computed.

Results that need no run of the model come first, so that they are known if the model hangs or crashes later.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError, ProfilerKitError, ProfilerKitWarning, classify
from ..inputs import NoInputs
from ..job import Job
from ..piping.function import JointFunction, Need
from ..piping.outcome import Completeness, Outcome
from ..piping.requests import read_request
from ..piping.status import Metric
from .channel import Channel
from .job_file import read_job
from .messages import FACTS
from .samples_in_turn import wait_for_turns

if TYPE_CHECKING:
    from ..piping.registry import Binding, Registry
    from ..profiler import Profiler
    from ..results.report import Report

__all__ = ["NOT_REACHED", "group_by_function", "run_job", "serve"]

#: The reason of a metric that is not computed yet, until the caller knows why it never was.
NOT_REACHED = "not reached"
#: More warnings than these are not handed over.
_MOST_WARNINGS = 100


def run_job(end: socket.socket, job: Job | int) -> None:
    """Run a job, or the job that is written behind a descriptor, and end this process."""
    code = 1
    try:
        faulthandler.enable(file=2)
        with suppress(AttributeError, ValueError, OSError):  # the supervisor asks by this signal where the model is
            faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)
        channel = Channel(_move_out_of_the_way(end))
        channel.send(stage="reading what to profile")
        serve(channel, read_job(job) if isinstance(job, int) else job)
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


def _move_out_of_the_way(end: socket.socket) -> socket.socket:
    """Return the socket under a high number, because some programs close all low descriptors."""
    import fcntl  # Windows has none

    for least in (900, 200):  # below the usual limit of 1024 descriptors, and below the 256 of macOS
        with suppress(OSError):
            moved = fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, least)
            end.close()
            return socket.socket(fileno=moved)
    return end


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
    """Return an error as a message: its type, its text, its code, and the facts that its type makes its text of."""
    text = str(error)[:20_000]
    message: dict[str, Any] = {"type": type(error).__name__, "text": text, "failure": classify(error).value}
    if type(error) in FACTS:
        message["facts"] = {name: getattr(error, name) for name in FACTS[type(error)]}
    return message


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
    work.plan()
    work.count_without_running()
    work.compute()


def group_by_function(names: Sequence[str], registry: Registry) -> list[list[str]]:
    """Return the names of keys in the order in which they are computed, the keys of one function together.

    What follows from the trace is one group: it is computed at once when the model is traced. Functions that run the
    model come last, because a run can end the process: then all other values are known. Among them, measurements that
    several models make in turn come first.
    """
    groups: dict[int, list[Binding]] = {}
    for binding in (registry[name] for name in names):
        follows_from_trace = registry.find_need(binding.key.NAME) <= Need.TRACE
        groups.setdefault(0 if follows_from_trace else id(binding.function), []).append(binding)

    def rank(group: Sequence[Binding]) -> tuple[Need, bool]:
        first = group[0]
        return registry.find_need(first.key.NAME), not isinstance(first.function, JointFunction)

    return [[binding.key.NAME for binding in group] for group in sorted(groups.values(), key=rank)]


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
        #: The keys whose results were sent already.
        self.reported: set[str] = set()

    def plan(self) -> None:
        """Send the names of everything to compute, and of the measurements that several models make in turn."""
        self._send_report(self.profiler._report(self.requested))
        joint = [self._name_joint(group) for group in self.groups]
        self.channel.send(plan=[name for name in joint if name])

    def _name_joint(self, group: Sequence[str]) -> str:
        """Return the name of a measurement that several models make in turn, of its first key and its function.

        It is empty for any other function.
        """
        function = self.registry[group[0]].function
        return f"{group[0]} by {type(function).__qualname__}" if isinstance(function, JointFunction) else ""

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
            records = {key: record for key, record in report.statuses.items() if record.completeness in usable}
            self.reported |= records.keys()
            self._send_report(replace(report, statuses=records))

    def compute(self) -> None:
        """Compute all keys, and send the results of each function when they are computed."""
        names = [name for group in self.groups for name in group]
        computing = self.profiler.compute_each(names, strict=self.job.strict, **self.job.arguments)
        for group in self.groups:
            self._begin(group)
            for _ in group:
                next(computing)
            self.reported |= set(group)
            self._send_report(self.profiler._report(self.requested))
        for _ in computing:  # its last steps
            pass

    def _begin(self, group: Sequence[str]) -> None:
        """Send the next keys to compute; if models take turns, a function that runs the model waits for its turn."""
        missing = self._find_missing()
        self.channel.send(doing=[name for name in group if name in missing])
        if self.waits and self.registry.find_need(group[0]) is Need.RUN:
            self.channel.send(turn=self._name_joint(group))
            while not self.channel.receive().get("go"):
                pass
            self.waits = self.job.in_turn  # a job that is gated, and measures by itself, waits once

    def _find_missing(self) -> list[str]:
        """Return the names that the report still lacks: metrics, and other keys that were requested by name."""
        names = [name for group in self.groups for name in group if name not in self.reported]
        return [name for name in names if self.requested is not None or isinstance(self.registry[name].key, Metric)]

    def _send_report(self, report: Report) -> None:
        """Send the values computed so far, with a record for each metric that is missing yet."""
        from ..results.report import StatusRecord
        from ..results.saving import to_dict

        missing = self._find_missing()
        unreached = Outcome(None, Completeness.UNAVAILABLE, (NOT_REACHED,))
        keys = [self.registry[name].key for name in missing]
        records = dict(report.statuses)
        records |= {key.NAME: StatusRecord.of(key.with_outcome(unreached)) for key in keys if isinstance(key, Metric)}
        registered = [binding.key.NAME for binding in self.registry]
        ordered = {name: records[name] for name in registered if name in records}
        content = json.dumps(to_dict(replace(report, statuses=ordered)), ensure_ascii=False, allow_nan=False)
        self.channel.send_report(content.encode())
        self.channel.send(pending=missing, doing=[])
