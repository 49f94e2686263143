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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..errors import InputError, ProfilerKitError, ProfilerKitWarning, UnknownStatusError, classify
from .channel import Channel
from .job import Job, read_job
from .turns import take_turns

if TYPE_CHECKING:
    from ..piping.registry import Binding
    from ..profiler import Profiler
    from ..results.report import Report, StatusRecord

__all__ = ["NOT_REACHED", "run_job", "serve"]

#: The reason of a metric that is not computed yet, until the caller knows why it never was.
NOT_REACHED = "not reached"
#: Arguments that determine how a model is run: a function that takes one of them runs it.
_RUN_OPTIONS = frozenset({"device", "num_iters", "mode"})
#: More warnings than these are not handed over.
_MOST_WARNINGS = 100


def run_job(end: socket.socket, job: Job | int) -> None:
    """Run a job, or the job that is written behind a descriptor, and end this process."""
    code = 1
    try:
        faulthandler.enable(file=2)
        with suppress(AttributeError, ValueError, OSError):
            faulthandler.register(signal.SIGUSR2, file=2, all_threads=False)
        channel = Channel(_out_of_the_way(end))
        channel.send(stage="reading what to profile")
        serve(channel, read_job(job) if isinstance(job, int) else job)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


def _out_of_the_way(end: socket.socket) -> socket.socket:
    """Return the socket under a high number, because some programs close all low descriptors."""
    import fcntl

    for least in (900, 200):
        with suppress(OSError):
            moved = fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, least)
            end.close()
            return socket.socket(fileno=moved)
    return end


def serve(channel: Channel, job: Job) -> None:
    """Run a job and send all results over the channel, and the errors that `profile` would raise."""
    try:
        with ExitStack() as stack:
            stack.enter_context(_warnings_sent(channel))
            if job.own_plugins_alone:
                from ..plugging.offers import own_plugins_only

                stack.enter_context(own_plugins_only())
            if job.in_turn:
                stack.enter_context(take_turns(channel))
            _profile(channel, job)
    except Exception as error:
        if not isinstance(error, ProfilerKitError):
            traceback.print_exc()
        channel.send(error=error_message(error))
    channel.send(done=True)


def error_message(error: Exception) -> dict[str, Any]:
    """Return an error as a message: its type, its text, its code, and the other arguments of its type."""
    text = str(error)[:20_000]
    message: dict[str, Any] = {"type": type(error).__name__, "text": text, "failure": classify(error).value}
    if isinstance(error, UnknownStatusError):
        message |= {"name": error.name, "names": list(error.names), "owner": error.owner}
    return message


@contextmanager
def _warnings_sent(channel: Channel) -> Iterator[None]:
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
    from ..api import profile
    from ..piping.registry import read_request
    from ..profiler import make_profiler

    channel.send(stage="loading the model")
    loaded = job.load()
    channel.send(stage="making its profiler")
    profiler = make_profiler(
        loaded.model,
        functions=job.all_functions(),
        leave_out=job.leave_out,
        name=job.name or loaded.name,
        backend=job.backend,
        inputs=loaded.inputs,
        input_shape=loaded.input_shape,
        data_splits=job.data_splits(),
    )
    requested = job.metrics
    (names,), arguments = read_request(
        [profiler._registry], requested, job.arguments, strict=job.strict, caller=profile
    )
    job = replace(job, arguments=arguments)
    work = Work(channel, profiler, names, None if requested is None else names, job)
    work.plan()
    work.count_without_running()
    work.compute()


