"""The seconds of graph nodes, from TensorFlow's profiler. Only orders of magnitude that cannot fail are asserted."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.profiler import profiler_v2

from profilerkit import InputError, NotOfferedError, ProfilerBusyError
from profilerkit_tensorflow.compat.profiler import is_session_running, make_xspace
from profilerkit_tensorflow.operator_timing import profiler_session as op_times
from profilerkit_tensorflow.operator_timing.events import read_profile
from profilerkit_tensorflow.operator_timing.executed_names import split_path
from profilerkit_tensorflow.operator_timing.profiler_session import MAX_PASSES, NodeTime, op_seconds


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No test leaves a folder of ours or a session behind, also where something was raised."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.glob("profilerkit_*")) == []
    assert not is_session_running()


def time_nodes(function: Any, *args: Any) -> dict[str, NodeTime]:
    """The nodes of one pass, by their original names; the function is traced before the session."""
    concrete = tf.function(function).get_concrete_function(*args)
    (one,) = op_seconds(lambda: concrete(*args), 1)
    return {split_path(name)[-1]: node for name, node in one.nodes.items()}


def product(x: Any) -> Any:
    return tf.add(tf.reduce_sum(tf.matmul(x, x, name="large")), 1.0, name="small")


def nothing() -> None: ...


def test_the_largest_product_takes_the_most_time() -> None:
    x = tf.ones([1500, 1500])
    concrete = tf.function(product).get_concrete_function(x)
    times = op_seconds(lambda: concrete(x), 3)
    assert len(times) == 3
    for one in times:
        assert max(one.nodes, key=lambda name: one.nodes[name].seconds) == "large"
        assert one.nodes["small"].seconds > 0
        assert {node.calls for node in one.nodes.values()} == {1}, "neither the warm-up nor another pass is in it"
        assert 0 < one.busy_seconds <= one.wall_seconds


def test_the_runs_of_a_loop_are_summed_and_counted() -> None:
    def looped(x: Any) -> Any:
        for _ in tf.range(7):
            x = tf.tanh(tf.matmul(x, x, name="product"))
        return x

    nodes = time_nodes(looped, tf.ones([40, 40]))
    assert nodes["while/product"].calls == 7
    assert nodes["while/Less"].calls == 8, "the condition is asked once more than the body runs"


def test_cheap_kernels_of_long_loops_are_there_in_every_pass() -> None:
    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def looped(x: Any) -> Any:
        for _ in tf.range(60):
            x = tf.tanh(x)
        return x

    concrete = looped.get_concrete_function(tf.ones([2]))
    times = op_seconds(lambda: concrete(tf.ones([2])), 4)
    assert [original_calls(one.nodes)["while/Tanh"] for one in times] == [60] * 4


def original_calls(nodes: Any) -> dict[str, int]:
    return {split_path(name)[-1]: node.calls for name, node in nodes.items()}


def test_both_calls_of_a_function_are_found_by_the_name_in_it() -> None:
    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def inner(x: Any) -> Any:
        return tf.exp(x, name="inside")

    def outer(x: Any) -> Any:
        with tf.name_scope("block"):
            return inner(inner(x) + 1.0)

    x = tf.ones([8])
    concrete = tf.function(outer).get_concrete_function(x)
    (one,) = op_seconds(lambda: concrete(x), 1)
    inside = {name: node for name, node in one.nodes.items() if split_path(name)[-1] == "inside"}
    assert {name: node.calls for name, node in inside.items()} == {
        "block/PartitionedCall/inside": 1,
        "block/PartitionedCall_1/inside": 1,
    }


def test_a_branch_that_is_not_taken_takes_no_time() -> None:
    def choosing(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x, name="taken"), lambda: tf.tanh(x, name="left"))

    nodes = time_nodes(choosing, tf.ones([8]))
    assert nodes["cond/taken"].calls == 1
    assert "cond/left" not in nodes


def test_eager_operators_have_no_nodes() -> None:
    (one,) = op_seconds(lambda: tf.exp(tf.ones([3])), 1)
    assert one.nodes == {}
    assert one.busy_seconds == 0
    assert one.wall_seconds > 0


def test_a_running_session_is_said_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tf.profiler.experimental.start(str(tmp_path / "mine"))
    with pytest.raises(ProfilerBusyError, match="one session per process.*tf.profiler.experimental.stop"):
        op_seconds(nothing, 1)
    monkeypatch.setattr(op_times, "is_session_running", lambda: False)  # as if it began just after it was asked for
    with pytest.raises(ProfilerBusyError, match="one session per process") as caught:
        op_seconds(nothing, 1)
    assert isinstance(caught.value.__cause__, tf.errors.AlreadyExistsError)
    monkeypatch.undo()
    assert is_session_running(), "the user's session goes on"
    tf.profiler.experimental.stop(save=False)


@pytest.mark.parametrize("raised", [ValueError("of the model"), KeyboardInterrupt()])
def test_what_a_call_raises_ends_the_session(raised: BaseException) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        op_seconds(fail, 2)
    assert caught.value is raised
    assert len(op_seconds(nothing, 2)) == 2, "the next session starts"


@pytest.mark.parametrize(
    ("name", "moment"),
    [("ProfilerSession", "after"), ("start", "before"), ("start", "after"), ("export_to_tb", "before")],
)
def test_an_interrupt_of_a_beginning_or_an_end_leaves_no_session(
    name: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow makes a session and keeps it, begins it, writes it, and forgets it."""
    sessions = profiler_v2._pywrap_profiler
    owner = sessions if name == "ProfilerSession" else sessions.ProfilerSession
    original = getattr(owner, name)
    made: list[Any] = []

    def interrupt(*arguments: Any) -> Any:
        made.append(original(*arguments) if moment == "after" else None)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        op_seconds(nothing, 1)
    monkeypatch.undo()
    assert made
    assert not is_session_running()
    made.clear()
    assert len(op_seconds(nothing, 2)) == 2, "the next session starts"


