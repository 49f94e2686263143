"""Times by operator and layer, from LiteRT's own profiler, in a process of its own: what ran covers what is written."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from time_limits import run_python

pytest.importorskip("ai_edge_litert")
import numpy as np
from litert_architectures import BUILDERS
from litert_models import GraphBuilder, options, write_model

from profilerkit import ModelFailedError, ModelInputs, NotOfferedError, profile
from profilerkit.backend_kit.operator_join import operator_table
from profilerkit_litert import LiteRTBackend, LiteRTModel, compat
from profilerkit_litert.running import native_passes, timing
from profilerkit_litert.running.profiled import ProfiledPass, RanOperator, profile_passes
from profilerkit_litert.running.timing import map_operators
from profilerkit_litert.trace.tracing import read_layers

BACKEND = LiteRTBackend()
F = np.float32
ROW = ModelInputs(np.ones((1, 4), F))


def has_profiler() -> bool:
    try:
        return compat.find_library().is_file()
    except NotOfferedError:
        return False


needs_profiler = pytest.mark.skipif(not has_profiler(), reason="the installed ai-edge-litert has no such C library")


def write(builder: GraphBuilder, *others: GraphBuilder, names: Sequence[str] = ("serving",)) -> LiteRTModel:
    graphs = [builder, *others]
    outputs = [{"y": len(one.graph.tensors) - 1} for one in graphs]
    return LiteRTModel(write_model(graphs, outputs, {name: index for index, name in enumerate(names)}))


def chain(*operators: str) -> LiteRTModel:
    """Return operators in a row on 4 floats; a product is one with a weight of 4 x 4."""
    builder = GraphBuilder()
    x = builder.input("x", (1, 4))
    for place, operator in enumerate(operators):
        name = f"net_1/layer{place}_1/{operator}"
        if operator == "FULLY_CONNECTED":
            weight = builder.constant(f"{name}/weight", np.ones((4, 4), F))
            x = builder.add(operator, [x, weight, -1], (1, 4), name=name, options=options("FullyConnected"))
        elif operator == "RESHAPE":
            x = builder.add(
                operator, [x, builder.constant(f"{name}/shape", np.array([1, 4], np.int32))], (1, 4), name=name
            )
        else:
            x = builder.add(operator, [x], (1, 4), name=name)
    return write(builder)


def cover(model: LiteRTModel, *ran: str | int) -> list[list[str]]:
    """Return what each operator covers: one of XNNPACK's by its name, one of LiteRT's own by its index."""
    told = [RanOperator(str(name), name if isinstance(name, int) else None, 0.0) for name in ran]
    return [[op.name for op in node.called.inside] for node in map_operators(model, told, ROW, read_layers(model))]


def count_a_microsecond(model: LiteRTModel, inputs: ModelInputs, passes: int) -> list[ProfiledPass]:
    """Return what ran, each operator with a microsecond: those of such small networks have none."""
    return [
        ProfiledPass(tuple(operator._replace(seconds=1e-6) for operator in single.operators), 1e-3)
        for single in profile_passes(model, inputs, passes)
    ]


# What each operator that ran did the work of --------------------------------------------------------------------------


def test_operators_of_xnnpack_are_told_by_their_names_and_order() -> None:
    model = chain("FULLY_CONNECTED", "TANH", "RESHAPE", "FULLY_CONNECTED", "TANH")
    names = "Fully Connected (NC, F32) GEMM", "TanH (NC)", "Static Reshape (NC)", "Static Reshape (NC)"
    assert cover(model, *names, names[0], "TanH (NC)") == [
        *(["FULLY_CONNECTED"], ["TANH"], ["RESHAPE"], []),  # the second of them, XNNPACK has added
        *(["FULLY_CONNECTED"], ["TANH"]),
    ]


def test_what_was_fused_belongs_to_the_operator_before_or_behind() -> None:
    """An activation to the one before; a movement to the one behind; at the end to the last."""
    model = chain("FULLY_CONNECTED", "RELU", "RESHAPE", "FULLY_CONNECTED", "RELU")
    product = "Fully Connected (NC, F32) GEMM"
    assert cover(model, product, product) == [["FULLY_CONNECTED", "RELU"], ["RESHAPE", "FULLY_CONNECTED", "RELU"]]


def test_operators_of_litert_itself_are_told_by_their_index() -> None:
    model = chain("FULLY_CONNECTED", "TANH", "SIN", "RESHAPE", "TANH")
    assert cover(model, "Fully Connected (NC, F32)", "TanH (NC)", 2, "TanH (NC)") == [
        *(["FULLY_CONNECTED"], ["TANH"], ["SIN"], ["RESHAPE", "TANH"]),
    ]
    assert cover(model, 0, 1, 2, 3, 4) == [["FULLY_CONNECTED"], ["TANH"], ["SIN"], ["RESHAPE"], ["TANH"]]
    assert cover(model, 0, 2) == [["FULLY_CONNECTED"], ["TANH", "SIN", "RESHAPE", "TANH"]]


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (["TanH (NC)"], "LiteRT ran the FULLY_CONNECTED of this model otherwise than the file says"),
        ([1], "LiteRT ran the FULLY_CONNECTED of this model otherwise"),
        ([0, 1], "LiteRT ran the FULLY_CONNECTED of this model otherwise"),
        (["Fully Connected (NC, F32)"] * 2, r"a product \(Fully Connected \(NC, F32\)\) of which it is not known"),
        (["Convolution (NHWC, F32)"], "it is not known where it is in the file"),
    ],
)
def test_products_that_are_not_those_of_the_file_are_refused(ran: list[str | int], words: str) -> None:
    behind = ("FULLY_CONNECTED",) if len(ran) == 2 and isinstance(ran[0], int) else ()
    with pytest.raises(NotOfferedError, match=words):
        cover(chain("FULLY_CONNECTED", "TANH", *behind), *ran)


# Times ----------------------------------------------------------------------------------------------------------------


@needs_profiler
@pytest.mark.parametrize("name", BUILDERS)
def test_the_work_of_with_operator_times_is_all_of_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "profile_passes", count_a_microsecond)
    model = BUILDERS[name]()
    inputs = BACKEND.example_inputs(model, 2)
    assert inputs is not None
    trace = BACKEND.trace(model, inputs)
    table = operator_table(BACKEND.operator_times(model, inputs, passes=2), {"forward": trace})
    assert {row["missing"] for row in table} == {""}
    assert (sum(row["macs"] for row in table), sum(row["flops"] for row in table)) == (trace.macs, trace.flops)


@needs_profiler
def test_layers_and_what_is_between_them_add_up_to_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "profile_passes", count_a_microsecond)
    model = BUILDERS["mlp"]()
    inputs = BACKEND.example_inputs(model, 2)
    assert inputs is not None
    times = BACKEND.layer_times(model, inputs, passes=3)
    assert {layer.path for layer in times} == {layer.path for layer in BACKEND.trace(model, None).layers}
    for index in range(3):
        assert sum(layer.own_forward[index] for layer in times) == pytest.approx(1e-3)


@needs_profiler
def test_real_times_are_in_a_profile() -> None:
    """One product of 512 x 512 x 512 takes more than a microsecond anywhere."""
    builder = GraphBuilder()
    x, w = builder.input("x", (512, 512)), builder.constant("net_1/wide_1/w", np.ones((512, 512), F))
    builder.add("FULLY_CONNECTED", [x, w, -1], (512, 512), name="y", options=options("FullyConnected"))
    report = profile(write(builder), metrics=["operator_table", "layer_times"], passes=3)
    rows = {row["operator"]: row for row in report["operator_table"]}
    [product] = [row for name, row in rows.items() if name.startswith("Fully Connected")]
    assert product["macs"] == 512**3
    assert 0 < product["seconds"] <= report["operator_table"].whole_seconds["forward"]
    assert {row["path"] for row in report["layer_times"]} == {"", "wide"}


@needs_profiler
def test_a_signature_of_another_graph_is_timed_there() -> None:
    first = GraphBuilder()
    first.add("RELU", [first.input("x", (1, 4))], (1, 4))
    second = GraphBuilder(first.buffers, "decode")
    second.add("TANH", [second.input("x", (1, 4))], (1, 4))
    model = write(first, second, names=("prefill", "decode"))
    told = [profile_passes(one, ROW, 1)[0].operators for one in (model, model.with_signature("decode"))]
    assert [[operator.name.partition(" ")[0] for operator in operators] for operators in told] == [["Clamp"], ["TanH"]]


@needs_profiler
def test_inputs_by_name_may_come_in_any_order() -> None:
    builder = GraphBuilder()
    x, y = builder.input("x", (1, 4)), builder.input("y", (8, 4))
    outputs = {"p": builder.add("TANH", [x], (1, 4)), "q": builder.add("SIN", [y], (8, 4))}
    model = LiteRTModel(write_model([builder], [outputs], {"serving": 0}))
    [single] = profile_passes(model, ModelInputs(y=np.ones((8, 4), F), x=np.ones((1, 4), F)), 1)
    assert [operator.name for operator in single.operators] == ["TanH (NC)", "Sine (NC)"]


@needs_profiler
def test_a_choice_has_the_time_and_the_work_of_its_branch() -> None:
    main = GraphBuilder()
    branches = [GraphBuilder(main.buffers, name) for name in ("then", "else")]
    for branch, operator in zip(branches, ("TANH", "RELU"), strict=True):
        branch.add(operator, [branch.input("x", (1, 4))], (1, 4))
    flag, x = main.input("flag", (), "bool"), main.input("x", (1, 4))
    main.add("IF", [flag, x], (1, 4), options=options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))
    model, inputs = write(main, *branches), ModelInputs(np.asarray(True), np.ones((1, 4), F))
    [ran] = profile_passes(model, inputs, 1)[0].operators
    assert (ran.name, ran.node) == ("IF", 0)
    [node] = map_operators(model, [ran], inputs, read_layers(model))
    assert [op.name for op in node.called.inside] == ["TANH"]


@needs_profiler
def test_litert_repeats_work_on_constants_in_each_pass_and_it_counts() -> None:
    """A product of constants, as litert-torch leaves it in the file, and a sum with the input."""
    builder = GraphBuilder()
    x, c, w = builder.input("x", (1, 4)), *(builder.constant(n, np.ones((s, 4), F)) for n, s in (("c", 1), ("w", 4)))
    product = builder.add("FULLY_CONNECTED", [c, w, -1], (1, 4), options=options("FullyConnected"))
    builder.add("ADD", [x, product], (1, 4), name="y", options=options("Add"))
    model = write(builder)
    trace = BACKEND.trace(model, ROW)
    assert (trace.macs, trace.flops) == (16, 2 * 16 + 4)
    passes = profile_passes(model, ROW, 3)
    assert [sum(op.name.startswith("Fully Connected") for op in single.operators) for single in passes] == [1, 1, 1]


def test_times_that_round_to_nothing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_nothing(*_: Any) -> list[ProfiledPass]:
        return [ProfiledPass((RanOperator("TanH (NC)", None, 0.0),), 1e-6)]

    monkeypatch.setattr(timing, "profile_passes", run_nothing)
    with pytest.raises(NotOfferedError, match="no operator of this model takes one"):
        BACKEND.operator_times(chain("TANH"), ROW)


def test_passes_of_other_operators_have_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_another(*_: Any) -> list[ProfiledPass]:
        return [ProfiledPass((RanOperator("TanH (NC)", node, 1e-6),), 1e-6) for node in (None, 0)]

    monkeypatch.setattr(timing, "profile_passes", run_another)
    with pytest.raises(NotOfferedError, match="other operators in one pass than in another"):
        BACKEND.operator_times(chain("TANH"), ROW)


def test_structures_have_the_layout_of_the_headers() -> None:
    """The numbers that ``litert_layout.h`` asserts, and those of C for the fields of ``ProfiledEventData``."""
    layout, event = native_passes._Layout, native_passes._Event
    assert ctypes.sizeof(layout) == 68
    assert (layout.dimensions.offset, layout.strides.offset) == (4, 36)
    assert ctypes.sizeof(native_passes._TensorType) == 4 + 68
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert ctypes.sizeof(event) == 8 + 8 + 2 * 8 + 2 * 24 + 2 * 8 + 8


def test_a_pass_has_the_operators_of_one_graph_and_the_longer_of_two_times() -> None:
    kinds = native_passes._EventType

    def write_event(name: bytes, kind: int, microseconds: int, node: int = 0, graph: int = 1) -> Any:
        return native_passes._Event(
            tag=name, event_type=kind, elapsed_time_us=microseconds, event_metadata1=node, event_metadata2=graph
        )

    operators = [
        write_event(b"ADD", kinds.OPERATOR, 2, node=5),
        write_event(b"TanH (NC)", kinds.DELEGATE_OPERATOR, 3, node=7),
        write_event(b"MUL", kinds.OPERATOR, 100, graph=0),
        write_event(b"AllocateTensors", kinds.DEFAULT, 100),
    ]
    whole = [write_event(b"Invoke", kinds.DEFAULT, 9), write_event(b"Invoke", kinds.DEFAULT, 4)]
    for events, microseconds in ((operators, 5), ([*operators, *whole], 9)):
        single = native_passes._read_pass((native_passes._Event * len(events))(*events), 1)
        assert single["operators"] == [("ADD", 5, 2e-6), ("TanH (NC)", None, 3e-6)]
        assert single["seconds"] == pytest.approx(microseconds / 1e6)


PRINTING = """
import os, sys
sys.path.insert(0, sys.argv[1])
import native_passes

