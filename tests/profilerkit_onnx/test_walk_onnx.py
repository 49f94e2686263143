"""The walk over a graph: function bodies, graphs inside operators, constants, open sizes, memory."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper
from onnx_graphs import BACKEND, F, make_graph, make_model, make_unknown, trace_node

from profilerkit import InputError, ModelFailedError, ModelInputs, ModelTrace, profile
from profilerkit.piping.outcome import Completeness
from profilerkit.trace.bounds import Bounds

X = np.ones((2, 3), F)


def trace_graph(model: Any, **inputs: Any) -> ModelTrace:
    trace = BACKEND.trace(model, ModelInputs(**inputs))
    assert trace.failure is None
    return trace


def trace_by_shapes(model: Any, **inputs: Any) -> ModelTrace:
    """Trace inputs whose elements decide nothing."""
    trace = BACKEND.trace(model, make_unknown(**inputs))
    assert trace.failure is None
    return trace


def test_the_standard_may_be_named_in_each_node() -> None:
    """``ai.onnx`` is another name of the standard's domain: sizes that its nodes compute are known.

    (2, 3, 4) as (2, 12) with a matrix of 12 x 5 makes 2 * 12 * 5 multiply-accumulates.
    """
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], start=0, end=1),
        helper.make_node("Constant", [], ["rest"], value_ints=[-1]),
        helper.make_node("Concat", ["sizes", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["rows"]),
        helper.make_node("MatMul", ["rows", "weight"], ["y"]),
    ]
    x = np.ones((2, 3, 4), F)
    model = make_model(nodes, {"x": x}, {"weight": np.ones((12, 5), F)})
    for node in model.graph.node:
        node.domain = "ai.onnx"
    trace = trace_by_shapes(model, x=x)
    assert (trace.macs, trace.missing) == (2 * 12 * 5, ())


def test_a_range_to_a_number_in_a_row_is_as_long_as_to_the_number() -> None:
    """The standard's own body of AffineGrid has one: 5 numbers as a matrix of 5 x 1 with one of 1 x 7."""
    nodes = [
        helper.make_node("Range", ["zero", "limit", "one"], ["steps"]),
        helper.make_node("Unsqueeze", ["steps", "axes"], ["column"]),
        helper.make_node("MatMul", ["column", "x"], ["y"]),
    ]
    numbers = {"zero": F(0), "limit": np.array([5], F), "one": F(1), "axes": np.array([1])}
    assert trace_graph(make_model(nodes, {"x": np.ones((1, 7), F)}, numbers), x=np.ones((1, 7), F)).macs == 5 * 7


# Functions ------------------------------------------------------------------------------------------------------------


def test_an_operator_that_the_standard_defines_by_others_counts_as_these() -> None:
    """``RotaryEmbedding`` turns pairs: ``a * cos - b * sin`` and ``a * sin + b * cos``, six operations for a pair."""
    angles = np.ones((2, 4, 4), F)
    trace = trace_node("RotaryEmbedding", np.ones((2, 3, 4, 8), F), angles, angles, opset=23)
    assert trace.missing == ()
    assert trace.flops == 2 * 3 * 4 * 4 * 6


@pytest.mark.parametrize(("attributes", "operations"), [({}, 3), ({"alpha": 1.0}, 3), ({"alpha": 1.702}, 4)])
def test_a_gated_activation_is_what_its_definition_is_made_of(attributes: dict[str, Any], operations: int) -> None:
    """``SwiGLU`` is new in the newest operator set: ``a * sigmoid(alpha * a) * b``; a product with 1 is none."""
    if defs.onnx_opset_version() < 28:
        pytest.skip("this onnx has no SwiGLU")
    trace = trace_node("SwiGLU", np.ones((2, 8), F), np.ones((2, 8), F), opset=28, **attributes)
    assert (trace.flops, trace.missing) == (operations * 16, ())


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_has_an_operator_set_of_its_own(domain: str) -> None:
    """In set 11 the axes of a sum are an attribute, which they are no more in set 22: 2 * 3 elements are added up."""
    body = [helper.make_node("ReduceSum", ["a"], ["out"], axes=[1])]
    function = helper.make_function("mine", "Total", ["a"], ["out"], body, [helper.make_opsetid(domain, 11)])
    node = helper.make_node("Total", ["x"], ["y"], domain="mine")
    trace = trace_graph(make_model([node], {"x": X}, functions=[function]), x=X)
    assert (trace.flops, trace.missing) == (2 * 3, ())


def test_a_function_of_the_model_counts_as_its_body_with_the_attributes_of_the_call() -> None:
    body = [
        helper.make_node("Gemm", ["a", "b"], ["product"]),
        helper.make_node("LeakyRelu", ["product"], ["out"]),
    ]
    body[0].attribute.add(name="transB", ref_attr_name="turned", type=AttributeProto.INT)
    function = helper.make_function(
        "mine", "Dense", ["a", "b"], ["out"], body, [helper.make_opsetid("", 23)], attributes=["turned"]
    )
    node = helper.make_node("Dense", ["x", "w"], ["y"], domain="mine", turned=1)
    model = make_model([node], {"x": X}, {"w": np.ones((5, 3), F)}, functions=[function])
    trace = trace_graph(model, x=X)
    assert (trace.macs, trace.flops) == (2 * 3 * 5, 2 * 30 + 2 * 10)
    assert [op.operator for op in trace.operators] == ["Gemm", "LeakyRelu"]
    assert trace.total_params == 15


