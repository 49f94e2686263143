"""The work on nonzero weights alone, by hand: of stored, external and quantized weights, and in branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_graphs import BACKEND, F, make_graph, make_model, make_unknown

from profilerkit import InputError, ModelInputs, NotOfferedError, WithoutValuesError, profile

MS = "com.microsoft"
X = np.ones((2, 4), F)


def with_zeros(zeros: int, *shape: int, dtype: Any = F, zero: int = 0) -> np.ndarray[Any, Any]:
    """Return an array of sevens, ``zeros`` of which are zero."""
    array = np.full(shape, 7, dtype)
    array.reshape(-1)[:zeros] = zero
    return array


def count_macs(node: Any, inputs: dict[str, Any], weights: dict[str, Any], outputs: tuple[str, ...] = ("y",)) -> int:
    nodes = node if isinstance(node, list) else [node]
    model = make_model(nodes, inputs, weights, outputs)
    macs: int = BACKEND.trace_nonzero(model, ModelInputs(**inputs)).macs
    return macs


def node(op: str, inputs: str, domain: str = "", outputs: str = "y", **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), domain=domain, **attributes)


BYTE = np.uint8
IMAGE = {"x": np.ones((1, 2, 5, 5), F)}
ROWS = {"x": X}
BYTES = {"x": np.ones((2, 4), BYTE)}
SCALES = {"s": np.array(0.5, F), "t": np.array(0.5, F), "u": np.array(0.5, F)}
POINTS = {"z": np.array(0, BYTE), "q": np.array(7, BYTE), "r": np.array([7, 0, 0], BYTE)}
#: Node, inputs, weights and the multiply-accumulates that are left, by hand.
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any], int]] = {
    # 2 rows meet 12 - 5 weights
    "MatMul": (node("MatMul", "x w"), ROWS, {"w": with_zeros(5, 4, 3)}, 14),
    "Gemm, turned": (node("Gemm", "x w b", transB=1), ROWS, {"w": with_zeros(5, 3, 4), "b": with_zeros(3, 3)}, 14),
    "Gemm, an addend is no factor": (
        node("Gemm", "x w c"),
        ROWS,
        {"w": with_zeros(0, 4, 3), "c": np.zeros((2, 3), F)},
        24,
    ),
    "Einsum": (node("Einsum", "x w", equation="ik,kj->ij"), ROWS, {"w": with_zeros(5, 4, 3)}, 14),
    "MatMul with a vector": (node("MatMul", "x w"), ROWS, {"w": with_zeros(1, 4)}, 2 * 3),
    "Einsum with a vector": (node("Einsum", "x w", equation="ik,k->i"), ROWS, {"w": with_zeros(1, 4)}, 2 * 3),
    # 25 positions meet 3 * 2 * 9 - 10 weights
    "Conv": (node("Conv", "x w", pads=[1] * 4), IMAGE, {"w": with_zeros(10, 3, 2, 3, 3)}, 25 * 44),
    # 25 input positions meet 2 * 3 * 4 - 6 weights
    "ConvTranspose": (node("ConvTranspose", "x w"), IMAGE, {"w": with_zeros(6, 2, 3, 2, 2)}, 25 * 18),
    # 6 steps of 1 sample: 12 * 2 + 12 * 3 weights, 10 and 20 of them zero
    "LSTM": (
        node("LSTM", "x w r"),
        {"x": np.ones((6, 1, 2), F)},
        {"w": with_zeros(10, 1, 12, 2), "r": with_zeros(20, 1, 12, 3)},
        6 * (60 - 30),
    ),
    # 2 tokens meet 1 of 5 experts each: 5 * 28 of 5 * 56 weights are zero
    "MoE": (
        node("MoE", "x p w - v", MS),
        ROWS,
        {"p": np.ones((2, 5), F), "w": with_zeros(5 * 28, 5, 7, 4), "v": with_zeros(0, 5, 4, 7)},
        28 + 28,
    ),
    "masked": (
        [node("Mul", "w m", outputs="h"), node("MatMul", "x h")],
        ROWS,
        {"w": with_zeros(0, 4, 3), "m": with_zeros(5, 4, 3)},
        14,
    ),
    "turned before": (
        [node("Transpose", "w", outputs="h"), node("MatMul", "x h")],
        ROWS,
        {"w": with_zeros(5, 3, 4)},
        14,
    ),
    # 2 of the 12 bytes are the zero point, and none is 0
    "dequantized": (
        [node("DequantizeLinear", "w s q", outputs="h"), node("MatMul", "x h")],
        ROWS,
        {"w": with_zeros(10, 4, 3, dtype=BYTE, zero=9), **SCALES, **POINTS},
        20,
    ),
    "dequantized by onnxruntime's": (
        [node("DequantizeLinear", "w s q", MS, outputs="h"), node("MatMul", "x h")],
        ROWS,
        {"w": with_zeros(10, 4, 3, dtype=BYTE, zero=9), **SCALES, **POINTS},
        20,
    ),
    "MatMulInteger, no zero point": (node("MatMulInteger", "x w"), BYTES, {"w": with_zeros(5, 4, 3, dtype=BYTE)}, 14),
    # 3 of 4 elements of the first column are its point, 7; in the others 2 elements are 0
    "MatMulInteger, a point for each column": (
        node("MatMulInteger", "x w - r"),
        BYTES,
        {"w": np.array([[7, 0, 7], [7, 0, 7], [7, 7, 7], [0, 7, 7]], BYTE), **POINTS},
        2 * (12 - 3 - 2),
    ),
    "QLinearMatMul": (
        node("QLinearMatMul", "x s z w t q u z"),
        BYTES,
        {"w": with_zeros(5, 4, 3, dtype=BYTE), **SCALES, **POINTS},
        2 * 5,
    ),
    "QLinearConv": (
        node("QLinearConv", "x s z w t r u z"),
        {"x": np.ones((1, 1, 3, 3), BYTE)},
        # three filters of 4 elements: all of the first are its point, 7; none of the others is 0
        {"w": np.full((3, 1, 2, 2), 7, BYTE), **SCALES, **POINTS},
        4 * 8,
    ),
    "QGemm, turned": (
        node("QGemm", "x s z w t r - u z", MS, transB=1),
        BYTES,
        {"w": np.full((3, 4), 7, BYTE), **SCALES, **POINTS},
        2 * 8,
    ),
    # 2 * 3 rows meet 4 * 12 weights, 8 of them zero; 2 samples of 1 head: 9 scores of width 4, twice
    "Attention with its projections": (
        node("Attention", "x w", MS, num_heads=1),
        {"x": np.ones((2, 3, 4), F)},
        {"w": with_zeros(8, 4, 12)},
        6 * 40 + 2 * 9 * 4 * 2,
    ),
    "attention between activations": (
        node("Attention", "x k k"),
        {"x": np.ones((1, 1, 3, 4), F)},
        {"k": with_zeros(12, 1, 1, 3, 4)},
        9 * 4 * 2,
    ),
    # nothing of it is a tensor of the file: ones of the sizes of the input
    "made of sizes": (
        [node("Shape", "x", outputs="n"), node("ConstantOfShape", "n", outputs="h"), node("MatMul", "x h")],
        {"x": np.ones((4, 4), F)},
        {},
        64,
    ),
    # 2 rows meet 4 * 2000 - 5000 weights, more than are read when the graph is walked
    "a node with many elements": (
        [
            node("Constant", "", outputs="w", value=numpy_helper.from_array(with_zeros(5000, 4, 2000))),
            node("MatMul", "x w"),
        ],
        ROWS,
        {},
        2 * 3000,
    ),
    "packed weights are not looked at": (
        node("MatMulNBits", "x w s", MS, K=32, N=3, bits=4, block_size=32),
        {"x": np.ones((2, 32), F)},
        {"w": np.zeros((3, 1, 16), BYTE), "s": np.ones(3, F)},
        2 * 32 * 3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_work_is_left_out_by_the_zeros_of_each_weight(case: str) -> None:
    nodes, inputs, weights, macs = CASES[case]
    assert count_macs(nodes, inputs, weights) == macs


@pytest.mark.parametrize("opset", [10, 13, 17, 18, 19, 21])
@pytest.mark.parametrize("scale", [np.array(0.5, F), np.array([0.5], F)], ids=["scalar", "row"])
def test_zeros_of_a_quantized_weight_are_known_in_each_operator_set(opset: int, scale: Any) -> None:
    """Of 12 weights, which are quantized and go back to floats, 5 are zero; 2 rows meet the others."""
    nodes = [
        node("QuantizeLinear", "w s z", outputs="q"),
        node("DequantizeLinear", "q s z", outputs="f"),
        node("MatMul", "x f"),
    ]
    weights = {"w": with_zeros(5, 4, 3), "s": scale, "z": np.full(scale.shape, 3, BYTE)}
    model = make_model(nodes, ROWS, weights, opset=opset)
    assert BACKEND.trace_nonzero(model, ModelInputs(X)).macs == 14


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_zeros_of_a_weight_with_a_scale_for_each_column_are_known(opset: int) -> None:
    """3 of 4 bytes of the first column are its zero point, 7; in the others 2 are 0."""
    weights = {
        "w": np.array([[7, 0, 7], [7, 0, 7], [7, 7, 7], [0, 7, 7]], BYTE),
        "s": np.full(3, 0.5, F),
        "z": np.array([7, 0, 0], BYTE),
    }
    nodes = [node("DequantizeLinear", "w s z", outputs="f", axis=1), node("MatMul", "x f")]
    model = make_model(nodes, ROWS, weights, opset=opset)
    assert BACKEND.trace_nonzero(model, ModelInputs(X)).macs == 2 * (12 - 3 - 2)


def test_flops_are_less_by_the_products_alone() -> None:
    model = make_model([node("Gemm", "x w b")], ROWS, {"w": with_zeros(5, 4, 3), "b": with_zeros(3, 3)})
    assert BACKEND.trace_nonzero(model, ModelInputs(X)).flops == 2 * 14 + 6  # the bias is added to each of 6 results


def product(weight: np.ndarray[Any, Any]) -> Any:
    return make_model([node("MatMul", "x w")], {"x": np.ones((2, len(weight)), F)}, {"w": weight})


def test_weights_in_the_file_and_beside_it_are_read_one_by_one_and_not_kept(tmp_path: Path) -> None:
    model, path = product(with_zeros(1000, 200, 300)), tmp_path / "model.onnx"
    for beside in (False, True):
        onnx.save(model, path, save_as_external_data=beside, location="weights.bin", size_threshold=0)
        report = profile(path, np.ones((2, 200), F), metrics=["macs", "effective_macs"])
        assert (report["macs"], report["effective_macs"]) == (120_000, 118_000)
        proto = BACKEND.open_model(path)
        before = proto.SerializeToString()
        BACKEND.trace_nonzero(proto, ModelInputs(np.ones((2, 200), F)))
        BACKEND.zero_weights(proto)
        assert proto.SerializeToString() == before
        assert len(before) < 2000
    (tmp_path / "weights.bin").unlink()
    status = profile(path, np.ones((2, 200), F), metrics=["effective_macs"]).status("effective_macs")
    assert "is missing in its folder" in str(status.missing)
    with pytest.raises(WithoutValuesError, match="is missing in its folder"):
        BACKEND.trace_nonzero(BACKEND.open_model(path), ModelInputs(np.ones((2, 200), F)))


def test_a_file_that_has_changed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(product(with_zeros(1000, 200, 300)).SerializeToString())
    proto = BACKEND.open_model(path)
    path.write_bytes(b"changed")
    with pytest.raises(InputError, match="has changed or is gone since the model was opened"):
        BACKEND.trace_nonzero(proto, ModelInputs(np.ones((2, 200), F)))


#: Three matrices of 4 x 3, without zeros in the second alone.
MATRICES = np.stack([with_zeros(9, 4, 3), np.ones((4, 3), F), with_zeros(9, 4, 3)])
ROW = {"x": np.ones((1, 4), F)}


@pytest.mark.parametrize("before", [node("Identity", "part", outputs="h"), node("Mul", "part mask", outputs="h")])
def test_a_weight_that_a_scan_slices_counts_in_full(before: Any) -> None:
    product, carried = node("MatMul", "state h", outputs="out"), node("Identity", "state", outputs="next")
    body = make_graph([before, product, carried], ["state", "part"], ["next", "out"], {"mask": np.ones((4, 3), F)})
    scan = node("Scan", "x w", outputs="last y", body=body, num_scan_inputs=1)
    assert count_macs(scan, ROW, {"w": MATRICES}, ("last", "y")) == 3 * 12


def make_loop(index: str, next_: str, result: str) -> Any:
    """Make a loop of three turns that looks up ``w[index]``; ``i`` is carried from turn to turn."""
    body_nodes = [
        node("Identity", index, outputs="index"),
        node(next_.partition(" ")[0], next_.partition(" ")[2], outputs="next"),
        node("Gather", "w index", outputs="own"),
        node("MatMul", "x own", outputs="out"),
        node("Identity", "goes_on", outputs="still"),
    ]
    numbers = {"one": np.array(1), "two": np.array(2)}
    body = make_graph(body_nodes, ["number", "goes_on", "i"], ["still", "next", result], numbers)
    return node("Loop", "turns - begin", outputs="last y", body=body)


@pytest.mark.parametrize("index", ["number", "i"])
@pytest.mark.parametrize("next_", ["Add i one", "Mul i one", "Sub two i"])
def test_a_weight_that_the_turn_of_a_loop_selects_counts_in_full(index: str, next_: str) -> None:
    weights = {"turns": np.array(3), "begin": np.array(0), "w": MATRICES}
    assert count_macs(make_loop(index, next_, "out"), ROW, weights, ("y",)) == 3 * 12


def test_a_weight_that_is_the_same_in_each_turn_counts_in_each() -> None:
    """The second matrix, of which 3 of 12 elements are left, in 3 turns."""
    weights = {"turns": np.array(3), "begin": np.array(0), "w": MATRICES[[1, 0, 1]]}
    assert count_macs(make_loop("one", "Add i one", "out"), ROW, weights, ("y",)) == 3 * 3


def test_a_state_that_a_loop_begins_with_is_no_weight() -> None:
    """``i`` becomes ``i @ w``, of 4 x 4 with 5 zeros, in each of 3 turns: 2 rows meet 11 elements."""
    nodes = [node("MatMul", "i w", outputs="next"), node("Identity", "goes_on", outputs="still")]
    body = make_graph(nodes, ["number", "goes_on", "i"], ["still", "next"])
    weights = {"turns": np.array(3), "begin": with_zeros(3, 2, 4), "w": with_zeros(5, 4, 4)}
    loop = node("Loop", "turns - begin", body=body)
    macs = count_macs([loop, node("Add", "y x", outputs="z")], {"x": np.ones((2, 4), F)}, weights, ("z",))
    assert macs == 3 * 2 * 11


def test_the_weight_that_a_loop_leaves_behind_counts_in_full() -> None:
    nodes = [node("Gather", "w number", outputs="own"), node("Identity", "goes_on", outputs="still")]
    body = make_graph(nodes, ["number", "goes_on", "before"], ["still", "own"])
    loop = node("Loop", "turns - begin", outputs="last", body=body)
    weights = {"turns": np.array(3), "begin": np.ones((4, 3), F), "w": MATRICES}
    assert count_macs([loop, node("MatMul", "x last")], ROW, weights) == 12


def test_branches_cost_what_is_left_of_them() -> None:
    """The branch with more zeros is the cheaper one, and both ends are known."""
    sides = {
        name: make_graph([node("MatMul", f"x {name}", outputs=f"y_{name}")], [], [f"y_{name}"], {name: weight})
        for name, weight in {"w": with_zeros(5, 4, 3), "v": with_zeros(9, 4, 3)}.items()
    }
    branches = helper.make_node("If", ["c"], ["y"], then_branch=sides["w"], else_branch=sides["v"])
    model = make_model([branches], {"c": np.array(True), "x": X})
    trace = BACKEND.trace_nonzero(model, make_unknown(c=np.array(True), x=X))
    assert trace.macs == 14
    [choice] = trace.choices
    assert [sum(macs for macs, _ in branch.work.values()) for branch in choice.branches] == [14, 6]


def test_a_damaged_weight_is_named() -> None:
    model = product(with_zeros(0, 200, 300))
    model.graph.initializer[0].raw_data = b"12345678"
    with pytest.raises(InputError, match="the values of the weight 'w' cannot be read: .*; export the model again"):
        BACKEND.trace_nonzero(model, ModelInputs(np.ones((2, 200), F)))


def test_zero_points_that_do_not_fit_are_named() -> None:
    points = {"w": with_zeros(0, 4, 3, dtype=BYTE), "r": np.zeros(5, BYTE)}
    with pytest.raises(InputError, match=r"a weight of the shape \(4, 3\) does not fit its zero points or indices"):
        count_macs(node("MatMulInteger", "x w - r"), BYTES, points)


def test_a_weight_that_cannot_be_computed_is_said() -> None:
    """The operator is onnxruntime's, and onnx's reference has none of these."""
    nodes = [node("FusedMatMul", "w w", MS, outputs="h", transB=1), node("MatMul", "x h")]
    with pytest.raises(NotOfferedError, match="com.microsoft::FusedMatMul of the node 'h', which makes weights"):
        count_macs(nodes, ROWS, {"w": with_zeros(5, 4, 3)})


def test_each_of_many_weights_in_a_chain_is_computed_once() -> None:
    """100 sums read the weight before twice; 1900 copies follow. 2 rows meet 80 * 60 - 800 weights."""
    chain = [node("Add", f"w{step} w{step}", outputs=f"w{step + 1}") for step in range(100)]
    chain += [node("Identity", f"w{step}", outputs=f"w{step + 1}") for step in range(100, 2000)]
    x = {"x": np.ones((2, 80), F)}
    assert count_macs([*chain, node("MatMul", "x w2000")], x, {"w0": with_zeros(800, 80, 60)}) == 2 * (4800 - 800)
