"""Layers of Keras models in the names that tf2onnx writes: names of recorded exports, in small graphs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
from onnx import NodeProto, helper
from onnx_graphs import BACKEND, F, make_model

from profilerkit import ModelInputs, ModelTrace

SQUARE = np.ones((4, 4), F)
X = np.ones((2, 4), F)
#: Multiply-accumulates of x @ w, 2 x 4 by 4 x 4.
ONE = 2 * 4 * 4


def node(op: str, name: str, *inputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, list(inputs), [f"{name}:0"], name=name, **attributes)


def trace_nodes(*nodes: NodeProto, x: Any = X, producer: str = "tf2onnx", **weights: Any) -> ModelTrace:
    given = {"x": x}
    model = make_model(nodes, given, {"w": SQUARE, **weights}, [nodes[-1].output[0]], producer_name=producer)
    trace: ModelTrace = BACKEND.trace(model, ModelInputs(**given))
    assert trace.failure is None
    return trace


def table(trace: ModelTrace) -> dict[str, tuple[int, int]]:
    """Return calls and MACs of each layer by its path."""
    return {row["path"]: (row["calls"], row["macs"]) for row in trace.table}


def test_a_layer_called_twice_and_layers_inside_a_model() -> None:
    """``Sequential([Dense, Dense])`` after a shared layer: recorded names of Keras 3.15 and tf2onnx 1.17."""
    trace = trace_nodes(
        node("MatMul", "outer_1_1/shared_1/MatMul", "x", "w"),
        node("Relu", "outer_1_1/act_1/Relu", "outer_1_1/shared_1/MatMul:0"),
        node("MatMul", "outer_1_1/shared_3/MatMul", "outer_1_1/act_1/Relu:0", "w"),
        node("MatMul", "outer_1_1/inner_1/dense_1/MatMul", "outer_1_1/shared_3/MatMul:0", "w"),
        node("MatMul", "outer_1_1/inner_1/dense_1_2/MatMul", "outer_1_1/inner_1/dense_1/MatMul:0", "w"),
        node("Tanh", "outer_1_1/inner_1/dense_1_2/Tanh", "outer_1_1/inner_1/dense_1_2/MatMul:0"),
    )
    assert table(trace) == {
        "": (1, 4 * ONE),
        "shared": (2, 2 * ONE),
        "act": (1, 0),
        "inner": (1, 2 * ONE),
        "inner.dense": (1, ONE),
        "inner.dense_1": (1, ONE),
    }
    assert trace.layers[0].type == "outer_1"


def test_a_layer_has_the_type_of_the_operator_with_its_weight() -> None:
    """What only moves data tells no type, however many constants it reads, nor does what unpacks a weight."""
    trace = trace_nodes(
        node("Reshape", "m_1/dense_1/Tensordot/Reshape", "x", "shape"),
        node("MatMul", "m_1/dense_1/Tensordot/MatMul", "m_1/dense_1/Tensordot/Reshape:0", "w"),
        node("Reshape", "m_1/dense_1/Tensordot", "m_1/dense_1/Tensordot/MatMul:0", "shape"),
        node("DequantizeLinear", "m_1/packed_1/unpack", "narrow", "scales"),
        node("MatMul", "m_1/packed_1/MatMul", "m_1/dense_1/Tensordot:0", "m_1/packed_1/unpack:0"),
        node("QuantizeLinear", "m_1/packed_1/pack", "m_1/packed_1/MatMul:0", "step"),
        node("DequantizeLinear", "m_1/packed_1/unpacked", "m_1/packed_1/pack:0", "step"),
        node("Relu", "m_1/act_1/Relu", "m_1/packed_1/unpacked:0"),
        node("Reshape", "m_1/act_1/Reshape", "m_1/act_1/Relu:0", "shape"),
        node("Reshape", "m_1/reshape_1/Reshape", "m_1/act_1/Reshape:0", "shape"),
        shape=np.asarray([2, 4]),
        narrow=np.ones((4, 4), np.int8),
        scales=np.ones(4, F),
        step=np.asarray(1, F),
    )
    types = {layer.path: layer.type for layer in trace.layers if layer.path}
    assert types == {"dense": "MatMul", "packed": "MatMul", "act": "Relu", "reshape": "Reshape"}


def test_a_call_between_whose_nodes_another_layer_runs_is_one_call() -> None:
    """The scopes tell the call: a layer of two inputs multiplies one of them before ``act`` has made the other."""
    trace = trace_nodes(
        node("MatMul", "m_1/both_1/MatMul", "x", "w"),
        node("Relu", "m_1/act_1/Relu", "x"),
        node("MatMul", "m_1/both_1/MatMul_1", "m_1/act_1/Relu:0", "w"),
        node("Add", "m_1/both_1/Add", "m_1/both_1/MatMul:0", "m_1/both_1/MatMul_1:0"),
    )
    assert table(trace) == {"": (1, 2 * ONE), "both": (1, 2 * ONE), "act": (1, 0)}


def test_scopes_that_functions_open_are_no_layers() -> None:
    trace = trace_nodes(
        node("ReduceMean", "mixed_1/ln_1/moments/mean", "x"),
        node("Sub", "mixed_1/ln_1/moments/SquaredDifference", "x", "mixed_1/ln_1/moments/mean:0"),
        node("Mul", "mixed_1/ln_1/batchnorm/mul_1", "mixed_1/ln_1/moments/SquaredDifference:0", "w"),
        x=SQUARE,
    )
    assert table(trace) == {"": (1, 0), "ln": (1, 0)}
    assert [row["flops"] for row in trace.table] == [3 * 16, 3 * 16]


def test_a_function_that_comes_twice_is_no_layer() -> None:
    """TensorFlow numbers the second scope of a function as Keras numbers those of layers."""
    trace = trace_nodes(
        node("MatMul", "m_1/cell_1/mix/MatMul", "x", "w"),
        node("MatMul", "m_1/cell_1/mix_1/MatMul", "m_1/cell_1/mix/MatMul:0", "w"),
    )
    assert table(trace) == {"": (1, 2 * ONE), "cell": (1, 2 * ONE)}


@pytest.mark.parametrize(("scopes", "around"), [("net_1", ""), ("net_1/block_1", "block.")])
def test_a_layer_may_have_the_name_of_a_function(scopes: str, around: str) -> None:
    """Dense layers "stack" and "map": recorded names of Keras 3. A model's own ``tf.map_fn`` opens "map"."""
    first = node("MatMul", f"{scopes}/stack_1/MatMul", "x", "w")
    layers = [first, node("MatMul", f"{scopes}/map_1/MatMul", f"{scopes}/stack_1/MatMul:0", "w")]
    found = table(trace_nodes(*layers))
    assert (found[f"{around}stack"], found[f"{around}map"]) == ((1, ONE), (1, ONE))
    function = [node("MatMul", f"{scopes}/map/MatMul", f"{scopes}/stack_1/MatMul:0", "w")]
    function.append(node("MatMul", f"{scopes}/map_1/MatMul", f"{scopes}/map/MatMul:0", "w"))
    found = table(trace_nodes(first, *function))
    assert found[f"{around}stack"] == (1, ONE)
    assert f"{around}map" not in found
    assert found[around.rstrip(".")] == (1, 3 * ONE)