# Graphs inside operators ----------------------------------------------------------------------------------------------


def branches() -> dict[str, Any]:
    cheap = make_graph([helper.make_node("Relu", ["x"], ["a"])], [], ["a"])
    dear = make_graph([helper.make_node("MatMul", ["x", "w"], ["b"])], [], ["b"], {"w": np.ones((3, 3), F)})
    return {"then_branch": cheap, "else_branch": dear}


@pytest.mark.parametrize(("chosen", "flops"), [(True, 6), (False, 2 * 18)])
def test_a_branch_that_a_constant_chooses_is_counted_alone(chosen: bool, flops: int) -> None:
    model = make_model([helper.make_node("If", ["c"], ["y"], **branches())], {"x": X}, {"c": np.asarray(chosen)})
    trace = trace_graph(model, x=X)
    assert (trace.flops, trace.notes) == (flops, ())


def chosen_by_the_inputs(**graphs: Any) -> ModelTrace:
    """Trace an ``If`` whose condition is an input."""
    model = make_model([helper.make_node("If", ["c"], ["y"], **graphs)], {"x": X, "c": np.asarray(True)})
    return trace_by_shapes(model, x=X, c=np.asarray(True))


def test_of_branches_that_the_inputs_choose_the_dearer_is_an_upper_bound() -> None:
    """The cheap branch is a ReLU over 6 elements, the dear one a product of (2, 3) and (3, 3)."""
    trace = chosen_by_the_inputs(**branches())
    assert (trace.bounds("macs"), trace.bounds("flops")) == (Bounds(0, 18), Bounds(6, 36))
    assert (trace.macs, trace.table[0]["flops_low"], trace.table[0]["flops_high"]) == (18, 6, 36)
    record = profile(
        make_model([helper.make_node("If", ["c"], ["y"], **branches())], {"x": X, "c": np.asarray(True)}),
        make_unknown(x=X, c=np.asarray(True)),
        metrics=["macs"],
    ).status("macs")
    assert (record.completeness, record.sign) == (Completeness.PARTIAL, "≤ ")
    assert record.missing == (
        "the condition of the If 'y' depends on values: the most expensive of its branches is counted",
    )


@pytest.mark.parametrize(("chosen", "flops"), [(True, 6), (False, 2 * 18)])
def test_a_branch_that_a_given_input_chooses_is_counted_alone(chosen: bool, flops: int) -> None:
    model = make_model([helper.make_node("If", ["c"], ["y"], **branches())], {"x": X, "c": np.asarray(chosen)})
    trace = trace_graph(model, x=X, c=np.asarray(chosen))
    assert (trace.flops, trace.choices, trace.missing) == (flops, (), ())


def test_a_branch_that_the_sum_of_an_input_chooses() -> None:
    """The sum of six ones is 6: greater than 5, and not greater than 6."""
    for limit, flops in (5.0, 6), (6.0, 36):
        nodes = [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "limit"], ["c"]),
            helper.make_node("If", ["c"], ["y"], **branches()),
        ]
        model = make_model(nodes, {"x": X}, {"limit": np.asarray(limit, F)})
        assert trace_graph(model, x=X).flops == flops + 5 + 1  # with five additions and a comparison


def test_what_given_inputs_decide_is_computed_in_each_run() -> None:
    """A matrix that a branch returns, multiplied by itself, is no constant of the file's, and no more is the input."""
    square = {n: make_graph([], [], ["m"], {"m": np.full((3, 3), i, F)}) for i, n in enumerate(branches())}
    nodes = [helper.make_node("If", ["c"], ["m"], **square), helper.make_node("MatMul", ["m", "m"], ["y"])]
    trace = trace_graph(make_model(nodes, {"x": X, "c": np.asarray(True)}), x=X, c=np.asarray(True))
    assert (trace.macs, trace.choices) == (27, ())
    ints = np.arange(4)
    product = make_model([helper.make_node("MatMul", ["x", "x"], ["y"])], {"x": ints})
    assert trace_graph(product, x=ints).macs == 4


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_loop_runs_as_often_as_a_given_input_says(trips: int) -> None:
    trace = trace_graph(loop(None), x=X, trips=np.asarray(trips))
    assert (trace.macs, trace.missing, trace.choices) == (trips * 18, (), ())


def test_branches_of_equal_work_are_exact() -> None:
    relu = {name: make_graph([helper.make_node("Relu", ["x"], ["a"])], [], ["a"]) for name in branches()}
    trace = chosen_by_the_inputs(**relu)
    assert (trace.flops, trace.choices) == (6, ())


