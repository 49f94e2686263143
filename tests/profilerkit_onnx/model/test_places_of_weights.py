"""Weights wherever a file may hold them: in branches, in functions, in ``Constant`` nodes of each kind."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import ModelInputs, ModelTrace, profile
from profilerkit_onnx.costs.registry import OPERATORS
from profilerkit_onnx.model.constants import Use
from profilerkit_onnx.model.declared_inputs import list_declared
from profilerkit_onnx.model.weights import find_places

X = np.ones((2, 3), F)
#: Twelve elements.
W = np.ones((3, 4), F)


def count(model: ModelProto, **inputs: Any) -> tuple[int, int]:
    """Return the parameters of a model, and the bytes of all its weights."""
    report = profile(model, ModelInputs(**inputs), metrics=["total_params", "model_size"])
    return report["total_params"], report["model_size"]


def make_branch(name: str) -> GraphProto:
    product = helper.make_node("MatMul", ["x", "w"], [f"y_{name}"])
    result = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, [2, 4])
    return helper.make_graph([product], name, [], [result], [numpy_helper.from_array(W, "w")])


def test_both_branches_may_have_a_weight_of_one_name() -> None:
    branches = {f"{name}_branch": make_branch(name) for name in ("then", "else")}
    model = make_model([helper.make_node("If", ["c"], ["y"], **branches)], {"x": X, "c": np.asarray(True)})
    assert count(model, x=X, c=np.asarray(True)) == (2 * 12, 2 * 12 * 4)


def make_function_model(nodes: Any, calls: Any, formals: Any = ("a",), weights: Any = None) -> ModelProto:
    function = helper.make_function("mine", "Linear", list(formals), ["b"], nodes, [helper.make_opsetid("", 22)])
    return make_model(calls, {"x": X}, weights, functions=[function])


def test_a_function_may_hold_a_weight_which_all_its_calls_share() -> None:
    body = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(np.ones((3, 3), F))),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
    ]
    calls = [
        helper.make_node("Linear", ["x"], ["h"], domain="mine", name="/first/Linear"),
        helper.make_node("Linear", ["h"], ["y"], domain="mine", name="/second/Linear"),
    ]
    model = make_function_model(body, calls)
    assert count(model, x=X) == (9, 9 * 4)
    trace: ModelTrace = BACKEND.trace(model, ModelInputs(x=X))
    assert {layer.path: len(layer.parameters) for layer in trace.layers} == {"": 0, "first": 1, "second": 1}


def test_a_weight_of_bytes_that_a_function_gets_is_a_parameter() -> None:
    body = [helper.make_node("DequantizeLinear", ["w", "s"], ["f"]), helper.make_node("MatMul", ["a", "f"], ["b"])]
    calls = [helper.make_node("Linear", ["x", "w", "s"], ["y"], domain="mine")]
    weights = {"w": np.ones((3, 4), np.int8), "s": np.asarray(1, F)}
    assert count(make_function_model(body, calls, ["a", "w", "s"], weights), x=X) == (12, 12)


def test_what_a_function_makes_of_a_weight_stands_for_it() -> None:
    body = [helper.make_node("Transpose", ["a"], ["b"])]
    calls = [
        helper.make_node("Linear", ["w"], ["t"], domain="mine"),
        helper.make_node("MatMulInteger", ["q", "t"], ["y"]),
    ]
    function = helper.make_function("mine", "Linear", ["a"], ["b"], body, [helper.make_opsetid("", 22)])
    integers = np.ones((2, 3), np.int8)
    model = make_model(calls, {"q": integers}, {"w": np.ones((4, 3), np.int8)}, functions=[function])
    assert count(model, q=integers) == (12, 12)


def test_functions_that_call_themselves_end() -> None:
    body = [helper.make_node("Linear", ["a"], ["b"], domain="mine")]
    model = make_function_model(body, [helper.make_node("Linear", ["x"], ["y"], domain="mine")])
    assert count(model, x=X) == (0, 0)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"value": numpy_helper.from_array(np.ones(4, F))}, 4 * 4),
        ({"value_floats": [1.0] * 4}, 4 * 4),
    ],
    ids=["tensor", "floats"],
)
def test_a_constant_node_of_each_kind_may_be_a_bias(value: dict[str, Any], stored: int) -> None:
    nodes = [helper.make_node("Constant", [], ["b"], **value), helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    assert count(make_model(nodes, {"x": X}, {"w": W}), x=X) == (12 + 4, 12 * 4 + stored)


@pytest.mark.parametrize("is_node", [False, True])
def test_a_sparse_tensor_is_refused(is_node: bool) -> None:
    values, places = numpy_helper.from_array(np.ones(2, F), "w"), numpy_helper.from_array(np.asarray([0, 3]))
    sparse = helper.make_sparse_tensor(values, places, [3, 4])
    nodes = [helper.make_node("Constant", [], ["w"], sparse_value=sparse)] if is_node else []
    model = make_model([*nodes, helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X})
    if not is_node:
        model.graph.sparse_initializer.append(sparse)
    report = profile(model, ModelInputs(x=X), metrics=["total_params", "macs"])
    for key in ("total_params", "macs"):
        assert "the tensor 'w' of the model is sparse, which is not read" in str(report.status(key))


def test_a_sparse_default_of_an_input_need_not_be_given() -> None:
    values, places = numpy_helper.from_array(np.ones(2, F), "w"), numpy_helper.from_array(np.asarray([0, 3]))
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X, "w": W})
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3, 4]))
    assert [declared.name for declared in list_declared(model)] == ["x"]


@pytest.mark.parametrize(
    ("name", "producer", "params", "sign"),
    [
        ("head.bias", "", 12 + 4, ""),
        ("head.bias", "pytorch", 12 + 4, ""),
        ("/head/Constant_output_0", "pytorch", 12, ""),
        ("b", "", 12, "\u2265 "),
    ],
)
def test_a_bias_that_a_tool_has_moved_into_a_node(name: str, producer: str, params: int, sign: str) -> None:
    """Beside a matrix that is none: torch's names tell, and torch's exporters write only results into nodes."""
    nodes = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.ones(4, F))),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", name], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, {"w": W}, producer_name=producer)
    status = profile(model, ModelInputs(x=X), metrics=["total_params"]).status("total_params")
    assert (status.value, status.sign) == (params, sign)
    assert status.missing == (("the weights that Add has in nodes",) if sign else ())


TABLES = {"cos": np.ones((8, 4), F), "sin": np.ones((8, 4), F)}
SCALE, ZERO = np.ones(1, F), np.zeros(1, np.uint8)


@pytest.mark.parametrize(
    ("node", "inputs", "weights"),
    [
        (
            helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"]),
            {"boxes": np.ones((1, 5, 4), F), "scores": np.ones((1, 2, 5), F)},
            {"most": np.asarray([3]), "overlap": np.ones(1, F), "least": np.ones(1, F)},
        ),
        (
            helper.make_node("Pad", ["x", "pads", "value"], ["y"]),
            {"x": X},
            {"pads": np.ones(4, np.int64), "value": np.ones(1, F)},
        ),
        (
            helper.make_node("STFT", ["x", "step", "window"], ["y"]),
            {"x": np.ones((1, 64, 1), F)},
            {"step": np.asarray(4), "window": np.ones(8, F)},
        ),
        (
            helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "p"], ["y"]),
            {"x": np.ones((1, 2, 3, 8), F), "p": np.zeros((1, 3), np.int64)},
            TABLES,
        ),
        (
            helper.make_node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["y"], domain="com.microsoft"),
            {"x": np.ones((1, 2, 3, 8), F), "p": np.zeros((1, 3), np.int64)},
            TABLES,
        ),
        (
            helper.make_node(
                "GroupQueryAttention",
                ["q", "k", "k", "", "", "last", "all", "cos", "sin"],
                ["y"],
                domain="com.microsoft",
                num_heads=2,
                kv_num_heads=1,
                do_rotary=1,
            ),
            {"q": np.ones((1, 3, 16), F), "k": np.ones((1, 3, 8), F)},
            {"last": np.asarray([2], np.int32), "all": np.asarray(3, np.int32), **TABLES},
        ),
        (
            helper.make_node("QLinearSigmoid", ["x", "s", "z", "s", "z"], ["y"], domain="com.microsoft"),
            {"x": np.ones((2, 3), np.uint8)},
            {"s": SCALE, "z": ZERO},
        ),
    ],
    ids=lambda value: f"{value.domain}.{value.op_type}" if hasattr(value, "op_type") else "",
)
def test_what_operators_take_beside_weights_is_no_parameter(node: Any, inputs: Any, weights: Any) -> None:
    model = make_model([node], inputs, weights, opset=23)
    assert count(model, **inputs)[0] == 0


#: An operator, one that does the same on integers, on states or on pages, and the inputs of both that are the same.
TWINS = [
    ("LSTM", "DynamicQuantizeLSTM", {index: index for index in range(8)}),
    ("LSTM", "GRU", {index: index for index in range(6)}),
    ("GRU", "RNN", {index: index for index in range(6)}),
    ("Attention", "QAttention", {3: 5, 4: 8}),
    ("Attention", "MultiHeadAttention", {3: 5, 4: 6, 5: 7}),
    ("Attention", "GroupQueryAttention", {3: 10, 4: 3, 5: 4}),
    ("Attention", "LinearAttention", {4: 3}),
    ("Attention", "CausalConvWithState", {4: 3}),
    ("GroupQueryAttention", "SparseAttention", {3: 3, 4: 4, 7: 9, 8: 10}),
    ("GroupQueryAttention", "PagedAttention", {3: 3, 4: 4, 7: 8, 8: 9}),
    ("Conv", "ConvInteger", {0: 0, 1: 1}),
    ("Conv", "QLinearConv", {0: 0, 1: 3, 2: 8}),
    ("Gemm", "QGemm", {0: 0, 1: 3, 2: 6}),
    ("MatMul", "MatMulInteger", {0: 0, 1: 1}),
    ("MatMul", "MatMulIntegerToFloat", {0: 0, 1: 1}),
    ("MatMul", "QLinearMatMul", {0: 0, 1: 3}),
    ("MatMul", "DynamicQuantizeMatMul", {1: 1}),
    ("MatMul", "MatMulNBits", {1: 1}),
    ("MatMul", "MatMulBnb4", {1: 1}),
    ("QLinearAdd", "QLinearMul", {index: index for index in range(8)}),
]


@pytest.mark.parametrize(("op", "twin", "inputs"), TWINS, ids=[f"{op} and {twin}" for op, twin, _ in TWINS])
def test_an_operator_and_its_twin_have_the_same_places(op: str, twin: str, inputs: dict[int, int]) -> None:
    ours, theirs = (find_places(Use(helper.make_node(name, [], []), 0, "")) for name in (op, twin))
    for first, second in inputs.items():
        assert (first in ours.weights, first in ours.kept) == (second in theirs.weights, second in theirs.kept), first


@pytest.mark.parametrize("is_quantized", [False, True])
def test_constant_states_of_an_lstm_are_no_parameters(is_quantized: bool) -> None:
    """Of 8 features and 6 units: (8 + 6) * 4 * 6 weights and 8 * 6 biases; 2 states of 2 sequences are none."""
    weights: dict[str, Any] = {"w": np.ones((1, 24, 8), F), "r": np.ones((1, 24, 6), F)}
    kept: dict[str, Any] = {}
    if is_quantized:
        weights = {"w": np.ones((1, 8, 24), np.int8), "r": np.ones((1, 6, 24), np.int8)}
        kept = {name: np.ones((1, 24), np.int8 if "z" in name else F) for name in ("ws", "wz", "rs", "rz")}
    rest = {"b": np.ones((1, 48), F), "h": np.ones((1, 2, 6), F), "c": np.ones((1, 2, 6), F)}
    op, domain = ("DynamicQuantizeLSTM", "com.microsoft") if is_quantized else ("LSTM", "")
    names = ["x", "w", "r", "b", "", "h", "c", *([""] if is_quantized else []), *kept]
    node = helper.make_node(op, names, ["y"], domain=domain, hidden_size=6)
    x = np.ones((5, 2, 8), F)
    assert count(make_model([node], {"x": x}, {**weights, **rest, **kept}), x=x)[0] == (8 + 6) * 4 * 6 + 8 * 6


def test_embeddings_of_bytes_are_parameters_and_their_scales_are_none() -> None:
    """Tables of 10 words, 6 positions and 2 segments of width 4, and the scale and the shift of the norm."""
    sizes = {"words": (10, 4), "positions": (6, 4), "segments": (2, 4), "gamma": (4,), "beta": (4,)}
    weights = {name: np.ones(size, np.uint8) for name, size in sizes.items()}
    scales = {f"s{index}": SCALE for index in range(5)}
    zeros = {f"z{index}": ZERO for index in range(5)}
    inputs = {name: np.zeros((1, 6), np.int32) for name in ("x", "segment")}
    names = [*inputs, *weights, "", *scales, *zeros]
    node = helper.make_node("QEmbedLayerNormalization", names, ["y", "m"], domain="com.microsoft")
    assert count(make_model([node], inputs, {**weights, **scales, **zeros}), **inputs)[0] == (10 + 6 + 2 + 1 + 1) * 4


def test_the_factors_of_an_older_upsampling_are_no_parameters() -> None:
    x = np.ones((1, 2, 3, 3), F)
    node = helper.make_node("Upsample", ["x", "factors"], ["y"], mode="linear")
    model = make_model([node], {"x": x}, {"factors": np.asarray([1, 1, 2, 2], F)}, opset=9)
    assert count(model, x=x) == (0, 4 * 4)


def test_experts_of_few_bits_have_as_many_parameters_as_numbers() -> None:
    """Four experts of 16 to 32 and 32 to 16 features, two numbers in each byte; scales are buffers, biases are not."""
    inputs = {"x": np.ones((2, 16), F), "router": np.ones((2, 4), F)}
    weights = {
        "up": np.ones((4, 32, 8), np.uint8),
        "up_scales": np.ones((4, 32), F),
        "up_bias": np.ones((4, 32), F),
        "down": np.ones((4, 16, 16), np.uint8),
        "down_scales": np.ones((4, 16), F),
        "down_bias": np.ones((4, 16), F),
    }
    node = helper.make_node("QMoE", [*inputs, *weights], ["y"], domain="com.microsoft", k=2, expert_weight_bits=4)
    elements, biases, scales = 2 * 4 * 16 * 32, 4 * (32 + 16), 4 * (32 + 16)
    assert count(make_model([node], inputs, weights), **inputs) == (
        elements + biases,
        elements // 2 + 4 * (biases + scales),
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_integers_that_an_unknown_operator_reads_may_be_weights(dtype: str) -> None:
    """Some quantizers pack eight weights of four bits into an integer of 32 bits."""
    node = helper.make_node("Novel", ["x", "w", "v"], ["y"], domain="com.example")
    model = make_model([node], {"x": X}, {"w": np.ones((3, 4), dtype), "v": W})
    status = profile(model, ModelInputs(x=X), metrics=["total_params"]).status("total_params")
    assert (status.value, status.completeness.value) == (12, "partial")
    assert status.missing == ("the weights that Novel has in integers",)


def test_no_operator_of_the_runtime_hides_its_work_or_its_weights() -> None:
    """One without a formula is named. A matrix of bytes that one reads counts, is kept beside weights, or is named."""
    runtime = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    names = {schema.name for schema in runtime.get_all_operator_schema() if schema.domain == "com.microsoft"}
    assert len(names) > 50
    for name in sorted(names):
        node = helper.make_node(name, ["x", "w", "w"], ["y"], domain="com.microsoft", K=3, N=4)
        trace = BACKEND.trace(make_model([node], {"x": X}, {"w": np.ones((3, 4), np.uint8)}), ModelInputs(x=X))
        places = [find_places(Use(node, position, "")) for position in (1, 2)]
        is_kept = all(position in place.kept for position, place in enumerate(places, 1))
        assert trace.total_params or is_kept or name in trace.unmade_weights, name
        is_counted = OPERATORS.is_known(f"com.microsoft::{name}")
        assert trace.failure or is_counted or any(name in missing for missing in trace.uncounted), name


def test_numbers_of_six_bits_take_three_bytes_for_four() -> None:
    from profilerkit_onnx.model.types import count_bytes

    element = getattr(TensorProto, "FLOAT6E2M3", None)
    if element is None:
        pytest.skip("this release of onnx has none")
    assert [count_bytes([size], element) for size in (4, 5)] == [3, 4]


def test_integers_that_bits_are_taken_out_of_may_be_weights() -> None:
    """As exporters write packed weights: eight numbers of four bits in each integer, spread out and shifted."""
    weights = {
        "packed": np.ones((1, 3, 4), np.uint32),
        "shifts": np.arange(0, 32, 4, dtype=np.uint32).reshape(8, 1, 1),
        "sizes": np.asarray([8, 3, 4]),
        "mask": np.asarray(15, np.uint32),
        "rows": np.asarray([24, 4]),
    }
    nodes = [
        helper.make_node("Expand", ["packed", "sizes"], ["spread"]),
        helper.make_node("BitShift", ["spread", "shifts"], ["shifted"], direction="RIGHT"),
        helper.make_node("BitwiseAnd", ["shifted", "mask"], ["four"]),
        helper.make_node("Cast", ["four"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["floats", "rows"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    x = np.ones((2, 24), F)
    report = profile(make_model(nodes, {"x": x}, weights), x, metrics=["macs", "total_params"])
    assert report["macs"] == 2 * 24 * 4
    assert report["total_params"] is None
    assert "not counted: the weights that BitShift has in integers" in str(report.status("total_params"))


BYTES = {"w": np.ones((3, 4, 4), np.int8), "s": np.asarray(1, F)}
UNPACK = [helper.make_node("DequantizeLinear", ["one", "s"], ["f"]), helper.make_node("MatMul", ["h", "f"], ["next"])]


def tensor(name: str, *shape: int, element: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def test_a_scan_uses_the_weights_that_it_is_given_a_turn_each() -> None:
    """Three matrices of 4 x 4 bytes."""
    inputs = [tensor("h", 2, 4), tensor("one", 4, 4, element=TensorProto.INT8)]
    body = helper.make_graph(UNPACK, "body", inputs, [tensor("next", 2, 4)])
    x = np.ones((2, 4), F)
    model = make_model([helper.make_node("Scan", ["x", "w"], ["y"], body=body, num_scan_inputs=1)], {"x": x}, BYTES)
    assert count(model, x=x) == (48, 48)


def test_a_loop_hands_a_weight_on_and_returns_it() -> None:
    """A matrix of 4 x 4 bytes, used in each turn, and behind the loop."""
    nodes = [
        *UNPACK,
        helper.make_node("Identity", ["one"], ["same"]),
        helper.make_node("Identity", ["go"], ["on"]),
    ]
    formals = [tensor("i", element=TensorProto.INT64), tensor("go", element=TensorProto.BOOL)]
    byte_matrix = tensor("one", 4, 4, element=TensorProto.INT8)
    results = [
        tensor("on", element=TensorProto.BOOL),
        tensor("next", 2, 4),
        tensor("same", 4, 4, element=TensorProto.INT8),
    ]
    body = helper.make_graph(nodes, "body", [*formals, tensor("h", 2, 4), byte_matrix], results)
    loop = helper.make_node("Loop", ["turns", "", "x", "w"], ["y", "v"], body=body)
    x, weights = np.ones((2, 4), F), {"turns": np.asarray(5), "w": np.ones((4, 4), np.int8), "s": np.asarray(1, F)}
    assert count(make_model([loop], {"x": x}, weights), x=x) == (16, 16)
    after = [helper.make_node("DequantizeLinear", ["v", "s"], ["g"]), helper.make_node("MatMul", ["y", "g"], ["z"])]
    assert count(make_model([loop, *after], {"x": x}, weights, ["z"]), x=x) == (16, 16)


@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_a_state_that_a_loop_begins_with_is_no_parameter(op: str) -> None:
    """A state of 2 x 4, which each turn multiplies with a matrix of 4 x 4."""
    multiply = helper.make_node("MatMul", ["h", "w"], ["next"])
    x, weights = np.ones((5, 2, 4), F), {"start": np.ones((2, 4), F), "w": np.ones((4, 4), F)}
    if op == "Scan":
        add = helper.make_node("Add", ["next", "part"], ["sum"])
        body = helper.make_graph(
            [multiply, add], "body", [tensor("h", 2, 4), tensor("part", 2, 4)], [tensor("sum", 2, 4)]
        )
        nodes = [helper.make_node("Scan", ["start", "x"], ["y"], body=body, num_scan_inputs=1)]
    else:
        formals = [tensor("i", element=TensorProto.INT64), tensor("go", element=TensorProto.BOOL)]
        go_on = helper.make_node("Identity", ["go"], ["on"])
        results = [tensor("on", element=TensorProto.BOOL), tensor("next", 2, 4)]
        body = helper.make_graph([multiply, go_on], "body", [*formals, tensor("h", 2, 4)], results)
        nodes = [helper.make_node("Loop", ["turns", "", "start"], ["last"], body=body)]
        nodes.append(helper.make_node("Add", ["x", "last"], ["y"]))
        weights["turns"] = np.asarray(3)
    model = make_model(nodes, {"x": x}, weights)
    assert count(model, x=x) == (16, 4 * (16 + 8))


def test_branches_may_choose_among_weights() -> None:
    """Either of two matrices of 3 x 4 bytes is unpacked behind the branches."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Identity", [f"w_{name}"], [f"chosen_{name}"])],
            name,
            [],
            [tensor(f"chosen_{name}", 3, 4, element=TensorProto.INT8)],
        )
        for name in ("then", "else")
    }
    nodes = [
        helper.make_node("If", ["c"], ["w"], **branches),
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"]),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    weights = {**{f"w_{name}": np.ones((3, 4), np.int8) for name in ("then", "else")}, "s": np.asarray(1, F)}
    condition = np.asarray(True)
    assert count(make_model(nodes, {"x": X, "c": condition}, weights), x=X, c=condition) == (24, 24)


#: What torch's exporter writes of a module with a parameter `g` and a buffer `table`.
SIGNATURE = "\n# inputs\np_g: PARAMETER target='g'\nb_table: BUFFER target='table' persistent=True\nx: USER_INPUT\n"


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize(
    ("name", "params"),
    [("g", 3), ("table", 0), ("zeros_1", 0), ("linear", 0), ("unsqueeze", 3), ("alias", 3), ("cat_2", 3), ("val_7", 0)],
)
def test_what_the_exporter_says_of_tensors_tells_parameters(name: str, params: int, op: str) -> None:
    """Its names for the results of operators tell what it has computed, and what is a parameter of another shape."""
    model = make_model([helper.make_node(op, ["x", name], ["y"])], {"x": X}, {name: np.full(3, 2, F)})
    assert count(model, x=X) == (0 if name == "val_7" else 3, 12), "by its dtype alone, unless the name tells"
    model.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=SIGNATURE)
    trace = BACKEND.trace(model, None)
    assert (trace.total_params, trace.size_bytes) == (params, 12)
    is_computed = name in ("zeros_1", "linear", "val_7")
    said = "the parameter g, of which the exporter may have made constants"
    assert trace.unmade_weights == (said if is_computed else "")


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("block.mix", "the parameter block.mix, of which the exporter may have made constants"),
        ("block.a\nblock.inner.b", "the parameter block.a and 1 other, of which the exporter may have made constants"),
        ("other.inner.mix", ""),
    ],
)
def test_a_parameter_that_is_not_near_to_what_was_computed_may_be_unused_or_tied(lost: str, said: str) -> None:
    """``block`` multiplies with "exp", which the exporter has computed."""
    node = helper.make_node("Mul", ["x", "exp"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'block', 'mul']")
    model = make_model([node], {"x": X}, {"exp": np.full(3, 2, F)})
    signature = "\n".join(f"p_{name.replace('.', '_')}: PARAMETER target='{name}'" for name in lost.split())
    model.graph.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=signature)
    assert BACKEND.trace(model, None).unmade_weights == said


