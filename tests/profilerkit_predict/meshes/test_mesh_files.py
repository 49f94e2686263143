"""Tasks of a step, and the files of them: Chakra execution traces and the timeline for Perfetto."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chakra_schema import GlobalMetadata, Node, read_messages

from profilerkit import DeviceInfo, ModelTrace, NotOfferedError
from profilerkit.devices import Figure
from profilerkit.errors import ArgumentError
from profilerkit.trace.records import LayerRecord, OpRecord, TensorInfo
from profilerkit_predict.meshes import execution_traces, step_timeline
from profilerkit_predict.meshes.layout import list_group
from profilerkit_predict.meshes.records import Collective, PlacedCollective, RankTrace
from profilerkit_predict.meshes.step_timeline import schedule, write_step_timeline
from profilerkit_predict.meshes.tasks import Task, list_tasks

MESH = {"pp": 2, "dp": 2, "tp": 2}


def operator(layer: str, phase: str = "forward", flops: int = 100) -> OpRecord:
    return OpRecord("matmul", layer, 0, flops // 2, flops, 30, 10, (TensorInfo((1,), "float32"),), phase)


def collective(layer: str, kind: str, dimension: str, size: int, phase: str = "forward", overlaps: bool = False) -> Any:
    return Collective(layer, kind, dimension, 2, phase, 1, size, size, overlaps)


def make_step() -> RankTrace:
    """Two blocks: weights are gathered before each, activations reduced in each, gradients scattered after each."""
    nothing = OpRecord("exchange", "", 0, 0, 0, 0, 0, ())
    order: list[Any] = [
        collective("a", "all-gather", "dp", 800, overlaps=True),
        operator("a.up"),
        operator("a.up", flops=20),
        collective("b", "all-gather", "dp", 800, overlaps=True),
        collective("a.down", "all-reduce", "tp", 64),
        operator("a.down"),
        operator("b.up"),
        collective("b", "send", "pp", 64),
        operator("b.up", "backward", 200),
        collective("b", "reduce-scatter", "dp", 800, "backward", overlaps=True),
        operator("a.up", "backward", 200),
    ]
    placed = [PlacedCollective(index, item) for index, item in enumerate(order) if isinstance(item, Collective)]
    operators = tuple(nothing if isinstance(item, Collective) else item for item in order)
    trace = ModelTrace((LayerRecord("", "Net", 0),), operators, notes=("nothing is exchanged over ep",))
    return RankTrace(trace, exchanged=tuple(placed))


def test_tasks_wait_for_what_they_need() -> None:
    """The weights of the next block come while this one works; its own first operator waits for them."""
    tasks = list_tasks(make_step())
    assert [(task.name, task.after) for task in tasks] == [
        ("a forward all-gather over dp", []),
        ("a.up forward", [0]),
        ("b forward all-gather over dp", []),  # one task ahead of the last, and there is none before that
        ("a.down forward all-reduce over tp", [1]),
        ("a.down forward", [3]),
        ("b.up forward", [4, 2]),
        ("b forward send over pp", [5]),
        ("b.up backward", [6]),
        ("b backward reduce-scatter over dp", [7]),
        ("a.up backward", [7]),
    ]
    assert (tasks[1].flops, tasks[1].bytes) == (120, 80)


def test_step_of_unknown_order() -> None:
    step = make_step()
    with pytest.raises(NotOfferedError, match="not known in which order"):
        list_tasks(replace(step, unknown={"c10d::new_": 1}))


def record_ranks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ranks that are profiled from now on, each of which takes the same step."""
    profiled: list[int] = []

    def profile(*given: Any, rank: int, **more: Any) -> Any:
        profiled.append(rank)
        return {"rank_step": make_step()}

    monkeypatch.setattr(execution_traces, "profile", profile)
    return profiled


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    profiled = record_ranks(monkeypatch)
    paths = execution_traces.write_execution_traces("train.py:build", mesh=MESH, folder=tmp_path / "new")
    assert profiled == [0, 4]  # one rank of each stage
    return paths


@pytest.mark.parametrize(("differ", "traced"), [("tp", [0, 1, 4, 5]), (["dp", "tp"], list(range(8)))])
def test_ranks_that_differ_are_traced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, differ: Any, traced: list[int]
) -> None:
    """Stages are found by what is sent, whatever they are called: here along "pp"."""
    profiled = record_ranks(monkeypatch)
    execution_traces.write_execution_traces("train.py:build", mesh=MESH, folder=tmp_path, differ=differ)
    assert profiled == traced
    with pytest.raises(ArgumentError, match=r"differ=\['ep'\]: give dimensions of the mesh, pp, dp, tp"):
        execution_traces.write_execution_traces("train.py:build", mesh=MESH, folder=tmp_path, differ=["ep"])