class Work:
    """The status keys that one profiler computes; those that need no run of the model come first."""

    def __init__(
        self, channel: Channel, profiler: Profiler, names: Sequence[str], requested: Sequence[str] | None, job: Job
    ) -> None:
        self.channel = channel
        self.profiler = profiler
        self.requested = requested
        self.job = job
        self.waits: bool = job.in_turn or job.gated
        bindings = [profiler._registry[name] for name in names]
        self.order: list[Binding] = in_order(bindings, profiler._registry)
        self.groups: list[list[str]] = [
            [binding.key.NAME for binding in group] for _, group in groupby(self.order, lambda item: id(item.function))
        ]
        #: What has been said already.
        self.reported: set[str] = set()

    def plan(self) -> None:
        """Send the names of everything to compute, and of the measurements that several models make in turn."""
        self._say(self.profiler._report(self.requested), self._find_missing())
        joint = [self._joint(group) for group in self.groups]
        self.channel.send(plan=[name for name in joint if name])

    def _joint(self, group: Sequence[str]) -> str | None:
        """Return the name of a measurement that several models make in turn: its first key and its function."""
        from ..piping.function import JointFunction

        function = self.profiler._registry[group[0]].function
        return f"{group[0]} by {type(function).__qualname__}" if isinstance(function, JointFunction) else None

    def count_without_running(self) -> None:
        """Send the results of the layers alone, which are known even if the model cannot be traced."""
        from ..inputs import NoInputs
        from ..piping.status import Completeness

        names = [name for group in self.groups for name in group if risk(name, self.profiler._registry) == 0]
        twin = self.profiler.clone()
        without = {**self.job.arguments, "inputs": NoInputs(InputError(NOT_REACHED))}
        self.channel.send(stage="looking at its layers")
        with suppress(Exception):
            twin._compute_all(names, without)
            report = replace(twin._report(self.requested), arguments={}, notes=(), inputs="", data={})
            usable = (Completeness.COMPLETE, Completeness.PARTIAL)
            records = {key: record for key, record in report.statuses.items() if record.completeness in usable}
            self.reported |= records.keys()
            self._say(replace(report, statuses=records), self._find_missing())

    def compute(self) -> None:
        """Compute all keys, and send the results of each function when they are computed."""
        names = [name for group in self.groups for name in group]
        computing = self.profiler.compute_each(names, strict=self.job.strict, **self.job.arguments)
        for group in self.groups:
            self._begin(group)
            for _ in group:
                next(computing)
            self.reported |= set(group)
            self._say(self.profiler._report(self.requested), self._find_missing())
        for _ in computing:
            pass

    def _find_missing(self) -> list[str]:
        """Return the names that the report still lacks: metrics, and other keys that were requested by name."""
        from ..piping.status import Metric

        registry = self.profiler._registry
        names = [name for group in self.groups for name in group if name not in self.reported]
        return [name for name in names if self.requested is not None or isinstance(registry[name].key, Metric)]

    def _begin(self, group: Sequence[str]) -> None:
        """Send what is computed next; where models take turns, a function that runs the model waits for its turn."""
        missing = self._find_missing()
        self.channel.send(doing=[name for name in group if name in missing])
        if self.waits and risk(group[0], self.profiler._registry) == 2:
            self.channel.send(turn=self._joint(group))
            while not self.channel.receive().get("go"):
                pass
            self.waits = self.job.in_turn  # one that measures by itself is let once, and for good

    def _say(self, report: Report, pending: Sequence[str]) -> None:
        from ..results.saving import to_dict

        records = {**report.statuses, **self._make_pending(pending)}
        ordered = {name: records[name] for name in self._sort_names(records)}
        content = json.dumps(to_dict(replace(report, statuses=ordered)), ensure_ascii=False, allow_nan=False)
        self.channel.report(content.encode())
        self.channel.send(pending=list(pending), doing=[])

    def _sort_names(self, records: Mapping[str, StatusRecord]) -> list[str]:
        registered = [binding.key.NAME for binding in self.profiler._registry]
        return [name for name in registered if name in records]

    def _make_pending(self, names: Sequence[str]) -> dict[str, StatusRecord]:
        from ..piping.status import Completeness, Metric, Outcome
        from ..results.report import StatusRecord

        outcome = Outcome(None, Completeness.UNAVAILABLE, (NOT_REACHED,))
        keys = [self.profiler._registry[name].key for name in names]
        return {key.NAME: StatusRecord.of(key.with_outcome(outcome)) for key in keys if isinstance(key, Metric)}


def in_order(bindings: Sequence[Binding], registry: Any) -> list[Binding]:
    """Return bindings in the order in which they are computed; bindings of one function stay together.

    Results of the trace and the layers alone come first, then functions that use the model without running it, then
    functions that run it; of these, measurements that several models make in turn come first.
    """
    from ..piping.function import JointFunction

    first: dict[int, int] = {}
    for index, binding in enumerate(bindings):
        first.setdefault(id(binding.function), index)

    def order(binding: Binding) -> tuple[int, bool, int]:
        alone = not isinstance(binding.function, JointFunction)
        return risk(binding.key.NAME, registry), alone, first[id(binding.function)]

    return sorted(bindings, key=order)


def risk(name: str, registry: Any) -> int:
    """Return 0 for a key that needs only the trace and the layers, 1 if it uses the model, 2 if it runs it."""
    return _risk(name, registry, frozenset())


def _risk(name: str, registry: Any, above: frozenset[str]) -> int:
    from ..piping.function import JointFunction
    from ..piping.intrinsic import Inputs, Trace
    from ..piping.registry import PROVIDED

    if name in (Inputs.NAME, Trace.NAME) or name in above or name not in registry:
        return 0
    function = registry[name].function
    parameters = function.parameters().keys()
    if isinstance(function, JointFunction) or not _RUN_OPTIONS.isdisjoint(parameters):
        return 2
    direct = 0 if parameters.isdisjoint(PROVIDED) else 1
    return max([direct, *(_risk(needed, registry, above | {name}) for needed in parameters)])