def test_what_is_not_counted_in_the_cheaper_branch_is_named() -> None:
    mystery = make_graph([helper.make_node("Mystery", ["x"], ["a"], domain="mine")], [], ["a"])
    trace = chosen_by_the_inputs(**{**branches(), "then_branch": mystery})
    assert (trace.macs, trace.missing) == (18, ("mine::Mystery (1 call)",))
    assert trace.bounds("macs") == Bounds(0, None)


def test_what_a_branch_returns_is_not_known_after_it() -> None:
    """Each branch returns a matrix of the file's; the product with it is computed in each run all the same."""
    sides = {
        name: make_graph([], [], [f"m{size}"], {f"m{size}": np.full((3, size), size, F)})
        for name, size in zip(branches(), (4, 4), strict=True)
    }
    nodes = [helper.make_node("If", ["c"], ["m"], **sides), helper.make_node("MatMul", ["x", "m"], ["y"])]
    model = make_model(nodes, {"x": X, "c": np.asarray(True)})
    assert trace_by_shapes(model, x=X, c=np.asarray(True)).macs == 2 * 3 * 4
    nodes[1] = helper.make_node("MatMul", ["m", "m"], ["y"])  # of the file's values alone, but which is not known
    square = {n: make_graph([], [], ["m"], {"m": np.full((3, 3), i, F)}) for i, n in enumerate(sides)}
    nodes[0] = helper.make_node("If", ["c"], ["m"], **square)
    assert trace_by_shapes(make_model(nodes, {"x": X, "c": np.asarray(True)}), x=X, c=np.asarray(True)).macs == 27


def test_sizes_that_differ_between_branches_are_not_known() -> None:
    sides = {
        n: make_graph([], [], ["m"], {"m": np.ones((3, size), F)}) for n, size in zip(branches(), (4, 5), strict=True)
    }
    nodes = [helper.make_node("If", ["c"], ["m"], **sides), helper.make_node("MatMul", ["x", "m"], ["y"])]
    trace = trace_by_shapes(make_model(nodes, {"x": X, "c": np.asarray(True)}), x=X, c=np.asarray(True))
    assert trace.macs == 0
    assert trace.missing == ("MatMul of unknown shape (1 call)",)


def loop(trips: Any) -> Any:
    body = make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Relu", ["next"], ["seen"]),
        ],
        ["turn", "go", "state"],
        ["on", "next", "seen"],
        {"w": np.ones((3, 3), F)},
    )
    body.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
    body.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
    node = helper.make_node("Loop", ["trips", "", "x"], ["last", "all"], body=body)
    known = {} if trips is None else {"trips": np.asarray(trips)}
    inputs = {"x": X, **({"trips": np.asarray(0)} if trips is None else {})}
    return make_model([node], inputs, known, outputs=["last", "all"])


@pytest.mark.parametrize("trips", [7, [7]], ids=["scalar", "one element"])
def test_a_loop_counts_as_often_as_it_runs(trips: Any) -> None:
    trace = trace_graph(loop(trips), x=X)
    assert (trace.macs, trace.flops) == (7 * 18, 7 * (36 + 6))
    assert [info.shape for info in trace.layers[0].calls[0].outputs] == [(2, 3), (7, 2, 3)]
    assert trace.missing == ()


def conditional(goes_on: list[Any], first: Any, trips: int) -> Any:
    """Return a loop with a limit and a condition, whose body says by these nodes whether it goes on."""
    body = make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["next"]), *goes_on], ["turn", "go", "state"], ["on", "next"]
    )
    body.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
    body.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
    node = helper.make_node("Loop", ["trips", "first", "x"], ["last"], body=body)
    constants = {
        "trips": np.asarray(trips),
        "first": np.asarray(first),
        "w": np.ones((3, 3), F),
        "zero": np.asarray(0.0, F),
    }
    return make_model([node], {"x": X}, constants, outputs=["last"])


#: Whether the body goes on: always, as its own condition says; and as long as its sum is below a number.
ALWAYS = [helper.make_node("Identity", ["go"], ["on"])]
BY_VALUES = [
    helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
    helper.make_node("Less", ["sum", "zero"], ["on"]),
]


@pytest.mark.parametrize(
    ("goes_on", "first", "bounds"),
    [
        (ALWAYS, True, Bounds(5 * 18, 5 * 18)),
        (ALWAYS, False, Bounds(0, 0)),
        (BY_VALUES, True, Bounds(0, 5 * 18)),
    ],
)
def test_a_loop_that_may_stop_before_its_limit_is_an_upper_bound(
    goes_on: list[Any], first: bool, bounds: Bounds
) -> None:
    trace = trace_by_shapes(conditional(goes_on, first, 5), x=X)
    assert trace.bounds("macs") == bounds
    assert (trace.macs, trace.missing) == (bounds.high, ())


def test_nodes_may_stand_in_another_order() -> None:
    """The body of a loop reads what a later node makes: onnxruntime's quantizer writes such files, and runs them."""
    model = loop(7)
    model.graph.node.append(helper.make_node("Identity", ["v"], ["w"]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, 3), F), "v"))
    del model.graph.node[0].attribute[0].g.initializer[:]
    trace = trace_graph(model, x=X)
    assert (trace.macs, trace.total_params) == (7 * 18, 9)
    made_of_itself = make_model([helper.make_node("Add", ["x", "y"], ["y"])], {"x": X})
    failure = str(BACKEND.trace(made_of_itself, ModelInputs(x=X)).failure)
    assert "the graph cannot be followed: the node" in failure
    assert "which nothing before it makes" in failure