def test_a_function_in_a_layer_is_none_also_where_the_converter_has_folded_its_first_call() -> None:
    """Recorded names of an LSTM of Keras 3: the zeros that its first state is made of."""
    nodes = [node("MatMul", "net_1/lstm_1/zeros_1/MatMul", "x", "w")]
    nodes.append(node("MatMul", "net_1/lstm_1/MatMul", "net_1/lstm_1/zeros_1/MatMul:0", "w"))
    assert table(trace_nodes(*nodes)) == {"": (1, 2 * ONE), "lstm": (1, 2 * ONE)}


def test_scopes_without_numbers_are_taken_as_they_are() -> None:
    trace = trace_nodes(
        node("MatMul", "model/dense_1/MatMul", "x", "w"),
        node("MatMul", "model/dense/MatMul", "model/dense_1/MatMul:0", "w"),
        node("Relu", "model/dense/zeros/Relu", "model/dense/MatMul:0"),
    )
    assert table(trace) == {"": (1, 2 * ONE), "dense_1": (1, ONE), "dense": (1, ONE)}


def test_a_node_without_a_scope_is_where_all_of_its_neighbors_are() -> None:
    """The products of attention, which the converter makes of an einsum, and a transposition between two layers."""
    trace = trace_nodes(
        node("MatMul", "m_1/mha_1/query_1/MatMul", "x", "w"),
        node("MatMul", "m_1/mha_1/key_1/MatMul", "x", "w"),
        node("Transpose", "Transpose__216", "m_1/mha_1/key_1/MatMul:0", perm=[1, 0]),
        node("MatMul", "MatMul__220", "m_1/mha_1/query_1/MatMul:0", "Transpose__216:0"),
        node("Softmax", "m_1/mha_1/Softmax", "MatMul__220:0"),
        node("MatMul", "MatMul__142", "m_1/mha_1/Softmax:0", "m_1/mha_1/query_1/MatMul:0"),
        node("MatMul", "m_1/out_1/MatMul", "MatMul__142:0", "w"),
    )
    scores = 2 * 4 * 2
    assert table(trace) == {
        "": (1, 3 * ONE + 2 * scores),
        "mha": (1, 2 * ONE + scores),
        "mha.query": (1, ONE),
        "mha.key": (1, ONE),
        "out": (1, ONE),
    }