def profile_job(job):
    os.write(1, b"INFO: a delegate was created\\n")
    return [{"seconds": job.passes, "operators": []}]

native_passes._profile_job = profile_job
native_passes.main()
"""


def test_what_the_library_prints_is_no_result() -> None:
    settings = {"library": "", "passes": 3, "signature": 0, "graph": 0, "length": 0, "inputs": [], "outputs": []}
    job = json.dumps(settings) + "\n"
    folder = str(Path(native_passes.__file__).parent)
    done = run_python(PRINTING, folder, input=job)
    assert json.loads(done.stdout) == [{"seconds": 3, "operators": []}]
    assert done.stderr.startswith("INFO: a delegate")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_LIBRARIES", (), r"ai-edge-litert \S+ lacks; install ai-edge-litert 2.2 or newer"),
        ("_MINIMUM", (99, 0), "has in another form; install"),
    ],
)
def test_without_the_library_times_are_unavailable(
    name: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, name, value)
    with pytest.raises(NotOfferedError, match=words):
        BACKEND.operator_times(chain("TANH"), ROW)
    report = profile(chain("TANH"), ROW, metrics=["operator_table", "layer_times", "macs"])
    assert {key: report.status(key).completeness.value for key in report} == {
        "operator_table": "unavailable",
        "layer_times": "unavailable",
        "macs": "complete",
    }


@needs_profiler
def test_a_model_that_the_process_cannot_run_is_an_error_and_the_process_alone_ends() -> None:
    builder = GraphBuilder()
    builder.add("Attend", [builder.input("x", (1, 4))], (1, 4))
    with pytest.raises(ModelFailedError, match="the process that timed its operators ended with"):
        BACKEND.operator_times(write(builder), ROW)


def test_a_trace_of_one_pass_is_not_offered(tmp_path: Any) -> None:
    with pytest.raises(NotOfferedError, match="writes no trace of a pass"):
        BACKEND.operator_times(chain("TANH"), ROW, export=tmp_path / "trace.json")
