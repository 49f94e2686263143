"""Products, convolutions and recurrent operators, by numbers worked out by hand from their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from calls import cost, raw_cost, spec

Case = tuple[str, Callable[..., Any], tuple[Any, ...], int]


def gradient(function: Callable[..., Any], *wanted: int) -> Callable[..., Any]:
    """Return the function that gives the gradients of the sum of another's result by some of its inputs."""

    def gradients(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = function(*inputs)
        return tape.gradient(result, [inputs[index] for index in wanted])

    return gradients


X, W, BYTES = spec(2, 3), spec(3, 4), "int8"
IMAGE, FILTER = spec(2, 8, 8, 3), spec(3, 3, 3, 16)
FIRST, SMALL = spec(2, 3, 8, 8), spec(3, 3, 3, 2)  # an image with its channels first, a filter of two channels
VOLUME, CUBE = spec(2, 5, 5, 5, 3), spec(3, 3, 3, 3, 4)
ONES = [1, 1, 1, 1]


def conv2d(x: Any, w: Any) -> Any:
    return tf.nn.conv2d(x, w, 1, "SAME")


def conv3d(x: Any, w: Any) -> Any:
    return tf.nn.conv3d(x, w, [1, 1, 1, 1, 1], "VALID")


def depthwise(x: Any, w: Any) -> Any:
    return tf.nn.depthwise_conv2d(x, w, ONES, "SAME")


def multiply_sparse(indices: Any, values: Any, b: Any, **options: Any) -> Any:
    """Multiply a matrix of 9 x 3 of which some numbers are stored."""
    return tf.raw_ops.SparseTensorDenseMatMul(a_indices=indices, a_values=values, a_shape=[9, 3], b=b, **options)


STORED = spec(7, 2, dtype="int64"), spec(7)
MATMULS: dict[str, Case] = {
    "matmul": ("MatMul", tf.matmul, (X, W), 2 * 3 * 4),
    "matmul, first transposed": ("MatMul", lambda a, b: tf.matmul(a, b, transpose_a=True), (spec(3, 2), W), 24),
    "matmul, second transposed": ("MatMul", lambda a, b: tf.matmul(a, b, transpose_b=True), (X, spec(4, 3)), 24),
    "integers": ("MatMul", tf.matmul, (spec(2, 3, dtype="int32"), spec(3, 4, dtype="int32")), 2 * 3 * 4),
    "batches": ("BatchMatMulV2", tf.matmul, (spec(5, 2, 3), spec(5, 3, 4)), 5 * 2 * 3 * 4),
    "batches that broadcast": ("BatchMatMulV2", tf.matmul, (spec(6, 1, 2, 3), spec(5, 3, 4)), 6 * 5 * 2 * 3 * 4),
    "batches of none": ("BatchMatMulV2", tf.matmul, (spec(0, 2, 3), spec(1, 3, 4)), 0),
    "batches, both adjoint": (
        "BatchMatMulV2",
        lambda a, b: tf.matmul(a, b, adjoint_a=True, adjoint_b=True),
        (spec(5, 3, 2), spec(5, 4, 3)),
        5 * 2 * 3 * 4,
    ),
    "bytes to integers": (
        "BatchMatMulV3",
        lambda a, b: tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=tf.int32),
        (spec(2, 3, dtype=BYTES), spec(3, 4, dtype=BYTES)),
        2 * 3 * 4,
    ),
    "sparse and dense": ("SparseTensorDenseMatMul", multiply_sparse, (*STORED, W), 7 * 4),
    "sparse and adjoint": (
        "SparseTensorDenseMatMul",
        lambda *operands: multiply_sparse(*operands, adjoint_b=True),
        (*STORED, spec(4, 3)),
        7 * 4,
    ),
    "dense with zeros": (
        "SparseMatMul",
        lambda a, b: tf.raw_ops.SparseMatMul(a=a, b=b, transpose_b=True),
        (X, spec(4, 3)),
        2 * 3 * 4,
    ),
}


@pytest.mark.parametrize("case", MATMULS)
def test_matrix_product(case: str) -> None:
    kind, function, specs, macs = MATMULS[case]
    assert cost(kind, function, *specs) == (macs, 2 * macs)


