"""What happens inside the process of a model, looked at in this one: in which order, and what is said when."""

from __future__ import annotations

import json
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import planted
import pytest
from time_limits import join

from profilerkit import (
    ArgumentWarning,
    Completeness,
    LoadedModel,
    Metric,
    Profiler,
    ProfilerFunction,
    Report,
)
from profilerkit.hooks.any_backend import register_for_any_backend
from profilerkit.isolation.channel import Channel, LineReader
from profilerkit.isolation.child import NOT_REACHED, Work, group_by_function, serve
from profilerkit.isolation.turns import wait_for_turns
from profilerkit.job import Job
from profilerkit.piping.function import Need
from profilerkit.results.saving import parse
from profilerkit.testing import FakeBackend, FakeClock, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.sampling import Sampling, measure, measure_interleaved

Said = list["dict[str, Any] | Report"]


@contextmanager
def open_channel() -> Iterator[tuple[Channel, Callable[[], Said]]]:
    """Give a channel to speak into, and what returns all that was said so far."""
    mine, theirs = socket.socketpair()
    said: Said = []

    def listen() -> None:
        reader = LineReader()
        while piece := theirs.recv(2**16):
            for message in map(json.loads, reader.read(piece)):
                report = message.pop("report", None)
                if report is not None:
                    said.append(parse(json.dumps(report).encode(), "test"))  # type: ignore[arg-type]
                said.append(message)

    listener = threading.Thread(target=listen)
    listener.start()

    def end() -> Said:
        mine.shutdown(socket.SHUT_RDWR)
        join(listener)
        return said

    try:
        yield Channel(mine), end
    finally:
        mine.close()
        join(listener)
        theirs.close()


def serve_job(job: Job) -> Said:
    with open_channel() as (channel, said):
        serve(channel, job)
        return said()


def words(said: Said, name: str) -> list[Any]:
    return [message[name] for message in said if isinstance(message, dict) and name in message]


def test_what_needs_no_run_is_said_first_and_each_result_when_it_is_done() -> None:
    keys = ("total_params", "trainable_params", "model_size", "macs", "flops", "memory_footprint")
    times = ("execution_time", "throughput")
    said = serve_job(Job(planted.fine, metrics=(*keys, *times), arguments={"num_iters": 2, "warmup": 1}))
    reports = [message for message in said if isinstance(message, Report)]
    complete = [
        {key for key, record in report.statuses.items() if record.completeness is Completeness.COMPLETE}
        for report in reports
    ]
    weights = {"total_params", "trainable_params", "model_size"}
    static = weights | {"macs", "flops", "memory_footprint"}
    assert complete == [
        set(),
        weights,
        weights | {"macs"},
        weights | {"macs", "flops"},
        static,
        static | {"execution_time"},
        static | {"execution_time", "throughput"},
    ]
    assert [list(report) for report in reports] == [list(reports[-1])] * 7, "each names all that is to come"
    assert reports[0].status("macs").missing == (NOT_REACHED,)
    assert words(said, "doing")[-1] == []
    assert words(said, "doing") == [
        [],
        [],
        ["macs", "flops", "memory_footprint"],
        ["flops", "memory_footprint"],
        ["memory_footprint"],
        [],
        ["execution_time", "throughput"],
        ["throughput"],
        [],
    ]
    assert words(said, "pending")[-1] == []
    assert said[-1] == {"done": True}
    assert words(said, "stage") == ["loading the model", "making its profiler", "looking at its layers"]


def test_an_error_is_said_and_the_process_is_done() -> None:
    said = serve_job(Job(planted.cannot_be_built))
    assert words(said, "error") == [{"type": "KeyError", "text": "'no such thing'", "failure": "model"}]
    assert said[-1] == {"done": True}
    unknown = words(serve_job(Job(planted.fine, metrics=("mac",))), "error")[0]
    assert unknown["type"] == "UnknownStatusError"
    assert "nearest first: macs" in unknown["text"]