def test_a_branch_may_return_what_a_later_node_makes() -> None:
    """It has no node that reads the value."""
    side = {f"{name}_branch": make_graph([], [], ["late"]) for name in ("then", "else")}
    nodes = [helper.make_node("If", ["c"], ["y"], **side), helper.make_node("Exp", ["x"], ["late"])]
    trace = trace_graph(make_model(nodes, {"x": X}, {"c": np.asarray(True)}), x=X)
    assert (trace.failure, trace.flops) == (None, 6)


def test_a_value_that_grows_from_run_to_run_has_no_known_size() -> None:
    """It was counted by its first size in all runs, and said to be complete."""
    body = make_graph(
        [
            helper.make_node("Concat", ["state", "x"], ["next"], axis=0),
            helper.make_node("Relu", ["next"], ["seen"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        ["turn", "go", "state"],
        ["on", "next"],
    )
    body.input[0].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT64, []))
    body.input[1].type.CopyFrom(helper.make_tensor_type_proto(TensorProto.BOOL, []))
    node = helper.make_node("Loop", ["trips", "", "x"], ["last"], body=body)
    trace = trace_graph(make_model([node], {"x": X}, {"trips": np.asarray(3)}, outputs=["last"]), x=X)
    assert trace.missing == ("Relu of unknown shape (3 calls)",)


def test_a_loop_of_unknown_length_is_named() -> None:
    trace = trace_by_shapes(loop(None), x=X, trips=np.asarray(4))
    assert (trace.macs, trace.bounds("macs")) == (18, Bounds(0, None))  # it may have no trip
    assert trace.missing == ("Loop of an unknown number of turns (1 call)",)


@pytest.mark.parametrize("goes_on", [ALWAYS, BY_VALUES])
def test_the_limit_that_converters_write_for_while_is_none(goes_on: list[Any]) -> None:
    """It is the largest int64; no loop runs so often."""
    trace = trace_by_shapes(conditional(goes_on, True, 2**63 - 1), x=X)
    assert (trace.macs, trace.bounds("macs")) == (18, Bounds(0, None))
    assert trace.missing == ("Loop of an unknown number of turns (1 call)",)


def test_a_scan_runs_once_for_each_slice() -> None:
    body = make_graph(
        [helper.make_node("Add", ["state", "slice"], ["next"]), helper.make_node("Exp", ["next"], ["seen"])],
        ["state", "slice"],
        ["next", "seen"],
    )
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    model = make_model([node], {"x": np.ones((5, 4), F)}, {"start": np.zeros(4, F)}, outputs=["last", "y"])
    trace = trace_graph(model, x=np.ones((5, 4), F))
    assert trace.flops == 5 * (4 + 4)
    assert trace.layers[0].calls[0].outputs[1].shape == (5, 4)


def test_a_scan_over_samples_is_refused() -> None:
    """That of operator set 8 takes the lengths of the sequences first, and a batch of states and sequences."""
    body = make_graph([helper.make_node("Add", ["state", "slice"], ["next"])], ["state", "slice"], ["next"])
    node = helper.make_node("Scan", ["", "start", "x"], ["last"], name="turns", body=body, num_scan_inputs=1)
    model = make_model([node], {"x": np.ones((2, 5, 4), F)}, {"start": np.zeros((2, 4), F)}, ["last"], opset=8)
    report = profile(model, np.ones((2, 5, 4), F), metrics=["flops"])
    said = "the Scan 'turns' of operator set 8 goes over samples of a batch, which is not read; export the model with"
    assert said in report.status("flops").missing[0]


def test_attributes_of_a_function_reach_the_graphs_inside_it() -> None:
    """A kernel of 2 x 2 meets 8 x 8 numbers at each second place in both directions: 4 * 4 times."""
    convolution = helper.make_node("Conv", ["a", "w"], ["c"])
    convolution.attribute.add(name="strides", ref_attr_name="steps", type=AttributeProto.INTS)
    branches = {f"{name}_branch": make_graph([convolution], [], ["c"]) for name in ("then", "else")}
    body = [helper.make_node("If", ["yes"], ["b"], **branches)]
    imports = [helper.make_opsetid("", 22)]
    function = helper.make_function("mine", "Shrink", ["a", "w", "yes"], ["b"], body, imports, ["steps"])
    call = helper.make_node("Shrink", ["x", "w", "yes"], ["y"], domain="mine", steps=[2, 2])
    x, weights = np.ones((1, 1, 8, 8), F), {"w": np.ones((1, 1, 2, 2), F), "yes": np.asarray(True)}
    assert trace_graph(make_model([call], {"x": x}, weights, functions=[function]), x=x).macs == 16 * 4


# Constants and sizes --------------------------------------------------------------------------------------------------


def test_shapes_that_the_graph_computes_are_known() -> None:
    """``reshape(x, (shape(x)[0], -1))``, as exporters write a flattening of any batch."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    weights = {"zero": np.asarray(0), "axes": np.asarray([0]), "rest": np.asarray([-1]), "w": np.ones((12, 5), F)}
    model = make_model(nodes, {"x": (F, ["n", 3, 4])}, weights)
    trace = trace_graph(model, x=np.ones((7, 3, 4), F))
    assert trace.macs == 7 * 12 * 5
    assert [op.operator for op in trace.operators] == ["Reshape", "MatMul"]
    assert trace.notes[0].startswith("4 operators of constants and shapes alone")


def test_a_size_that_the_values_tell_makes_the_count_partial_and_is_named() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Cast", ["places"], ["y"], to=1)]
    nodes.append(helper.make_node("Exp", ["y"], ["z"]))
    model = make_model(nodes, {"x": X}, outputs=["z"])
    trace = trace_graph(model, x=X)
    assert trace.missing == ("Exp of unknown shape (1 call)",)
    assert trace.memory.missing == tuple(f"{name} of unknown size (1 call)" for name in ("Cast", "Exp", "NonZero"))
    report = profile(model, ModelInputs(x=X), metrics=["flops"])
    assert report.status("flops").completeness.value == "partial"


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_a_loop_that_never_runs_does_nothing_and_takes_no_memory(op: str) -> None:
    """It returns its first state, x of 48 bytes, and an empty stack; a Loop has the number of a turn and its condition.

    The body would multiply, and has an operator that nobody knows.
    """
    turn = [
        helper.make_node("MatMul", ["state", "w"], ["next"]),
        helper.make_node("Fancy", ["next"], ["out"], domain="a"),
    ]
    x, weights = np.ones((2, 6), F), {"w": np.ones((6, 6), F), "none": np.asarray(0)}
    if op == "Loop":
        body = make_graph(
            [*turn, helper.make_node("Identity", ["on"], ["go"])], ["i", "on", "state"], ["go", "next", "out"]
        )
        node = helper.make_node("Loop", ["none", "", "x"], ["y", "stack"], body=body)
    else:
        body = make_graph(turn, ["state", "part"], ["next", "out"])
        node = helper.make_node("Scan", ["x", "parts"], ["y", "stack"], body=body, num_scan_inputs=1)
        weights["parts"] = np.ones((0, 3), F)
    trace = trace_graph(make_model([node], {"x": x}, weights, ("y", "stack")), x=x)
    assert (trace.macs, trace.missing) == (0, ())
    assert trace.memory.peak_bytes(include_weights=False) == 48 + (8 + 1 if op == "Loop" else 0)
    [call] = trace.layers[0].calls
    assert [info.shape for info in call.inputs] == [(2, 6)]
    assert call.outputs[0].shape == (2, 6)


def test_an_operator_that_nobody_knows_is_named() -> None:
    nodes = [helper.make_node("Fancy", ["x"], ["h"], domain="com.example"), helper.make_node("Relu", ["x"], ["y"])]
    assert trace_graph(make_model(nodes, {"x": X}), x=X).missing == ("com.example::Fancy (1 call)",)


def test_of_an_unknown_operator_the_sizes_that_the_inputs_bind_are_known() -> None:
    """The file declares ``(batch, found)`` of it, and the input binds the first of them."""
    model = make_model([helper.make_node("Fancy", ["x"], ["y"], domain="com.example")], {"x": (F, ["batch", 3])})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "found"]))
    [record] = trace_graph(model, x=X).operators
    assert tuple(record.outputs[0].shape) == (2, -1)


#: Operators that draw random numbers of a stored (1, 4, 6, 6) `c`, with their other inputs and their attributes.
_DRAWS: dict[str, tuple[str, dict[str, Any]]] = {
    "RandomNormalLike": ("c", {}),
    "RandomUniformLike": ("c", {"seed": 1.0}),
    "Bernoulli": ("c", {}),
    "Dropout": ("c ratio yes", {}),
}


@pytest.mark.parametrize("operator", _DRAWS)
def test_random_numbers_of_a_constant_are_drawn_in_each_run(operator: str) -> None:
    """So the convolution of them runs too: 6 * 6 positions of 8 filters of 4 * 3 * 3 weights."""
    names, attributes = _DRAWS[operator]
    nodes = [
        helper.make_node(operator, names.split(), ["noise"], **attributes),
        helper.make_node("Conv", ["noise", "w"], ["h"], pads=[1] * 4),
        helper.make_node("Add", ["x", "h"], ["y"]),
    ]
    weights = {"c": np.full((1, 4, 6, 6), 0.5, F), "w": np.ones((8, 4, 3, 3), F)}
    weights |= {"ratio": np.array(0.5, F), "yes": np.array(True)}
    model = make_model(nodes, {"x": np.ones((1, 8, 6, 6), F)}, weights)
    trace = trace_graph(model, x=np.ones((1, 8, 6, 6), F))
    assert trace.macs == 36 * 8 * 36
    assert [record.operator for record in trace.operators][-2:] == ["Conv", "Add"]


def test_classes_drawn_from_stored_odds_are_drawn_in_each_run() -> None:
    """Two rows of 300 classes, as numbers; a matrix of 300 x 5 makes 2 * 300 * 5 multiply-accumulates."""
    nodes = [
        helper.make_node("Multinomial", ["odds"], ["drawn"], sample_size=300),
        helper.make_node("Cast", ["drawn"], ["rows"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["rows", "w"], ["h"]),
        helper.make_node("Add", ["x", "h"], ["y"]),
    ]
    model = make_model(nodes, {"x": np.ones((2, 5), F)}, {"odds": np.ones((2, 7), F), "w": np.ones((300, 5), F)})
    assert trace_graph(model, x=np.ones((2, 5), F)).macs == 2 * 300 * 5


@pytest.mark.parametrize("flag", ["no", ""])
def test_a_dropout_that_does_not_train_hands_a_constant_on(flag: str) -> None:
    nodes = [
        helper.make_node("Dropout", ["c", "ratio", flag], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Add", ["x", "m"], ["y"]),
    ]
    weights = {"c": np.ones((2, 4), F), "w": np.ones((4, 3), F), "ratio": np.array(0.5, F), "no": np.array(False)}
    trace = trace_graph(make_model(nodes, {"x": X}, weights), x=X)
    assert (trace.macs, [record.operator for record in trace.operators]) == (0, ["Add"])


def test_what_an_unknown_operator_makes_of_constants_is_no_constant() -> None:
    """It may be random. So both products run: 4 rows of 4 elements meet 3 columns, then 2 rows of x meet the result."""
    nodes = [
        helper.make_node("Fancy", ["w"], ["noise"], domain="com.example"),
        helper.make_node("MatMul", ["u", "noise"], ["h"]),
        helper.make_node("MatMul", ["x", "h"], ["y"]),
    ]
    model = make_model(nodes, {"x": np.ones((2, 4), F)}, {"w": np.ones((4, 3), F), "u": np.ones((4, 4), F)})
    model.graph.value_info.append(helper.make_tensor_value_info("noise", TensorProto.FLOAT, [4, 3]))
    trace = trace_graph(model, x=np.ones((2, 4), F))
    assert (trace.macs, trace.missing) == (48 + 24, ("com.example::Fancy (1 call)",))


def test_weights_that_are_dequantized_are_constants() -> None:
    """Their elements are the matrix's, their bytes those of int8; going back to floats is done once."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale"], ["m"]), helper.make_node("MatMul", ["x", "m"], ["y"])]
    model = make_model(nodes, {"x": X}, {"w": np.ones((3, 5), np.int8), "scale": np.asarray(0.1, F)})
    trace = trace_graph(model, x=X)
    assert (trace.macs, trace.flops) == (30, 60)
    assert "1 operator of constants and shapes alone" in trace.notes[0]
    assert not any("more" in note for note in trace.notes)
    assert [(weight.count, weight.bytes, weight.dtype) for weight in trace.parameters] == [(15, 15, "int8")]


@pytest.mark.parametrize(("need", "is_said"), [("read", True), ("returned", True), ("none", False)])
def test_what_is_made_of_constants_and_kept_is_said(need: str, is_said: bool) -> None:
    """A matrix of 512 x 1024 floats of four bytes is made of two sizes: 2 MiB, which the file does not have."""
    is_read = need == "read"
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["m"]),
        helper.make_node("MatMul", ["x", "m"], ["y"]) if is_read else helper.make_node("Relu", ["x"], ["y"]),
    ]
    x, outputs = np.ones((2, 512), F), ["y", "m"] if need == "returned" else ["y"]
    trace = trace_graph(make_model(nodes, {"x": x}, {"sizes": np.array([512, 1024])}, outputs), x=x)
    assert trace.memory.weight_bytes == 16
    note = "Memory Footprint: what operators make of constants may take 2 MiB more: a runtime keeps it"
    assert (note in trace.notes) is is_said


