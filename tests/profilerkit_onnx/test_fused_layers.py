"""What onnxruntime makes of a graph, and how its operators are joined with the layers of the written one."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import numpy as np
from onnx import ModelProto, TensorProto, helper
from onnx_architectures import BUILDERS, build_mlp
from onnx_graphs import BACKEND, F, make_graph, make_model
from releases import as_numbers

from profilerkit import ArgumentError, InputError, ModelInputs, NotOfferedError, compare, profile
from profilerkit.backend_kit.ran_nodes import time_layers, time_operators
from profilerkit.testing import ARCHITECTURES
from profilerkit_onnx import optimize
from profilerkit_onnx.running import profiled
from profilerkit_onnx.running.node_origins import Origin, find_origins
from profilerkit_onnx.running.timing import time_nodes

needs_arena = pytest.mark.skipif(
    as_numbers(version("onnxruntime")) < (1, 23), reason="the profiler of this onnxruntime does not tell of its arena"
)

X = ModelInputs(np.ones((2, 20), F))
CHANNELS = 32  # a multiple of every block of the blocked layout


def conv_net() -> ModelProto:
    """A convolution, a batch norm and a ReLU, which become one operator; then a sum with the input, and a mean."""
    random = np.random.default_rng(0)
    weights = {
        "conv.weight": random.normal(size=(CHANNELS, CHANNELS, 3, 3)).astype(F),
        **{f"norm.{name}": np.abs(random.normal(size=CHANNELS)).astype(F) for name in ("w", "b", "mean", "var")},
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight"], ["c"], name="/conv/Conv", pads=[1] * 4),
        helper.make_node(
            "BatchNormalization", ["c", *(name for name in weights if "norm" in name)], ["n"], name="/norm/Norm"
        ),
        helper.make_node("Relu", ["n"], ["r"], name="/act/Relu"),
        helper.make_node("Add", ["r", "x"], ["s"], name="/sum/Add"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], name="/pool/Pool"),
    ]
    return make_model(nodes, {"x": (F, ["n", CHANNELS, 8, 8])}, weights, opset=20)


IMAGES = ModelInputs(np.ones((2, CHANNELS, 8, 8), F))
CONVOLUTION = 2 * CHANNELS * 64 * CHANNELS * 9


def test_what_the_exporter_tells_of_weights_is_still_there_in_the_graph_as_run() -> None:
    """Three are scaled by a parameter that it has given dimensions, and shifted by a buffer."""
    scale = helper.make_node("Mul", ["x", "val_2"], ["h"], name="scale")
    call = "%norm : call_function[target=torch.ops.aten.group_norm.default](args = (%x, 1, %p_g))"
    scale.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    shift = helper.make_node("Add", ["h", "table"], ["y"], name="shift")
    weights = {"val_2": np.full((1, 3), 2, F), "table": np.full(3, 5, F)}
    model = make_model([scale, shift], {"x": np.ones((2, 3), F)}, weights, opset=20)
    signature = "p_g: PARAMETER target='g'\nb_table: BUFFER target='table'"
    model.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=signature)
    assert BACKEND.trace(model, None).total_params == 3
    assert BACKEND.trace(optimize(model), None).total_params == 3


# Origins ----------------------------------------------------------------------------------------------------------


def rewritten(*nodes: tuple[str, list[str], list[str], str]) -> ModelProto:
    return make_model(
        [helper.make_node(op, read, made, name=name) for op, read, made, name in nodes], {"x": np.ones(2, F)}
    )


WRITTEN = rewritten(
    ("Conv", ["x", "w"], ["c"], "/conv"),
    ("BatchNormalization", ["c", "s"], ["n"], "/norm"),
    ("Relu", ["n"], ["r"], "/act"),
    ("Add", ["r", "x"], ["y"], "/sum"),
)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([("Conv", ["x", "w2"], ["n"], "/conv"), ("Relu", ["n"], ["r"], "/act")], [((0, 1), 1), ((2,), 2)]),
        ([("FusedConv", ["x", "w2", "b", "x"], ["y"], "any")], [((0, 1, 2, 3), 3)]),
        (  # a convolution in the blocked layout, what takes its result out of it for the sum, and what keeps its name
            [
                ("Conv", ["x", "w2"], ["t1"], "r_nchwc"),
                ("Out", ["t1"], ["t2"], "o"),
                ("Add", ["t2", "x"], ["t3"], "/sum"),
            ],
            [((0, 1, 2), 2), ((), 3), ((3,), 3)],
        ),
        ([("Copy", ["x"], ["t"], "added"), ("Conv", ["t", "w"], ["c"], "/conv")], [((), 0), ((0,), 0)]),
        (  # one product in the place of two nodes, between others that only move data
            [
                ("Reshape", ["x", "shape"], ["t1"], "in"),
                ("Gemm", ["t1", "w", "s"], ["t2"], "any"),
                ("Reshape", ["t2", "shape"], ["n"], "out"),
            ],
            [((), 1), ((0, 1), 1), ((), 1)],
        ),
        (  # one product whose halves are two written values
            [
                ("Gemm", ["x", "w2"], ["t1"], "any"),
                ("Split", ["t1"], ["t2", "t3"], "in two"),
                ("Reshape", ["t2", "shape"], ["c"], "first"),
                ("Squeeze", ["t3", "axis"], ["n"], "second"),
            ],
            [((0, 1), 0), ((), 0), ((), 0), ((), 1)],
        ),
        ([("Relu", ["a"], ["b"], "of nothing that was written")], [((), None)]),
        (  # a call of a function in the layer behind another, as the two nodes of the function
            [
                ("Conv", ["x", "w2"], ["n"], "/conv"),
                ("Neg", ["n"], ["t1"], "inlined"),
                ("Relu", ["t1"], ["r"], "inlined too"),
            ],
            [((0, 1), 1), ((), 2), ((2,), 2)],
        ),
        (  # computed twice, given away once
            [("Conv", ["x", "w"], ["n"], "/conv"), ("Other", ["x"], ["n"], "again")],
            [((0, 1), 1), ((), 1)],
        ),
    ],
)
def test_nodes_do_the_work_between_the_values_that_remain(
    nodes: list[Any], expected: list[tuple[tuple[int, ...], int | None]]
) -> None:
    assert find_origins(WRITTEN, rewritten(*nodes)) == [Origin(*value) for value in expected]


# Layers -----------------------------------------------------------------------------------------------------------


def test_operators_that_were_fused_belong_to_several_layers_and_say_so() -> None:
    """The convolution has the time of all three; each layer says what became of it."""
    times = {time.path: time for time in time_layers(time_nodes(conv_net(), IMAGES, "extended", "cpu", 3))}
    assert list(times) == ["", "conv", "norm", "act", "sum", "pool"]
    assert times["conv"].missing == "has the time of 'norm', 'act' too, which the runtime has fused with it" or (
        times["conv"].missing == "has the time of 'norm', 'act', 'sum' too, which the runtime has fused with it"
    )
    for path in ("norm", "act"):
        assert times[path].missing == "is fused into 'conv', which has the time"
        assert times[path].own_forward == (0.0, 0.0, 0.0)
    assert sum(times["conv"].own_forward) > 0
    assert (times[""].missing, times["pool"].missing) == ("", "")


def test_a_product_of_three_dimensions_is_of_its_own_layer() -> None:
    """The runtime makes ``Reshape``, ``Gemm``, ``Reshape`` of it: the time and 2 * 5 * 16 * 32 products are of "fc"."""
    weights = {"fc.weight": np.ones((16, 32), F), "fc.bias": np.ones(32, F)}
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"], name="/act/Sigmoid"),
        helper.make_node("MatMul", ["s", "fc.weight"], ["m"], name="/fc/MatMul"),
        helper.make_node("Add", ["m", "fc.bias"], ["y"], name="/fc/Add"),
    ]
    inputs = ModelInputs(np.ones((2, 5, 16), F))
    report = profile(make_model(nodes, {"x": (F, [2, 5, 16])}, weights, opset=20), inputs, metrics=["operator_table"])
    macs = {(row["layer"], row["operator"].rpartition("::")[2]): row["macs"] for row in report["operator_table"]}
    [product] = [key for key, value in macs.items() if value]
    assert product[0] == "fc" and product[1] in ("Gemm", "MatMul", "FusedGemm")
    assert macs[product] == 2 * 5 * 16 * 32
    assert {layer for layer, operator in macs if operator != "Reshape"} == {"act", "fc"}


def test_without_rewriting_every_layer_has_its_own_time() -> None:
    times = {time.path: time for time in time_layers(time_nodes(conv_net(), IMAGES, "none", "cpu", 2))}
    assert not any(time.missing for time in times.values())
    assert [time.calls for time in times.values()] == [1] * 6


def test_layers_and_what_lies_between_them_make_up_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: list[list[float]] = []
    passes = profiled.profile_passes

    def noted(*arguments: Any, **further: Any) -> Any:
        made = passes(*arguments, **further)
        seconds.append([item.seconds for item in made])
        return made

    monkeypatch.setattr("profilerkit_onnx.running.timing.profile_passes", noted)
    times = time_layers(time_nodes(build_mlp(), X, "all", "cpu", 4))
    assert [sum(values) for values in zip(*(time.own_forward for time in times), strict=True)] == pytest.approx(
        seconds[0]
    )


def test_a_layer_table_through_a_profile() -> None:
    report = profile(conv_net(), IMAGES, metrics=["layer_times"], passes=2)
    table = report["layer_times"]
    assert {row["path"] for row in table} == {"", "conv", "norm", "act", "sum", "pool"}
    assert all(row["backward_seconds"] is None for row in table)
    assert report.status("layer_times").completeness.value == "complete"


# Operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
@pytest.mark.parametrize("name", list(BUILDERS))
def test_the_operators_of_every_level_do_the_work_of_the_written_graph(name: str, level: str) -> None:
    """All of its multiply-accumulates, though the operators have other names and are fewer."""
    from profilerkit.backend_kit.operator_join import operator_table

    model = BUILDERS[name]()
    inputs = BACKEND.example_inputs(model, 2)
    assert inputs is not None
    times = time_operators(time_nodes(model, inputs, level, "cpu", 1))
    table = operator_table(times, {"forward": BACKEND.trace(model, inputs)})
    assert [row["operator"] for row in table if row["macs"] is None] == []
    assert sum(row["macs"] for row in table) == ARCHITECTURES[name].macs(2)


def test_a_fused_operator_has_the_work_of_all_its_layers() -> None:
    """The convolution, two operations an element of the norm and one of the ReLU, whatever the runtime calls it."""
    report = profile(conv_net(), IMAGES, metrics=["operator_table"], passes=2)
    [row] = [row for row in report["operator_table"] if row["layer"] == "conv"]
    elements = 2 * CHANNELS * 64
    assert row["macs"] == CONVOLUTION
    assert row["flops"] in (2 * CONVOLUTION + 3 * elements, 2 * CONVOLUTION + 4 * elements)  # with the sum, or without
    assert row["operator"].endswith("Conv") and row["operator"].startswith("com.microsoft")
    assert "of layer 'conv' does the work of 'norm', 'act'" in report.status("operator_table").note


def test_the_trace_of_the_runtime_is_written_where_one_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profile(build_mlp(), X, metrics=["operator_table"], passes=2, export=path)
    assert sum(event["name"] == "model_run" for event in json.loads(path.read_text())) == 3  # one to warm up


def test_a_trace_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"export='.*nowhere.*trace\.json': "):
        time_nodes(build_mlp(), X, "all", "cpu", 1, tmp_path / "nowhere" / "trace.json")


def test_the_inside_of_a_loop_is_timed_with_the_loop() -> None:
    body = make_graph(
        [
            helper.make_node("Relu", ["state"], ["next"], name="inner"),
            helper.make_node("Identity", ["go"], ["on"], name="inner_too"),
        ],
        ["step", "go", "state"],
        ["on", "next"],
    )
    for values, kinds in ((body.input, (7, 9, 1)), (body.output, (9, 1))):
        for value, kind in zip(values, kinds, strict=True):
            value.type.CopyFrom(helper.make_tensor_type_proto(kind, ["n", 4] if kind == 1 else []))
    nodes = [helper.make_node("Loop", ["times", "yes", "x"], ["y"], name="/loop/Loop", body=body)]
    model = make_model(nodes, {"x": (F, ["n", 4])}, {"times": np.asarray(5), "yes": np.asarray(True)}, opset=20)
    times = time_operators(time_nodes(model, ModelInputs(np.ones((2, 4), F)), "all", "cpu", 2))
    assert [(op.operator, op.layer, op.calls) for op in times.operators] == [("Loop", "loop", 1)]


def test_events_inside_another_are_its_own() -> None:
    def event(name: str, start: int, seconds: int, op: str) -> dict[str, Any]:
        return {"name": name + "_kernel_time", "cat": "Node", "ts": start, "dur": seconds, "args": {"op_name": op}}

    events = [
        event("inner", 12, 3, "Relu"),
        event("loop", 10, 20, "Loop"),
        event("after", 30, 1, "Add"),
        {"name": "model_run", "cat": "Session", "ts": 9, "dur": 25, "args": {}},
    ]
    [single] = profiled.read_passes(events)
    assert ([kernel.name for kernel in single.kernels], single.seconds) == (["loop", "after"], 25e-6)


# The graph as it is run -------------------------------------------------------------------------------------------


def test_the_graph_as_it_is_run_has_the_layers_and_the_work_of_the_written_one() -> None:
    model = conv_net()
    written, run = (BACKEND.trace(item, IMAGES) for item in (model, optimize(model, "extended")))
    assert written.macs == run.macs == CONVOLUTION
    assert written.flops - run.flops == 2 * 2 * CHANNELS * 64 - 2 * CHANNELS * 64  # the norm is a bias now
    assert [layer.path for layer in run.layers][:2] == ["", "conv"]


def test_both_stand_in_one_comparison() -> None:
    model = build_mlp()
    comparison = compare(model, optimize(model), inputs=X, names=["as written", "as run"], metrics=["macs", "flops"])
    assert [report.name for report in comparison.reports] == ["as written", "as run"]
    assert comparison.ratio("macs").value == 1


def test_a_graph_as_it_is_run_runs_itself() -> None:
    model = build_mlp()
    outputs = []
    for item in (model, optimize(model, "extended")):
        with BACKEND.run(item, X) as run:
            outputs.append(run())
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)


def test_constants_that_the_runtime_has_computed_with_are_no_inputs_of_the_graph_as_run() -> None:
    """An old file declares its constants as inputs too; the runtime adds two of them before any run."""
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Mul", ["x", "c"], ["y"])]
    constants = {name: np.full(3, 2, F) for name in "ab"}
    model = make_model(nodes, {"x": np.ones(3, F), **constants}, constants, opset=8)
    model.ir_version = 3
    with BACKEND.run(optimize(model), ModelInputs(x=np.ones(3, F))) as run:
        assert run().tolist() == [4, 4, 4]


def test_an_unknown_level_is_said() -> None:
    with pytest.raises(ArgumentError, match="level='most': give one of 'all', 'extended', 'basic', 'none'"):
        optimize(build_mlp(), level="most")


# Memory -----------------------------------------------------------------------------------------------------------


@needs_arena
def test_memory_is_what_the_operators_had_at_once() -> None:
    """Two products, whose results the next one needs: (64, 256) floats, then (64, 512) beside it; and the input."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["m"]),
        helper.make_node("MatMul", ["m", "b"], ["n"]),
        helper.make_node("MatMul", ["n", "c"], ["y"]),
    ]
    weights = {"a": np.ones((16, 256), F), "b": np.ones((256, 512), F), "c": np.ones((512, 4), F)}
    model = make_model(nodes, {"x": (F, ["n", 16])}, weights, opset=20)
    inputs = ModelInputs(np.ones((64, 16), F))
    assert BACKEND.measure_memory(model, inputs) == 4 * 64 * (16 + 256 + 512)
    weights_too = profile(model, inputs, metrics=["measured_memory"])["measured_memory"]
    assert weights_too == 4 * 64 * (16 + 256 + 512) + 4 * (16 * 256 + 256 * 512 + 512 * 4)


