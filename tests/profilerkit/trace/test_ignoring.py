"""Leaving layers out of the counts, whatever the backend."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from replacing import replace

from profilerkit import ArgumentWarning, InputError, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel
from profilerkit.trace.ignoring import without_layers
from profilerkit.trace.records import (
    LayerCall,
    LayerRecord,
    MemoryTimeline,
    ModelTrace,
    OpRecord,
    TensorInfo,
    WeightRecord,
)
from profilerkit_metrics.attended_macs import ComputeAttendedMacs


class Attention:
    """Stands for a class of layers."""


def model() -> FakeModel:
    return FakeModel(
        [
            FakeLayer("", type="Net", macs=1, flops=2),
            FakeLayer("stem", params=10, macs=100, flops=200, type="Conv2d", activation_bytes=8),
            FakeLayer("blocks", type="ModuleList", calls=0),
            FakeLayer("blocks.0", type="Block"),
            FakeLayer("blocks.0.attention", params=20, macs=300, flops=600, type="Attention", activation_bytes=64),
            FakeLayer("blocks.0.conv", params=30, macs=500, flops=1000, type="Conv2d", trainable=False),
            FakeLayer("blocks.0.attention.conv", params=40, macs=700, flops=1400, type="Conv2d"),
        ]
    )


def report(ignore: Any, **kwargs: Any) -> Any:
    return profile(model(), None, backend=FakeBackend(), input_shape=(1,), ignore=ignore, leave_out=TIMES, **kwargs)


TIMES = ("execution_time", "throughput")


@pytest.mark.parametrize(
    ("ignore", "left", "macs", "params", "trainable"),
    [
        ([], 7, 1601, 100, 70),
        (["Conv2d"], 4, 1 + 300, 20, 20),
        ("Conv2d", 4, 1 + 300, 20, 20),
        ([Attention], 5, 1 + 100 + 500, 40, 10),
        (Attention, 5, 1 + 100 + 500, 40, 10),
        (["blocks.*"], 3, 1 + 100, 10, 10),
        (["blocks"], 2, 1 + 100, 10, 10),
        (["*.conv"], 5, 1 + 100 + 300, 30, 30),
        (["stem", "blocks.?.attention"], 4, 1 + 500, 30, 0),
        (["*"], 1, 1, 0, 0),
    ],
)
def test_layers_are_left_out_by_type_and_by_path(
    ignore: Any, left: int, macs: int, params: int, trainable: int
) -> None:
    found = report(ignore)
    assert (len(found.layers), found["macs"], found["flops"]) == (left, macs, 2 * macs)
    assert (found["total_params"], found["trainable_params"], found["model_size"]) == (params, trainable, 4 * params)
    assert sum(row["own_macs"] for row in found.layers) == macs


def test_memory_stays_that_of_the_whole_model() -> None:
    assert report(["Attention"])["memory_footprint"] == report([])["memory_footprint"] == 64 + 4 * 100


def test_the_report_says_what_was_left_out() -> None:
    notes = report([Attention, "stem"]).notes
    assert notes[0] == (
        "left out by ignore=: 3 layers, those inside included (Attention matches 1, stem matches 1); parameters, size, "
        "MACs, FLOPs and the table of layers lack them, memory and measured times do not"
    )
    assert not any("ignore=" in note for note in report([]).notes)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("Conv2D", r"; did you mean 'Conv2d'\?"),
        ("blocks.7.attention", r"; did you mean 'blocks.0.attention'\?"),
        ("alias", "; a layer with several names is known by its first"),
    ],
)
def test_a_pattern_that_matches_nothing_is_warned_of(pattern: str, hint: str) -> None:
    with pytest.warns(ArgumentWarning, match=f"ignore='{pattern}' matches no layer{hint}") as warned:
        found = report([pattern])
    assert warned[0].filename == __file__, "the line of the caller, and none of profilerkit's"
    assert found["macs"] == 1601
    assert f"{pattern} matches 0" in found.notes[0]


def test_the_model_itself_is_never_left_out() -> None:
    with pytest.warns(ArgumentWarning, match=r"ignore='Net' matches no layer \(the model itself is never left out\)"):
        assert report(["Net"])["macs"] == 1601


@pytest.mark.parametrize("wrong", [[3], [None], [""], [["Conv2d"]]])
def test_what_is_neither_a_class_nor_a_text_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"ignore has .*; give classes of layers, their names or patterns of paths"):
        report(wrong, strict=True)


def test_asking_with_other_layers_left_out_counts_anew() -> None:
    from profilerkit import Profiler

    profiler = Profiler(model(), inputs=[1], backend=FakeBackend()).register_defaults()
    assert profiler.compute_status("macs", ignore=["Conv2d"]) == 301
    assert profiler.compute_status("macs") == 1601


def test_without_inputs_parameters_are_left_out_all_the_same() -> None:
    found = profile(model(), backend=FakeBackend(), ignore=["Conv2d"], metrics=["total_params"])
    assert found["total_params"] == 20


def made(*operators: OpRecord, uncounted: dict[str, int]) -> ModelTrace:
    weight = WeightRecord("weight", 0, 6, 24, "float32", trainable=True)
    info = TensorInfo((1,), "float32")
    call = LayerCall((info,), (info,), ("", 0))
    layers = (
        LayerRecord("", "Net", 0, calls=(LayerCall((info,), (info,)),)),
        LayerRecord("a", "Tied", 1, (weight,), calls=(call,)),
        LayerRecord("b", "Head", 1, (weight,), calls=(LayerCall((info,), (info,), ("a", 0)),)),
    )
    incomplete = tuple(replace(op, missing=op.operator if op.operator in uncounted else "") for op in operators)
    return ModelTrace(layers, incomplete, MemoryTimeline(24, 4, tuple(8 for _ in operators)), uncounted)


def op(name: str, layer: str, macs: int = 0) -> OpRecord:
    return OpRecord(name, layer, 0, macs, 2 * macs, 4, 4, ())


def test_operators_that_only_ignored_layers_hold_do_not_make_a_count_partial() -> None:
    trace = made(op("x::attend", "a"), op("x::attend", "b"), op("aten::mm", "b", 5), uncounted={"x::attend": 2})
    assert without_layers(trace, ["a"]).uncounted == {"x::attend": 1}
    assert without_layers(trace, ["a", "b"]).uncounted == {}
    mixed = made(op("x::attend", "a", 7), op("x::attend", "b"), uncounted={"x::attend": 1})
    assert without_layers(mixed, ["a"]).uncounted == {"x::attend": 1}  # nobody says which of the two it is


def test_tied_weights_stay_where_another_layer_holds_them() -> None:
    trace = made(uncounted={})
    assert trace.total_params == 6
    assert without_layers(trace, ["a"]).total_params == 6
    assert without_layers(trace, ["*"]).total_params == 0


def test_the_weights_that_memory_holds_are_those_of_the_whole_model() -> None:
    trace = without_layers(made(uncounted={}), ["*"])
    assert [layer.path for layer in trace.left_out] == ["a", "b"]
    assert [weight.count for weight in trace.parameters_in_memory] == [6]  # tied: once


def test_what_remains_is_a_whole_trace() -> None:
    trace = without_layers(made(op("aten::mm", "a", 5), op("aten::mm", "b", 6), uncounted={}), "a")
    assert len(trace.operators) == len(trace.memory.live_bytes) == 2
    assert [(found.layer, found.macs, found.bytes_written) for found in trace.operators] == [("", 0, 0), ("b", 6, 4)]
    assert trace.layer("b").calls[0].caller is None
    assert [(row["path"], row["macs"]) for row in trace.call_table] == [("", 0), ("b", 6)]


def test_nothing_to_leave_out_changes_nothing() -> None:
    trace = made(uncounted={})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert without_layers(trace, ()) is trace


def test_attention_that_is_left_out_is_in_no_metric_of_attention() -> None:
    """Of 100 MACs it attends to 60, and another one has a mask of unknown values: both are gone, and 7 MACs remain."""
    causal = replace(op("sdpa::attention", "a", 100), attended_macs=60)
    masked = replace(op("sdpa::attention", "a", 100), is_masked=True)
    trace = without_layers(made(causal, masked, op("aten::mm", "b", 7), uncounted={}), "a")
    noted = ComputeAttendedMacs()(trace)
    assert (trace.macs, noted.value) == (7, 7)
    assert noted.note == "no operator is attention; where it is written as products, it counts in full"


def test_an_operator_that_is_left_out_says_of_its_work_what_one_without_work_does() -> None:
    """Whatever field of work is added: it costs what a record with nothing but its tensors and its place costs."""
    worked = OpRecord(
        "x",
        "a",
        0,
        5,
        9,
        4,
        4,
        (TensorInfo((2,), "int8"),),
        "backward",
        True,
        3,
        True,
        "int8",
        ("main", "3"),
        (0,),
        "x",
    )
    (free,) = without_layers(made(worked, uncounted={}), "a").operators
    idle = OpRecord("x", "", -1, 0, 0, 0, 0, worked.outputs, "backward", True, node=("main", "3"), reads=(0,))
    assert free == idle


def test_what_is_left_out_twice_stays_in_memory() -> None:
    trace = without_layers(without_layers(made(uncounted={}), "a"), "b")
    assert [layer.path for layer in trace.left_out] == ["a", "b"]
    assert [weight.count for weight in trace.parameters_in_memory] == [6]