# (equation, shapes, MACs, FLOPs beyond two for each MAC).
EINSUMS: dict[str, tuple[str, tuple[tuple[int, ...], ...], int, int]] = {
    "matrix product": ("ij,jk->ik", ((2, 3), (3, 4)), 2 * 3 * 4, 0),
    "attention's scores": ("bthd,bshd->bhts", ((2, 3, 4, 5), (2, 6, 4, 5)), 2 * 4 * 3 * 6 * 5, 0),
    "outer product": ("i,j->ij", ((2,), (3,)), 0, 2 * 3),
    "angles of rotary embeddings": ("...i,j->...ij", ((7, 2), (3,)), 0, 7 * 2 * 3),
    "products of elements": ("ij,ij->ij", ((2, 3), (2, 3)), 0, 2 * 3),
    "sum over one element": ("ij,jk->ik", ((2, 1), (1, 4)), 0, 2 * 4),
    "sum of one factor": ("ij,k->ik", ((2, 3), (4,)), 0, 2 * 3 + 2 * 4),
    "sum of one factor in a product": ("aij,jk->ik", ((5, 2, 3), (3, 4)), 2 * 3 * 4, 5 * 2 * 3),
    "all summed over": ("ij,ij->", ((2, 3), (2, 3)), 2 * 3, 0),
    "ellipsis": ("...ij,jk->...ik", ((7, 5, 2, 3), (3, 4)), 7 * 5 * 2 * 3 * 4, 0),
    "ellipses that broadcast": ("...ij,...jk->...ik", ((7, 1, 2, 3), (5, 3, 4)), 7 * 5 * 2 * 3 * 4, 0),
    "ellipsis at the end": ("ab...,bc...->ac...", ((2, 3, 5), (3, 4, 5)), 2 * 3 * 4 * 5, 0),
    "transposition": ("ij->ji", ((2, 3),), 0, 0),
    "sum of rows": ("ij->i", ((2, 3),), 0, 2 * 3),
    "diagonal": ("ii->i", ((3, 3),), 0, 0),
    "trace": ("ii->", ((3, 3),), 0, 3),
    "transposition under an ellipsis": ("...ij->...ji", ((5, 2, 3),), 0, 0),
    "sum under an ellipsis": ("...ij->...i", ((5, 2, 3),), 0, 5 * 2 * 3),
}


@pytest.mark.parametrize("case", EINSUMS)
def test_einsum(case: str) -> None:
    equation, shapes, macs, further = EINSUMS[case]

    def product(*inputs: Any) -> Any:
        return tf.raw_ops.Einsum(inputs=inputs, equation=equation)

    assert cost("Einsum", product, *(spec(*shape) for shape in shapes)) == (macs, 2 * macs + further)


def turned(shape: list[int], **options: Any) -> Callable[..., Any]:
    """Return a transposed convolution with a stride of two."""
    return lambda x, w: tf.nn.conv_transpose(x, w, shape, 2, "SAME", **options)