def test_execution_traces_by_the_schema(traces: list[Path]) -> None:
    assert [path.name for path in traces] == [f"rank.{rank}.et" for rank in range(8)]
    groups = json.loads((traces[0].parent / "comm_groups.json").read_text())
    for rank, path in enumerate(traces):
        version, *nodes = read_messages(path.read_bytes())
        assert isinstance(version, GlobalMetadata) and version.version == "0.0.4"
        assert [node.id for node in nodes] == list(range(10))
        assert [list(node.data_deps) for node in nodes] == [task.after for task in list_tasks(make_step())]
        by_name = {node.name: read_attributes(node) for node in nodes}
        assert by_name["a.up forward"] == {"is_cpu_op": False, "num_ops": 120, "tensor_size": 80}
        gathered, reduced = by_name["a forward all-gather over dp"], by_name["a.down forward all-reduce over tp"]
        assert (gathered["comm_type"], gathered["comm_size"]) == (2, 400)  # what each of two ranks gives
        assert groups[gathered["pg_name"]] == list_group(rank, MESH, ["dp"])
        assert (reduced["comm_type"], reduced["comm_size"]) == (0, 64)
        assert groups[reduced["pg_name"]] == list_group(rank, MESH, ["tp"])
        sent = by_name["b forward send over pp"]
        assert (sent["comm_src"], sent["comm_dst"], sent["comm_size"]) == (rank, (rank + 4) % 8, 64)
    assert sorted(map(tuple, groups.values())) == sorted(
        {tuple(list_group(rank, MESH, [name])) for rank in range(8) for name in ("dp", "tp")}
    )
    types = {node.name: node.type for node in nodes}
    assert types["a.up forward"] == 4 and types["b forward send over pp"] == 5
    assert types["b backward reduce-scatter over dp"] == 7


def read_attributes(node: Node) -> dict[str, Any]:
    return {attribute.name: getattr(attribute, attribute.WhichOneof("value")) for attribute in node.attr}


def test_group_of_all_ranks_has_no_name() -> None:
    groups: execution_traces.Groups = {}
    execution_traces.encode_trace(
        [Task("", "forward", (), collective("", "all-reduce", "dp", 8))], 0, {"dp": 2}, groups
    )
    assert groups == {}


def test_exchange_that_the_format_lacks() -> None:
    exchanged = (PlacedCollective(0, collective("a", "permute", "tp", 8)),)
    [task] = list_tasks(RankTrace(ModelTrace((LayerRecord("", "Net", 0),)), exchanged=exchanged))
    with pytest.raises(ArgumentError, match="a forward permute over tp: a Chakra execution trace has no such exchange"):
        execution_traces.encode_trace([task], 0, MESH, {})


@pytest.mark.parametrize(
    ("number", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**63, "80808080808080808001")]
)
def test_numbers_of_protocol_buffers(number: int, encoded: str) -> None:
    assert execution_traces._encode_number(number).hex() == encoded  # 300 is the example of the format's own page


def test_schedule_by_hand() -> None:
    """Work takes 2 s each, collectives 3 s: one after the other, as they share the links."""
    tasks = list_tasks(make_step())
    pieces = schedule(tasks, [2.0 if task.collective is None else 3.0 for task in tasks])
    assert [(piece.lane, piece.start, piece.seconds) for piece in pieces] == [
        ("collectives", 0, 3),
        ("waiting", 0, 3),
        ("work", 3, 2),
        ("collectives", 3, 3),
        ("collectives", 6, 3),  # the all-reduce was ready at 5
        ("waiting", 5, 4),
        ("work", 9, 2),
        ("work", 11, 2),
        ("collectives", 13, 3),
        ("waiting", 13, 3),
        ("work", 16, 2),
        ("collectives", 18, 3),
        ("work", 18, 2),
        ("waiting", 20, 1),  # the gradients of the last block
    ]
    assert [piece.task.name for piece in pieces if piece.lane == "waiting"] == [
        "a forward all-gather over dp",
        "a.down forward all-reduce over tp",
        "b forward send over pp",
        "b backward reduce-scatter over dp",
    ]
    assert pieces[-1].task is pieces[-3].task, "the last wait is for those gradients, and not for the work at 18"


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("network", value) for value in (0, -5.0, "fast")), *(("ranks_per_node", value) for value in (0, -1, 1.5))],
)
def test_timeline_of_links_that_cannot_be(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"{name}={value!r}: give"):
        write_step_timeline("train.py:build", mesh=MESH, on="h100", path=tmp_path / "none.json", **{name: value})


def test_timeline_for_perfetto(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Profiled(dict[str, Any]):
        name = "build"

    monkeypatch.setattr(step_timeline, "profile", lambda *given, **arguments: Profiled(rank_step=make_step()))
    toy = DeviceInfo(
        "toy",
        dense_peaks={"float32": Figure(10.0, "an example")},
        figures={"link_bandwidth": Figure(200.0, "an example"), "memory_bandwidth": Figure(1e9, "an example")},
    )
    unlinked = replace(toy, figures={})
    with pytest.raises(ArgumentError, match="the bandwidth between devices of toy is not known"):
        write_step_timeline("train.py:build", mesh=MESH, on=unlinked, path=tmp_path / "none.json")
    path = tmp_path / "step.json"
    seconds = write_step_timeline("train.py:build", mesh=MESH, on=toy, path=path, rank=1)
    written = json.loads(path.read_text())
    assert written["otherData"]["notes"] == ["nothing is exchanged over ep"]
    events = written["traceEvents"]
    names = [event["args"]["name"] for event in events if event["ph"] == "M"]
    assert names == ["rank 1 of build on toy", "work", "waiting", "collectives"]
    slices = [event for event in events if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in slices) == pytest.approx(seconds * 1e6)
    work = sum(event["dur"] for event in slices if event["cat"] == "work")
    assert work == pytest.approx(2 * sum(op.macs for op in make_step().trace.operators) / 10 * 1e6)
    links = sum(event["dur"] for event in slices if event["cat"] == "collectives")
    assert links == pytest.approx((3 * 800 + 2 * 64) / 100 * 1e6)