def test_warnings_of_ours_are_said_and_others_are_warnings_as_ever() -> None:
    def build() -> LoadedModel:
        warnings.warn("of the model's own", UserWarning, stacklevel=1)
        return planted.fine()

    with pytest.warns(UserWarning, match="^of the model's own$"):
        said = serve_job(Job(build, metrics=("macs",), arguments={"max_secnds": 1}))
    assert [word["type"] for word in words(said, "warning")] == [ArgumentWarning.__name__]
    assert "did you mean 'max_seconds'?" in words(said, "warning")[0]["text"]


def test_keys_that_are_no_metrics_are_missed_only_where_they_were_asked_for() -> None:
    assert "layerwise_data" not in words(serve_job(Job(planted.fine, arguments={"num_iters": 1})), "pending")[0]
    said = serve_job(Job(planted.fine, metrics=("layerwise_data", "macs")))
    assert words(said, "pending")[0] == ["macs", "layerwise_data"] or "layerwise_data" in words(said, "pending")[0]
    reports = [message for message in said if isinstance(message, Report)]
    assert len(reports[-1]["layerwise_data"]) == 4
    assert list(reports[-1].statuses) == ["macs"]


# The order ------------------------------------------------------------------------------------------------------------


def key(name: str) -> type[Metric]:
    return type(name.title(), (Metric,), {"NAME": name, "__doc__": f"{name}."})


class Static(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[Metric]:
        return key("static")

    def __call__(self, trace: Any, factor: int = 1) -> int:
        return 1


class UsesTheModel(ProfilerFunction):
    NEED = Need.MODEL

    def get_bounded_status_keys(self) -> type[Metric]:
        return key("uses")

    def __call__(self, model: Any) -> int:
        return 2


class Runs(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[Metric]:
        return key("runs")

    def __call__(self, model: Any) -> int:
        return 3


class Derived(ProfilerFunction):
    """Takes nothing but values, one of which takes a run."""

    def get_bounded_status_keys(self) -> type[Metric]:
        return key("derived")

    def __call__(self, static: int, runs: int) -> int:
        return static + runs


def make_profiler(*functions: ProfilerFunction) -> Profiler:
    profiler = Profiler(FakeModel([FakeLayer("a", params=1)]), inputs=FakeTensor((1, 3)), backend=FakeBackend())
    for function in functions:
        profiler.register_profiler_function(function)
    return profiler


def test_whatever_measures_is_known_to_run_the_model() -> None:
    """It waits for its turn, and is no count: energy, whose function takes no option by itself, as much as a time."""
    registry = register_for_any_backend()
    names = ["energy", "power", "first_call_time", "execution_time", "mfu"]
    assert {registry.find_need(name) for name in names} == {Need.RUN}


def test_what_may_fail_worse_comes_later() -> None:
    registry = make_profiler(Derived(), Runs(), UsesTheModel(), Static())._registry
    names = ["derived", "runs", "uses", "static"]
    assert {name: registry.find_need(name) for name in names} == {
        "static": Need.TRACE,
        "uses": Need.MODEL,
        "derived": Need.RUN,
        "runs": Need.RUN,
    }
    groups = group_by_function(names, registry)
    assert groups == [["static"], ["uses"], ["derived"], ["runs"]]


def test_a_formula_that_ends_the_process_takes_no_other_count_with_it() -> None:
    class Leaves(ProfilerFunction):
        def get_bounded_status_keys(self) -> type[Metric]:
            return key("leaves")

        def __call__(self, trace: Any) -> int:
            raise SystemExit(9)

    names = ["static", "leaves"]
    with open_channel() as (channel, listen):
        with pytest.raises(SystemExit):
            Work(channel, make_profiler(Static(), Leaves()), names, names, Job(None)).compute()
        said = listen()
    [report] = [message for message in said if isinstance(message, Report)]
    assert report["static"] == 1
    assert words(said, "doing") == [names, ["leaves"]]
    assert words(said, "pending") == [["leaves"]]


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "in turn"])
def test_a_job_waits_before_it_runs_the_model(gated: bool) -> None:
    """A gated one once, one in turn before each function that runs it."""
    profiler = make_profiler(Static(), Runs(), Derived())
    mine, theirs = socket.socketpair()
    for _ in range(2):
        Channel(theirs).send(go=True)
    with mine, theirs:
        names = ["runs", "derived", "static"]
        Work(Channel(mine), profiler, names, names, Job(None, gated=gated, in_turn=not gated)).compute()
        mine.shutdown(socket.SHUT_WR)
        stream = b"".join(iter(lambda: theirs.recv(2**16), b""))
    begun = [message.get("turn") or message.get("doing") for message in map(json.loads, stream.splitlines())]
    again = [] if gated else ["Derived"]
    assert [word for word in begun if word] == [["static"], ["runs"], "Runs", ["derived"], *again]