MACS = 2 * (8 * 8 * 16) * (3 * 3 * 3)
CONVOLUTIONS: dict[str, Case] = {
    "conv": ("Conv2D", conv2d, (IMAGE, FILTER), MACS),
    "with stride": ("Conv2D", lambda x, w: tf.nn.conv2d(x, w, 2, "VALID"), (spec(2, 9, 9, 3), FILTER), MACS // 4),
    "channels first": (
        "Conv2D",
        lambda x, w: tf.nn.conv2d(x, w, 1, "VALID", data_format="NCHW"),
        (FIRST, FILTER),
        2 * (16 * 6 * 6) * (3 * 3 * 3),
    ),
    "dilated": ("Conv2D", lambda x, w: tf.nn.conv2d(x, w, 1, "VALID", dilations=2), (IMAGE, FILTER), MACS // 4),
    "in two groups": ("Conv2D", conv2d, (spec(2, 8, 8, 6), FILTER), MACS),
    "of a sequence": (
        "Conv2D",
        lambda x, w: tf.nn.conv1d(x, w, 1, "VALID"),
        (spec(2, 9, 3), spec(3, 3, 16)),
        2 * (7 * 16) * (3 * 3),
    ),
    "of a volume": ("Conv3D", conv3d, (VOLUME, CUBE), 2 * (3 * 3 * 3 * 4) * (27 * 3)),
    "of any number of dimensions": (
        "Conv",
        lambda x, w: tf.raw_ops.Conv(input=x, filter=w, strides=ONES, padding="VALID"),
        (IMAGE, FILTER),
        2 * (6 * 6 * 16) * (3 * 3 * 3),
    ),
    "depthwise": ("DepthwiseConv2dNative", depthwise, (IMAGE, SMALL), 2 * (8 * 8 * 3 * 2) * (3 * 3)),
    "depthwise, channels first": (
        "DepthwiseConv2dNative",
        lambda x, w: tf.nn.depthwise_conv2d(x, w, ONES, "SAME", data_format="NCHW"),
        (FIRST, SMALL),
        2 * (3 * 2 * 8 * 8) * (3 * 3),
    ),
    "transposed": (
        "Conv2DBackpropInput",
        turned([2, 8, 8, 5]),
        (spec(2, 4, 4, 3), spec(3, 3, 5, 3)),
        2 * (4 * 4 * 3) * (3 * 3 * 5),
    ),
    "transposed, channels first": (
        "Conv2DBackpropInput",
        turned([2, 5, 8, 8], data_format="NCHW"),
        (spec(2, 3, 4, 4), spec(3, 3, 5, 3)),
        2 * (3 * 4 * 4) * (3 * 3 * 5),
    ),
    "transposed, of a volume": (
        "Conv3DBackpropInputV2",
        turned([2, 8, 8, 8, 5]),
        (spec(2, 4, 4, 4, 3), spec(3, 3, 3, 5, 3)),
        2 * (4 * 4 * 4 * 3) * (27 * 5),
    ),
    "gradient of the input": ("Conv2DBackpropInput", gradient(conv2d, 0), (IMAGE, FILTER), MACS),
    "gradient of the filter": ("Conv2DBackpropFilter", gradient(conv2d, 1), (IMAGE, FILTER), MACS),
    "gradient of two groups' filter": ("Conv2DBackpropFilter", gradient(conv2d, 1), (spec(2, 8, 8, 6), FILTER), MACS),
    "gradient of a depthwise input": (
        "DepthwiseConv2dNativeBackpropInput",
        gradient(depthwise, 0),
        (IMAGE, SMALL),
        2 * (8 * 8 * 6) * (3 * 3),
    ),
    "gradient of a depthwise filter": (
        "DepthwiseConv2dNativeBackpropFilter",
        gradient(depthwise, 1),
        (IMAGE, SMALL),
        2 * (8 * 8 * 6) * (3 * 3),
    ),
    **{
        f"gradient of a volume, {index}": (
            f"Conv3DBackprop{operand}V2",
            gradient(conv3d, index),
            (VOLUME, CUBE),
            2 * (3 * 3 * 3 * 4) * (27 * 3),
        )
        for index, operand in enumerate(("Input", "Filter"))
    },
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case: str) -> None:
    kind, function, specs, macs = CONVOLUTIONS[case]
    assert cost(kind, function, *specs) == (macs, 2 * macs)


def test_dilation_adds_and_compares_for_each_element_of_the_window() -> None:
    def dilate(x: Any, w: Any) -> Any:
        return tf.nn.dilation2d(x, w, ONES, "SAME", "NHWC", ONES)

    assert cost("Dilation2D", dilate, IMAGE, spec(3, 3, 3)) == (0, 2 * (2 * 8 * 8 * 3) * (3 * 3))


OUT = 2 * 8 * 8 * 16

# Operations for each output element, by what is fused.
FUSED: dict[tuple[str, ...], int] = {
    ("BiasAdd",): 1,
    ("BiasAdd", "Relu"): 1 + 1,
    ("BiasAdd", "Relu6"): 1 + 2,
    ("BiasAdd", "LeakyRelu"): 1 + 2,
    ("BiasAdd", "Elu"): 1 + 4,
    ("BiasAdd", "Add", "Relu"): 1 + 1 + 1,
    ("FusedBatchNorm",): 2,
    ("FusedBatchNorm", "Relu"): 2 + 1,
}


def fused_cost(kind: str, filter_spec: Any, bias: int, fused: list[str], **further: Any) -> Any:
    options = {"strides": ONES, "padding": "SAME", "fused_ops": fused, **further}
    return raw_cost(kind, input=IMAGE, filter=filter_spec, args=[spec(bias)], **options)


@pytest.mark.parametrize("fused", FUSED, ids=" and ".join)
def test_fused_convolution(fused: tuple[str, ...]) -> None:
    found = fused_cost("_FusedConv2D", FILTER, 16, list(fused), host_args=[], num_args=1)
    assert found == (MACS, 2 * MACS + FUSED[fused] * OUT)


def test_what_is_fused_by_a_name_that_is_not_known_is_not_counted() -> None:
    assert fused_cost("_FusedConv2D", FILTER, 16, ["BiasAdd", "New"], host_args=[], num_args=1) is None


@pytest.mark.parametrize(
    ("fused", "operations"), [("GeluExact", 5), ("GeluApproximate", 8), ("Tanh", 1), ("Sigmoid", 1)]
)
def test_fused_matmul(fused: str, operations: int) -> None:
    found = raw_cost("_FusedMatMul", a=spec(2, 3), b=spec(3, 4), args=[spec(4)], fused_ops=["BiasAdd", fused])
    assert found == (2 * 3 * 4, 2 * (2 * 3 * 4) + (1 + operations) * (2 * 4))


def test_fused_depthwise_convolution() -> None:
    found = fused_cost("_FusedDepthwiseConv2dNative", SMALL, 6, ["BiasAdd", "Relu"])
    out = 2 * 8 * 8 * 6
    assert found == (out * 9, 2 * (out * 9) + 2 * out)
