"""What each operator of LiteRT's schema costs: values by hand, and no operator that is silently free."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ai_edge_litert")
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from litert_models import options

from profilerkit.backend_kit.operator_calls import Shapes
from profilerkit.costs import Cost, Shape
from profilerkit_litert import LiteRTBackend, LiteRTCall, register_op_cost
from profilerkit_litert.costs import OPERATORS, price, scoped_costs
from profilerkit_litert.model.graphs import Operator
from profilerkit_litert.trace.shapes import infer

OPERATOR_NAMES = [name for name in vars(schema.BuiltinOperator) if not name.startswith("_")]
#: Operators that hold graphs: the walk goes into these.
HOLDING_GRAPHS = {
    *("CALL", "CALL_ONCE", "IF", "WHILE"),
    *("STABLEHLO_COMPOSITE", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SCATTER", "STABLEHLO_WHILE"),
}
#: Operators that are reported as not counted, and why.
NOT_COUNTED = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": "written by old converters alone",
    "BIDIRECTIONAL_SEQUENCE_RNN": "written by old converters alone",
    "CONCAT_EMBEDDINGS": "no kernel, and no definition",
    "CUSTOM": "by its own name",
    "DELEGATE": "made by a runtime alone",
    "LSH_PROJECTION": "hashes of any length",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": "no operator",
    "STABLEHLO_CASE": "any number of graphs; no kernel",
    "STABLEHLO_CUSTOM_CALL": "whatever its name says",
    "STABLEHLO_REDUCE": "by a graph of its own; the converter turns it into others",
}


def call(
    operator: str, inputs: Sequence[Any], *outputs: tuple[int, ...], dtype: str = "float32", **further: Any
) -> Any:
    """Return the cost of a call with inputs of these shapes, None for one that is left out, and what is missing."""
    chosen = Operator(operator, (), (), further.get("options"))
    values = further.get("values", {})
    return price(
        LiteRTCall(
            operator,
            Shapes([None if shape is None else Shape(shape) for shape in inputs]),
            Shapes([Shape(shape) for shape in outputs]),
            tuple(further.get("dtypes") or ("" if shape is None else dtype for shape in inputs)),
            (further.get("result", dtype),) * len(outputs),
            chosen.option,
            value=values.get,
        )
    )


def macs(number: int, further: int = 0) -> tuple[Cost, str]:
    return Cost(number, 2 * number + further), ""


def flops(number: int) -> tuple[Cost, str]:
    return Cost(0, number), ""


@pytest.mark.parametrize("name", OPERATOR_NAMES)
def test_every_operator_is_priced_or_named(name: str) -> None:
    ways = [OPERATORS.is_known(name), name in HOLDING_GRAPHS, name in NOT_COUNTED]
    assert ways.count(True) == 1
    if name in NOT_COUNTED:
        assert call(name, [(2, 3)], (2, 3)) == (Cost(0, 0), name)


def test_the_operators_that_are_named_are_in_the_schema() -> None:
    known = {*OPERATORS.free, *OPERATORS.elementwise, *OPERATORS.reductions, *HOLDING_GRAPHS, *NOT_COUNTED}
    assert known <= set(OPERATOR_NAMES)


POOL = options("Pool2D", filterHeight=3, filterWidth=2, strideH=1, strideW=1)
RELU6 = options("Conv2D", fusedActivationFunction=3)
LSTM_SIZES = [(8, 5), *[(16, 5)] * 4, *[(16, 16)] * 4]
CASES = {
    # 2 * 4 * 4 * 6 outputs, each of 3 * 3 * 5 elements; an addition and, for ReLU6, two comparisons for each
    "convolution": (
        call("CONV_2D", [(2, 4, 4, 5), (6, 3, 3, 5), (6,)], (2, 4, 4, 6), options=RELU6),
        macs(192 * 45, 192 * 3),
    ),
    "grouped": (call("CONV_2D", [(1, 4, 4, 6), (8, 3, 3, 2), (8,)], (1, 4, 4, 8)), macs(128 * 18, 128)),
    "depthwise": (call("DEPTHWISE_CONV_2D", [(1, 4, 4, 6), (1, 3, 3, 6), (6,)], (1, 4, 4, 6)), macs(96 * 9, 96)),
    "of volumes": (call("CONV_3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 5)], (1, 2, 2, 2, 5)), macs(40 * 54)),
    # each of 2 * 2 * 3 inputs meets 3 * 3 * 5 elements
    "transposed": (call("TRANSPOSE_CONV", [(4,), (5, 3, 3, 3), (1, 2, 2, 3)], (1, 4, 4, 5)), macs(12 * 45)),
    "of volumes, transposed": (
        call("CONV_3D_TRANSPOSE", [(5,), (2, 2, 2, 4, 3), (1, 2, 2, 2, 3)], (1, 4, 4, 4, 4)),
        macs(24 * 32),
    ),
    "of quantized": (
        call("CONV_2D", [(1, 4, 4, 5), (6, 3, 3, 5), (6,)], (1, 4, 4, 6), dtype="int8", options=RELU6),
        macs(96 * 45),
    ),
    "fully connected": (call("FULLY_CONNECTED", [(3, 7), (4, 7), (4,)], (3, 4)), macs(84, 12)),
    "without a bias": (call("FULLY_CONNECTED", [(3, 7), (4, 7), None], (3, 4)), macs(84)),
    "matrix product": (call("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], (2, 3, 5)), macs(120)),
    "of a transpose": (
        call("BATCH_MATMUL", [(2, 4, 3), (2, 4, 5)], (2, 3, 5), options=options("BatchMatMul", adjX=True)),
        macs(120),
    ),
    # batch 2, 6 filters of 4 features over 8 steps; 2 units of rank 3: two additions each, and a bias
    "svdf": (call("SVDF", [(2, 4), (6, 4), (6, 8), (2,), (2, 48)], (2, 2)), macs(2 * 6 * 12, 2 * 2 * 2 + 4)),
    "average": (call("AVERAGE_POOL_2D", [(1, 4, 4, 5)], (1, 2, 3, 5), options=POOL), flops(30 * 6)),
    "maximum": (call("MAX_POOL_2D", [(1, 4, 4, 5)], (1, 2, 3, 5), options=POOL), flops(30 * 6)),
    "root mean square": (call("L2_POOL_2D", [(1, 4, 4, 5)], (1, 2, 3, 5), options=POOL), flops(30 * 6 * 2)),
    "windows": (
        call(
            "REDUCE_WINDOW",
            [(9,), (), (1,)],
            (7,),
            options=options("ReduceWindow", reduceFunction=1),
            values={2: np.array([3])},
        ),
        flops(21),
    ),
    "windows of any shape": (call("REDUCE_WINDOW", [(9,), (), (1,)], (7,)), (Cost(0, 0), "REDUCE_WINDOW")),
    # four neighbours: four products and three additions for each of 8 * 8 * 3
    "larger": (call("RESIZE_BILINEAR", [(1, 4, 4, 3), (2,)], (1, 8, 8, 3)), flops(192 * 7)),
    "wider": (call("RESIZE_BILINEAR", [(1, 4, 4, 3), (2,)], (1, 4, 8, 3)), flops(96 * 3)),
    "sum": (call("SUM", [(2, 5), (1,)], (2,)), flops(10)),
    "mean of integers": (call("MEAN", [(2, 5), (1,)], (2,), dtype="int8"), flops(0)),
    "softmax": (call("SOFTMAX", [(2, 5)], (2, 5)), flops(50)),
    "softmax with beta": (call("SOFTMAX", [(2, 5)], (2, 5), options=options("Softmax", beta=2.0)), flops(60)),
    "softmax of integers": (call("SOFTMAX", [(2, 5)], (2, 5), dtype="int8"), flops(0)),
    "gelu": (call("GELU", [(2, 5)], (2, 5)), flops(50)),
    "gelu by tanh": (call("GELU", [(2, 5)], (2, 5), options=options("Gelu", approximate=True)), flops(80)),
    "sum of three": (call("ADD_N", [(2, 5)] * 3, (2, 5)), flops(20)),
    "sum with relu": (
        call("ADD", [(2, 5), (5,)], (2, 5), options=options("Add", fusedActivationFunction=1)),
        flops(20),
    ),
    "zero": (call("ADD", [(2, 5), ()], (2, 5), values={1: np.zeros(())}), flops(0)),
    "one": (call("MUL", [(2, 5), ()], (2, 5), values={1: np.ones(())}), flops(0)),
    "quantize": (call("QUANTIZE", [(2, 5)], (2, 5), result="int8"), flops(40)),
    "requantize": (call("QUANTIZE", [(2, 5)], (2, 5), dtype="int8"), flops(0)),
    "dequantize": (call("DEQUANTIZE", [(2, 5)], (2, 5), dtype="int8", result="float32"), flops(20)),
    "unpack float16": (call("DEQUANTIZE", [(2, 5)], (2, 5), dtype="float16", result="float32"), flops(0)),
    # a power and a sum, and a division
    "l2": (call("L2_NORMALIZATION", [(2, 5)], (2, 5)), flops(30)),
    # a window of 5: power, 5 additions, product, addition, power, division
    "local response": (
        call("LOCAL_RESPONSE_NORMALIZATION", [(2, 5)], (2, 5), options=options("LocalResponseNormalization", radius=2)),
        flops(100),
    ),
    # 5 n log2(n) of 2 images of 32 points, half of it
    "fourier": (
        call("RFFT2D", [(2, 4, 8), (2,)], (2, 4, 5), result="complex64", values={1: np.array([4, 8])}),
        flops(800),
    ),
    "size": (call("COMPLEX_ABS", [(2, 5)], (2, 5), dtype="complex64", result="float32"), flops(40)),
    # 8 samples; a product and an addition in the cell, a tanh
    "rnn": (
        call("RNN", [(8, 5), (3, 5), (3, 3), (3,), (8, 3)], (8, 3), options=options("RNN", fusedActivationFunction=4)),
        macs(8 * 24, 8 * (3 + 6)),
    ),
    "rnn of another kind": (call("RNN", [(8, 5), (3, 5), (3, 3), (3,), (8, 3)], (8, 3)), (Cost(0, 0), "RNN")),
    # 8 positions, four gates of 16 units: 4 * 16 * 21 products, four biases, 13 operations for each unit
    "lstm": (
        call(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            [*LSTM_SIZES, *[None] * 3, *[(16,)] * 4, *[None] * 2, (2, 16), (2, 16)],
            (8, 16),
        ),
        macs(8 * 1344, 8 * (64 + 208)),
    ),
    "with peepholes": (
        call("UNIDIRECTIONAL_SEQUENCE_LSTM", [*LSTM_SIZES, *[(16,)] * 7, *[None] * 2, (2, 16), (2, 16)], (8, 16)),
        macs(8 * 1344, 8 * (64 + 208 + 2 * 48)),
    ),
    "with a projection": (
        call(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            [*LSTM_SIZES, *[None] * 3, *[(16,)] * 4, (7, 16), None, (2, 16), (2, 16)],
            (8, 7),
        ),
        macs(8 * (1344 + 112), 8 * (64 + 208)),
    ),
    "with a projection, both clipped": (  # the states of 16 cells and 7 results, two comparisons for each
        call(
            "UNIDIRECTIONAL_SEQUENCE_LSTM",
            [*LSTM_SIZES, *[None] * 3, *[(16,)] * 4, (7, 16), None, (2, 16), (2, 16)],
            (8, 7),
            options=options("UnidirectionalSequenceLSTM", fusedActivationFunction=4, cellClip=3.0, projClip=2.0),
        ),
        macs(8 * (1344 + 112), 8 * (64 + 208 + 2 * 16 + 2 * 7)),
    ),
    "with coupled gates": (
        call("UNIDIRECTIONAL_SEQUENCE_LSTM", [(8, 5), None, *LSTM_SIZES[2:], *[(16,)] * 7], (8, 16)),
        (Cost(0, 0), "UNIDIRECTIONAL_SEQUENCE_LSTM"),
    ),
    **{
        f"{kind} with the activation {function} in place of tanh": (
            call(
                kind,
                [*LSTM_SIZES, *[None] * 3, *[(16,)] * 4, *[None] * 2, (2, 16), (2, 16)],
                (8, 16),
                options=options(kind_of_options, fusedActivationFunction=function),
            ),
            (Cost(0, 0), kind),
        )
        for kind, kind_of_options in {
            "LSTM": "LSTM",
            "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
        }.items()
        for function in (0, 1, 2, 3, 5)  # none, three kinds of ReLU, the sign
    },
    # the basic kernel: four gates of 3 units over 5 + 3 values, whose biases are among the gates' additions
    "basic lstm": (
        call("LSTM", [(2, 5), (2, 3), (12, 8), (12,), (2, 3)], (2, 3), options=options("LSTM", kernelType=1)),
        macs(2 * 96, 2 * 3 * 13),
    ),
    "scatter": (call("SCATTER_ND", [(4, 1), (4, 5), (2,)], (9, 5)), flops(20)),
    # 6 look-ups of rows of 5, with a product and an addition for each element
    "embedding bag": (call("EMBEDDING_LOOKUP_SPARSE", [(6,), (6, 2), (2,), (6,), (9, 5)], (3, 5)), flops(60)),
    # 3 pairs of 12 operations, 3 areas of 3
    "suppression": (call("NON_MAX_SUPPRESSION_V4", [(3, 4), (3,), (), (), ()], (3,)), flops(45)),
    "stablehlo convolution": (
        call(
            "STABLEHLO_CONVOLUTION",
            [(1, 4, 4, 5), (3, 3, 5, 6)],
            (1, 4, 4, 6),
            options=options("StablehloConvolution", kernelOutputFeatureDimension=3),
        ),
        macs(96 * 45),
    ),
    "stablehlo product": (
        call(
            "STABLEHLO_DOT_GENERAL",
            [(2, 3, 4), (2, 4, 5)],
            (2, 3, 5),
            options=options("StablehloDotGeneral", lhsContractingDimensions=[2]),
        ),
        macs(120),
    ),
    "unknown activation": (
        call("ADD", [(2, 5), (5,)], (2, 5), options=options("Add", fusedActivationFunction=9)),
        (Cost(0, 10), "the activation 9 of ADD"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_costs_by_hand(name: str) -> None:
    cost, expected = CASES[name]
    assert cost == expected


@pytest.mark.parametrize("name", sorted(OPERATORS.elementwise))
def test_one_operation_or_more_for_each_element(name: str) -> None:
    dtype, result = ("complex64", "float32") if name == "COMPLEX_ABS" else ("float32", "float32")
    cost, missing = call(name, [(2, 5)] * 3, (2, 5), dtype=dtype, result=result)
    assert not missing
    assert cost.flops >= 10
    assert cost.flops % 10 == cost.macs == 0


def test_a_call_of_unknown_shape_is_named() -> None:
    unknown = LiteRTCall("CONV_2D", Shapes([None, Shape((6, 3, 3, 5))]), Shapes([None]), ("float32",) * 2, ("float32",))
    assert price(unknown) == (Cost(0, 0), "CONV_2D of unknown shape")


def test_a_formula_of_a_user_prices_a_custom_operator() -> None:
    with scoped_costs():
        register_op_cost("Attend", lambda call: Cost.of_macs(call.outputs[0].numel))
        assert call("Attend", [(2, 5)], (2, 5)) == macs(10)
        LiteRTBackend().add_costs({"Attend2": lambda call: Cost(0, 1)})
        assert call("Attend2", [(2, 5)], (2, 5)) == flops(1)
    assert call("Attend", [(2, 5)], (2, 5)) == (Cost(0, 0), "Attend")


@pytest.mark.parametrize(
    ("operator", "shapes", "settings", "values"),
    [
        ("UNPACK", [(10**11, 2)], {"axis": 0}, {}),
        ("SPLIT", [(), (10**11, 2)], {"numSplits": 10**11}, {0: np.array(0)}),
    ],
)
def test_a_damaged_file_may_not_ask_for_any_number_of_parts(
    operator: str, shapes: list[tuple[int, ...]], settings: dict[str, int], values: dict[int, Any]
) -> None:
    """A list of so many shapes takes more than any memory; the shapes are not known then."""
    chosen = Operator(operator, (), (), SimpleNamespace(**settings))
    dtypes = ("int32",) * len(shapes)
    call = LiteRTCall(
        operator, Shapes([Shape(shape) for shape in shapes]), Shapes([]), dtypes, option=chosen.option, value=values.get
    )
    assert infer(call) is None