def test_nodes_are_weights_where_the_file_has_its_weights_in_nodes() -> None:
    """As PaddlePaddle writes all: scale and bias of the norm are parameters, its statistics not, as in initializers."""
    weights = {"w": np.ones((4, 3, 1, 1), F), **{name: np.ones(4, F) for name in ("scale", "bias", "mean", "var")}}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("BatchNormalization", ["h", "scale", "bias", "mean", "var"], ["y"]),
    ]
    made = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
        for name, array in weights.items()
    ]
    inputs = {"x": np.ones((1, 3, 2, 2), F)}
    for model in (make_model(nodes, inputs, weights), make_model([*made, *nodes], inputs)):
        report = profile(model, metrics=["total_params", "model_size"])
        assert (report["total_params"], report["model_size"]) == (12 + 4 + 4, 4 * (12 + 4 + 4 + 4 + 4))


def test_a_weight_may_be_put_together_from_parts_of_constants() -> None:
    """The rows of a matrix in another order: 2 + 4 of 6 rows of 3."""
    bounds = {"zero": [0], "two": [2], "six": [6]}
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.ones((6, 3), F))),
        helper.make_node("Slice", ["w", "two", "six", "zero"], ["end"]),
        helper.make_node("Slice", ["w", "zero", "two", "zero"], ["begin"]),
        helper.make_node("Concat", ["end", "begin"], ["other_order"], axis=0),
        helper.make_node("Gemm", ["x", "other_order"], ["y"], transB=1),
    ]
    model = make_model(nodes, {"x": X}, {name: np.asarray(bound) for name, bound in bounds.items()})
    [weight] = trace_graph(model, x=X).parameters
    assert (weight.name, weight.count) == ("w", 18)