# Samples --------------------------------------------------------------------------------------------------------------


def test_a_sample_is_taken_at_each_word_and_the_callers_are_the_measurement() -> None:
    clock = FakeClock()
    call = clock.make_call([1.0, 2.0, 3.0])
    mine, theirs = socket.socketpair()
    parent = Channel(theirs)
    finish = {
        "samples": [2.0, 3.0],
        "warmup": [1.0],
        "confidence": 0.9,
        "session": "s",
        "precision": None,
        "adaptive": True,
    }
    for message in ({"sample": True},) * 3 + ({"finish": finish},):
        parent.send(**message)
    with mine, theirs, wait_for_turns(Channel(mine)):
        measured = measure(call, Sampling(clock=clock))
        assert [parent.receive() for _ in range(4)][1:] == [{"sample": 1.0}, {"sample": 2.0}, {"sample": 3.0}]
    assert (measured.samples, measured.warmup, measured.session) == ((2.0, 3.0), (1.0,), "s")
    assert (measured.confidence, measured.adaptive) == (0.9, True)


def test_several_calls_and_those_after_the_block_are_sampled_as_ever() -> None:
    clock = FakeClock()
    sampling = Sampling(num_iters=2, warmup=0, clock=clock)
    mine, theirs = socket.socketpair()
    with mine, theirs:
        with wait_for_turns(Channel(mine)):
            assert len(measure_interleaved([clock.make_call([1.0]), clock.make_call([2.0])], sampling)) == 2
        assert measure(clock.make_call([1.0]), sampling).samples == (1.0, 1.0)


def test_a_short_call_is_warmed_before_each_sample() -> None:
    """Of 0.5 ms each four calls take the 2 ms for which a short one runs untimed, and the fifth is timed."""
    clock = FakeClock()
    calls = clock.make_call([0.0005])
    counted: list[int] = []

    def call() -> None:
        counted.append(1)
        calls()

    mine, theirs = socket.socketpair()
    parent = Channel(theirs)
    end = {"samples": [1.0], "warmup": [], "confidence": 0.95, "session": "s", "precision": None, "adaptive": False}
    for message in ({"sample": True},) * 2 + ({"finish": end},):
        parent.send(**message)
    with mine, theirs, wait_for_turns(Channel(mine)):
        measure(call, Sampling(clock=clock))
    assert len(counted) == 1 + (4 + 1), "the first is not known to be short"


def test_a_job_says_what_it_is_called() -> None:
    assert Job("net.py:build").label == "net.py:build"
    assert Job(planted.fine).label == "fine"
    assert Job(FakeModel()).label == "FakeModel"
    assert Job("net.py:build", name="Net").label == "Net"


def test_the_name_of_the_process_is_nothing_to_the_numbers() -> None:
    said = serve_job(Job(planted.fine, name="Mine", metrics=("macs",)))
    assert [message.name for message in said if isinstance(message, Report)] == ["Mine"] * 3