def test_after_a_session_that_python_did_not_begin_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow keeps its own that fails to begin beside that of a profiler server, and refuses each that follows."""
    server = profiler_v2._pywrap_profiler.ProfilerSession()
    server.start(str(tmp_path), {})
    monkeypatch.setattr(op_times, "is_session_running", lambda: False)
    with pytest.raises(ProfilerBusyError, match="one session per process"):
        op_seconds(nothing, 1)
    assert is_session_running(), "that of the server goes on"
    del server
    assert len(op_seconds(nothing, 2)) == 2


def test_a_failed_pass_ends_the_session_too() -> None:
    calls: list[int] = []

    def second_fails() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("of the model")

    with pytest.raises(ValueError, match="of the model"):
        op_seconds(second_fails, 2)


@pytest.mark.parametrize("passes", [0, -1, MAX_PASSES + 1])
def test_the_number_of_passes_is_bounded(passes: int) -> None:
    with pytest.raises(InputError, match=f"passes={passes}: .* from 1 to {MAX_PASSES} passes"):
        op_seconds(nothing, passes)


def test_another_format_of_profiles_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_times, "make_xspace", lambda: None)
    with pytest.raises(NotOfferedError, match="in a format that profilerkit cannot read.* use a release in docs"):
        op_seconds(nothing, 1)


def test_a_session_warns_of_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    op_seconds(nothing, 1)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert not re.search(r"^[WE]\d{4} |WARNING:tensorflow", captured.err, re.MULTILINE)


# What follows is read from profiles made by hand, in microseconds.


def plane_with(space: Any, name: str) -> tuple[Any, Callable[[Any, str, int, int], Any]]:
    plane = space.planes.add(name=name)
    ids: dict[str, int] = {}

    def add(line: Any, event: str, start: int, length: int) -> Any:
        key = ids.setdefault(event, len(ids) + 1)
        plane.event_metadata[key].name = event
        return line.events.add(metadata_id=key, offset_ps=start * 10**6, duration_ps=length * 10**6)

    return plane, add


def microseconds(one: op_times.PassTimes) -> dict[str, tuple[float, int]]:
    return {name: (round(node.seconds * 1e6, 6), node.calls) for name, node in one.nodes.items()}


def test_a_kernel_inside_another_is_taken_from_it() -> None:
    space = make_xspace()
    plane, add = plane_with(space, "/host:CPU")
    line = plane.lines.add(timestamp_ns=5_000)
    add(line, "profilerkit_pass_0", 0, 100)
    add(line, "ExecutorState::Process", 5, 90)
    add(line, "call:PartitionedCall", 10, 60)
    add(line, "a/inner:Mul", 20, 10)
    add(line, "a/inner:Mul", 40, 10)
    add(line, "after:Exp", 80, 5)
    (one,) = op_times.list_passes(read_profile(space))
    assert one.wall_seconds == pytest.approx(100e-6)
    assert microseconds(one) == {"call": (40, 1), "a/inner": (20, 2), "after": (5, 1)}
    assert one.nodes["a/inner"].op_type == "Mul"


def test_moments_of_several_kernels_are_divided_among_them() -> None:
    space = make_xspace()
    plane, add = plane_with(space, "/host:CPU")
    first, second = plane.lines.add(), plane.lines.add(timestamp_ns=10_000)  # its events begin 10 microseconds later
    add(first, "profilerkit_pass_0", 0, 100)
    add(first, "x:MatMul", 0, 40)
    add(second, "y:MatMul", 10, 40)  # from 20 to 60: half of 20 to 40 is each one's
    (one,) = op_times.list_passes(read_profile(space))
    assert microseconds(one) == {"x": (30, 1), "y": (30, 1)}
    assert one.busy_seconds == pytest.approx(60e-6)


def test_passes_are_told_apart_and_the_warm_up_left_out() -> None:
    space = make_xspace()
    plane, add = plane_with(space, "/host:CPU")
    caller, worker = plane.lines.add(), plane.lines.add()
    add(worker, "x:Exp", 0, 3)
    for index, start in ((1, 50), (0, 10)):
        add(caller, f"profilerkit_pass_{index}", start, 30)
        add(worker, "x:Exp", start + 5, 4 + index)
    add(worker, "x:Exp", 90, 3)
    first, second = op_times.list_passes(read_profile(space))
    assert microseconds(first) == {"x": (4, 1)}
    assert microseconds(second) == {"x": (5, 1)}


def test_what_ran_on_a_device_has_its_time_there() -> None:
    space = make_xspace()
    plane, add = plane_with(space, "/host:CPU")
    line = plane.lines.add()
    add(line, "profilerkit_pass_0", 0, 100)
    add(line, "conv:Conv2D", 0, 5)
    add(line, "on_host:Where", 10, 7)
    gpu, add_kernel = plane_with(space, "/device:GPU:0")
    gpu.stat_metadata[1].name = "tf_op"
    gpu.stat_metadata[2].name = "conv:Conv2D"
    stream, derived = gpu.lines.add(name="Stream #13(Compute)"), gpu.lines.add(name="TensorFlow Ops")
    add_kernel(stream, "cudnn_kernel", 20, 30).stats.add(metadata_id=1, ref_value=2)
    add_kernel(stream, "cudnn_transform", 50, 10).stats.add(metadata_id=1, str_value="conv:Conv2D")
    add_kernel(stream, "memset", 70, 10)
    add_kernel(derived, "conv", 20, 40).stats.add(metadata_id=1, ref_value=2)
    (one,) = op_times.list_passes(read_profile(space))
    assert microseconds(one) == {"conv": (40, 1), "on_host": (7, 1)}