def test_weights_in_attributes_make_a_lower_bound() -> None:
    """A network of 3 x 5 behind a scaler, whose two times three numbers are no tensors."""
    scaler = helper.make_node(
        "Scaler", ["x"], ["h"], domain="ai.onnx.ml", offset=[0.0, 1.0, 2.0], scale=[1.0, 1.0, 1.0]
    )
    model = make_model([scaler, helper.make_node("MatMul", ["h", "w"], ["y"])], {"x": X}, {"w": np.ones((3, 5), F)})
    report = profile(model, metrics=["total_params", "model_size", "macs"])
    assert [report[key] for key in report] == [15, 60, 2 * 15]
    for key, missing in (("total_params", "the weights that Scaler has in attributes"), ("macs", "ai.onnx.ml::Scaler")):
        assert report.status(key).sign == "≥ "
        assert missing in str(report.status(key).missing)


def test_the_table_of_an_encoding_is_no_weight() -> None:
    """``LabelEncoder`` looks up numbers in three pairs, and nobody has trained them: 15 parameters are all."""
    encoder = helper.make_node(
        "LabelEncoder", ["x"], ["h"], domain="ai.onnx.ml", keys_floats=[0.0, 1.0, 2.0], values_floats=[5.0, 6.0, 7.0]
    )
    model = make_model([encoder, helper.make_node("MatMul", ["h", "w"], ["y"])], {"x": X}, {"w": np.ones((3, 5), F)})
    status = profile(model, metrics=["total_params"]).status("total_params")
    assert (status.value, status.completeness.value) == (15, "complete")