def test_a_recurrent_operator_is_where_its_initial_state_is() -> None:
    """Two LSTMs: steps 3, samples 2, 4 features, 4 units. The second one gets the first one's steps as they are."""

    def lstm(scope: str, name: str, source: str) -> list[NodeProto]:
        state = node("Expand", f"m_1/{scope}/zeros", "zero", "sizes")
        inputs = [source, "W", "R", "", "", f"{state.name}:0", f"{state.name}:0"]
        unit = helper.make_node("LSTM", inputs, [f"{name}:0"], name=name, hidden_size=4)
        return [state, unit, node("Squeeze", f"Squeeze_of_{name}", f"{name}:0", "one")]

    trace = trace_nodes(
        *lstm("lstm_1", "LSTM__52", "x"),
        *lstm("second_1", "LSTM__147", "Squeeze_of_LSTM__52:0"),
        node("MatMul", "m_1/head_1/MatMul", "Squeeze_of_LSTM__147:0", "w"),
        x=np.ones((3, 2, 4), F),
        W=np.ones((1, 16, 4), F),
        R=np.ones((1, 16, 4), F),
        zero=np.zeros((), F),
        sizes=np.asarray([1, 2, 4]),
        one=np.asarray([1]),
    )
    number = 3 * 2 * 16 * (4 + 4)
    assert table(trace) == {
        "": (1, 2 * number + 3 * ONE),
        "lstm": (1, number),
        "second": (1, number),
        "head": (1, 3 * ONE),
    }


def test_a_convolution_with_a_batch_norm_in_it_is_where_its_weight_is() -> None:
    filters = "sequential_1/stem_1/convolution/merged_input:0"
    weights: dict[str, Any] = {filters: np.ones((8, 3, 3, 3), F)}
    trace = trace_nodes(
        node("Conv", "sequential_1/norm_1/batchnorm/mul_1", "x", filters),
        node("Relu", "sequential_1/act_1/Relu", "sequential_1/norm_1/batchnorm/mul_1:0"),
        x=np.ones((1, 3, 5, 5), F),
        **weights,
    )
    assert table(trace) == {"": (1, 8 * 9 * 27), "stem": (1, 8 * 9 * 27), "act": (1, 0)}


def test_nodes_from_the_condition_of_a_loop_are_in_its_layer() -> None:
    trace = trace_nodes(
        node("Less", "m_1_gru_1_while_cond_frozen_3044_m_1/gru_1/while/Less_1", "x", "w"),
        node("Cast", "m_1/gru_1/Cast", "m_1_gru_1_while_cond_frozen_3044_m_1/gru_1/while/Less_1:0", to=1),
        x=SQUARE,
    )
    assert list(table(trace)) == ["", "gru"]


def test_names_of_another_exporter_are_read_as_before() -> None:
    trace = trace_nodes(node("MatMul", "/dense_1/MatMul", "x", "w"), producer="pytorch")
    assert list(table(trace)) == ["", "dense_1"]