@pytest.mark.parametrize(
    ("told", "read", "params"),
    [
        ("b_grid: BUFFER target='grid'", "%x, %view", 0),
        ("p_grid: PARAMETER target='grid'", "%x, %view", 3),
        ("p_grid: PARAMETER target='grid'\nb_other: BUFFER target='other'", "%x, %view", 3),
        ("b_grid: BUFFER target='grid'\np_other: PARAMETER target='other'", "%view, %p_other", 0),
    ],
)
def test_what_has_moved_is_a_parameter_if_one_is_missing(told: str, read: str, params: int) -> None:
    """``grid`` is in the file as ``view``, in another shape; ``other`` is read by an operator of torch as it is."""
    node = helper.make_node("Sub", ["x", "view"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=f"%sub : call_function[target=sub](args = ({read}))")
    model = make_model([node], {"x": X}, {"view": np.full((1, 3), 2, F)})
    model.metadata_props.add(key="pkg.torch.export.ExportedProgram.graph_signature", value=told)
    assert count(model, x=X) == (params, 12)


@pytest.mark.parametrize(("read", "params"), [("%p_norm_weight, %p_norm_bias", 3), ("%sin", 0)])
def test_a_parameter_that_the_exporter_has_given_dimensions_is_one(read: str, params: int) -> None:
    """So is the affine part of a group norm: the operator that the node is a part of reads parameters."""
    node = helper.make_node("Mul", ["x", "val_21"], ["y"])
    call = f"%group_norm : call_function[target=torch.ops.aten.group_norm.default](args = (%x, 2, {read}))"
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    assert count(make_model([node], {"x": X}, {"val_21": np.full((1, 3), 2, F)}), x=X) == (params, 12)


@pytest.mark.parametrize(("table", "params"), [("%p_experts", 2 * 3 * 4), ("%positions", 0)])
@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_a_parameter_that_the_exporter_has_turned_and_nodes_look_up_is_one(op: str, table: str, params: int) -> None:
    """The matrices of two experts, which it writes turned, as "val_8"; but no table that it has computed."""
    node = helper.make_node(op, ["val_8", "chosen"], ["y"])
    call = f"%index : call_function[target=torch.ops.aten.index.Tensor](args = ({table}, [%view]))"
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=call)
    chosen = np.zeros((5, 1), np.int64)
    assert count(make_model([node], {"chosen": chosen}, {"val_8": np.ones((2, 3, 4), F)}), chosen=chosen)[0] == params


def test_the_slopes_of_a_prelu_are_parameters_whatever_their_name() -> None:
    model = make_model([helper.make_node("PRelu", ["x", "val_1"], ["y"])], {"x": X}, {"val_1": np.full((1, 1), 0.2, F)})
    assert count(model, x=X) == (1, 4)