def test_weights_in_attributes_of_a_function_that_alone_imports_them_are_said() -> None:
    node = helper.make_node(
        "LinearRegressor", ["a"], ["b"], domain="ai.onnx.ml", coefficients=[1.0, 2.0, 3.0], intercepts=[0.0]
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 20)]
    model = make_model([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": X}, {})
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [node], imports))
    del model.opset_import[:]
    model.opset_import.extend([helper.make_opsetid("", 20), helper.make_opsetid("own", 1)])
    status = profile(model, metrics=["total_params"], static=True).status("total_params")
    assert status.value is None
    assert "the weights that LinearRegressor has in attributes" in str(status.missing)


@pytest.mark.parametrize(
    ("op", "settings", "dtype"),
    [
        ("Binarizer", {"threshold": 0.5}, "int64"),
        ("Imputer", {"imputed_value_int64s": [1], "replaced_value_int64": 0}, "int64"),
        ("Normalizer", {"norm": "L2"}, "float32"),
        ("Scaler", {"offset": [0.0], "scale": [1.0]}, "float32"),
    ],
)
def test_what_stands_before_a_network_has_the_dtype_of_its_definition(op: str, settings: Any, dtype: str) -> None:
    """The operators of ai.onnx.ml: of 4 x 6 whole numbers of 8 bytes two keep the dtype, and two make floats."""
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **settings)
    x = np.ones((4, 6), np.int64)
    [operator] = trace_graph(make_model([node], {"x": x}), x=x).operators
    [output] = operator.outputs
    assert (output.shape, output.dtype) == ((4, 6), dtype)
    assert operator.bytes_written == 24 * np.dtype(dtype).itemsize


def test_a_threshold_compares_and_costs_nothing() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    x = np.ones((4, 6), np.float32)
    trace = trace_graph(make_model([node], {"x": x}), x=x)
    assert (trace.flops, trace.missing) == (0, ())


def scale_rows(table: str) -> list[Any]:
    return [
        helper.make_node("Gather", [table, "i"], ["rows"]),
        helper.make_node("DequantizeLinear", ["rows", "scale"], ["y"]),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        scale_rows("w"),  # as onnxruntime quantizes embeddings
        [helper.make_node("Cast", ["w"], ["m"], to=1), helper.make_node("Mul", ["m", "scale"], ["y"])],
        [
            helper.make_node(
                "QLinearAdd", ["i", "scale", "z", "w", "scale", "z", "scale", "z"], ["y"], domain="com.microsoft"
            )
        ],
    ],
    ids=["table", "cast", "bias"],
)
def test_narrow_weights_are_parameters_where_they_are_scaled(nodes: list[Any]) -> None:
    weights = {"w": np.ones((3, 5), np.uint8), "scale": np.asarray(0.1, F), "z": np.asarray(0, np.uint8)}
    model = make_model(nodes, {"i": np.ones((1, 1), np.uint8 if "QLinearAdd" in str(nodes) else np.int64)}, weights)
    [weight] = BACKEND.trace(model, None).parameters
    assert (weight.name, weight.count, weight.bytes) == ("w", 15, 15)