@needs_arena
def test_inputs_that_are_bound_leave_the_memory_of_outputs_to_each_pass() -> None:
    """Eight numbers of two bytes come in, eight of four go out."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.ones((2, 4), ml_dtypes.bfloat16)
    model = make_model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": x})
    assert BACKEND.measure_memory(model, ModelInputs(x=x)) == 8 * 2 + 8 * 4


@needs_arena
def test_a_model_of_a_sequence_runs() -> None:
    """Two tensors of six floats come in, and one goes out."""
    nodes = [helper.make_node("SequenceAt", ["s", "first"], ["y"])]
    model = make_model(nodes, {}, {"first": np.asarray(0)})
    model.graph.input.append(helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3]))
    inputs = ModelInputs(s=[np.ones((2, 3), F), np.zeros((2, 3), F)])
    with BACKEND.run(model, inputs) as run:
        assert run().sum() == 6
    assert BACKEND.measure_memory(model, inputs) == 3 * 6 * 4


def test_where_the_arena_does_not_tell_memory_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [profiled.ProfiledPass([profiled.RanKernel("a", "a", 1.0, {})], 1.0)]
    monkeypatch.setattr(profiled, "profile_passes", lambda *arguments: silent)
    with pytest.raises(NotOfferedError, match="does not tell what its arena has given out; a newer one does"):
        BACKEND.measure_memory(build_mlp(), X)


def test_inputs_that_do_not_fit_are_said_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"has the shape \(2, 21\), and the model declares"):
        time_nodes(build_mlp(), ModelInputs(np.ones((2, 21), F)), "all", "cpu", 1)