@pytest.mark.parametrize(
    ("operator", "opset", "weights"),
    [("GroupNormalization", 21, ["s", "s"]), ("MeanVarianceNormalization", 13, []), ("GreaterOrEqual", 12, ["s"])],
)
def test_what_the_standard_defines_by_a_body_alone_has_a_shape(operator: str, opset: int, weights: list[str]) -> None:
    """The file declares none: the product behind it has 2 * 4 * 2 rows of 2, for 3 columns."""
    settings: dict[str, Any] = {"num_groups": 2} if operator == "GroupNormalization" else {}
    nodes = [
        helper.make_node(operator, ["x", *weights], ["h"], **settings),
        helper.make_node("Cast", ["h"], ["f"], to=1),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    scale = np.ones(4 if operator == "GroupNormalization" else 1, F)
    model = make_model(nodes, {"x": np.ones((2, 4, 2, 2), F)}, {"s": scale, "w": np.ones((2, 3), F)}, opset=opset)
    trace = trace_graph(model, x=np.ones((2, 4, 2, 2), F))
    assert (trace.macs, trace.missing) == (2 * 4 * 2 * 2 * 3, ())


def test_packed_weights_have_the_elements_that_they_stand_for() -> None:
    packed = np.ones((16, 1, 16), np.uint8)  # 16 rows of 32 elements of four bits
    node = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=32, N=16, bits=4, block_size=32
    )
    model = make_model([node], {"x": np.ones((2, 32), F)}, {"w": packed, "s": np.ones(16, F)})
    [weight] = BACKEND.trace(model, None).parameters
    assert (weight.count, weight.bytes) == (32 * 16, 256)


# Memory ---------------------------------------------------------------------------------------------------------------


def test_bytes_alive_are_those_that_later_nodes_need() -> None:
    """x: 24 bytes. a: 24; b, a view of a: none; c: 40 while b is read; then c alone, and the result of 40."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "shape"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Exp", ["c"], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, {"shape": np.asarray([2, 3]), "w": np.ones((3, 5), F)})
    memory = trace_graph(model, x=X).memory
    assert memory.input_bytes == 24
    assert memory.live_bytes == (48, 48, 88, 24 + 80)
    assert memory.weight_bytes == 60 + 16


@pytest.mark.parametrize("trains", [False, True])
def test_a_dropout_that_trains_makes_elements_of_its_own(trains: bool) -> None:
    """x: 24 bytes. a: 24; d, a view of a: none, or 24 of its own; y: 24 while both are read."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Dropout", ["a", "ratio", "trains"], ["d"]),
        helper.make_node("Add", ["a", "d"], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, {"ratio": np.array(0.5, F), "trains": np.array(trains)})
    memory = trace_graph(model, x=X).memory
    own = 24 if trains else 0
    assert memory.live_bytes == (48, 48 + own, 72 + own)


# What does not fit ----------------------------------------------------------------------------------------------------

DENSE = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (F, ["n", 3])}, {"w": np.ones((3, 5), F)})
TWO = make_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": (F, ["n", 3]), "b": (F, ["n", 3])})


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (
            DENSE,
            ModelInputs(np.ones((2, 4), F)),
            r"the input 'x' has the shape \(2, 4\), and the model declares \(n, 3\)",
        ),
        (DENSE, ModelInputs(np.ones((2, 3))), "the input 'x' is of float64, and the model declares float32; convert"),
        (DENSE, ModelInputs(X, X), "the model declares 1 input, and 2 were given; its inputs are: 'x'"),
        (DENSE, ModelInputs(z=X), "the model declares no input 'z'; its inputs are: 'x'"),
        (DENSE, ModelInputs(x="text"), "the input 'x' is 'text'; give an array for it"),
        (DENSE, ModelInputs(X).given_to(lambda model, x: x), "call= was given"),
        (TWO, ModelInputs(X), "the input 'b' is missing; the model declares the inputs: 'a', 'b'$"),
        (TWO, ModelInputs(X, a=X, b=X), "the input 'a' is given twice, by position and by name; give it once"),
        (TWO, ModelInputs(X, np.ones((4, 3), F)), "the size 'n' is 2 in the input 'a' and 4 in 'b'"),
    ],
)
def test_inputs_that_do_not_fit_are_said(model: Any, inputs: ModelInputs, message: str) -> None:
    trace = BACKEND.trace(model, inputs)
    with pytest.raises(InputError, match=message):
        raise trace.failure or AssertionError("nothing was wrong")
    assert trace.operators == ()
    assert trace.layers


def test_a_node_that_does_not_fit_is_named() -> None:
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="head")], {"x": X}, {"w": np.ones((4, 5), F)}
    )
    trace = BACKEND.trace(model, ModelInputs(X))
    with pytest.raises(ModelFailedError, match=r"MatMul of the node 'head' does not fit inputs of the shapes \(2, 3\)"):
        raise trace.failure or AssertionError("nothing was wrong")
