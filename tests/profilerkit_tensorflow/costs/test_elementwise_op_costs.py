"""Operators that cost so much for each element, by the operations of their definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tensorflow as tf
from calls import calls, cost, raw_cost, spec

from profilerkit_tensorflow.costs import UnknownShapeError, op_cost

X = spec(2, 3)
TABLE = tf.zeros([9, 3])
THERE_AND_BACK = partial(tf.quantization.quantize_and_dequantize_v2, input_min=0.0, input_max=1.0)


def raw(operator: str, name: str, **arguments: Any) -> Callable[[Any], Any]:
    """Return the function of an operator's input of that name, with its other arguments given."""
    return lambda x: getattr(tf.raw_ops, operator)(**{name: x}, **arguments)


# Operations for each of the six elements.
PER_ELEMENT: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "relu": ("Relu", tf.nn.relu, 1),
    "sigmoid": ("Sigmoid", tf.sigmoid, 1),
    "tanh": ("Tanh", tf.tanh, 1),
    "exp": ("Exp", tf.exp, 1),
    "erf": ("Erf", tf.math.erf, 1),
    "rsqrt": ("Rsqrt", tf.math.rsqrt, 1),
    "power": ("Pow", lambda x: x**3.0, 1),
    "maximum": ("Maximum", lambda x: tf.maximum(x, 0.0), 1),
    "sum of three": ("AddN", lambda x: tf.add_n([x, x, x]), 2),
    "squared difference: subtract, square": ("SquaredDifference", lambda x: tf.math.squared_difference(x, x), 2),
    "relu6: two comparisons": ("Relu6", tf.nn.relu6, 2),
    "leaky relu: compare, multiply": ("LeakyRelu", tf.nn.leaky_relu, 2),
    "clip: two comparisons": ("ClipByValue", raw("ClipByValue", "t", clip_value_min=0.0, clip_value_max=1.0), 2),
    "softplus: exp, add, log": ("Softplus", tf.math.softplus, 3),
    "softsign: abs, add, divide": ("Softsign", tf.nn.softsign, 3),
    "cross product: two products, a difference": ("Cross", lambda x: tf.linalg.cross(x, x), 3),
    "elu: compare, exp, subtract, multiply": ("Elu", tf.nn.elu, 4),
    "selu": ("Selu", tf.nn.selu, 4),
    "softmax": ("Softmax", tf.nn.softmax, 5),
    "log softmax": ("LogSoftmax", tf.nn.log_softmax, 5),
    "bias": ("BiasAdd", lambda x: tf.nn.bias_add(x, tf.ones([3])), 1),
    "sum": ("Sum", tf.reduce_sum, 1),
    "mean": ("Mean", lambda x: tf.reduce_mean(x, 0), 1),
    "greatest": ("Max", lambda x: tf.reduce_max(x, 1), 1),
    "product of all": ("Prod", tf.reduce_prod, 1),
    "norm: square, add": ("EuclideanNorm", tf.math.reduce_euclidean_norm, 2),
    "half the squared norm": ("L2Loss", tf.nn.l2_loss, 2),
    "cumulative sum": ("Cumsum", tf.cumsum, 1),
    "cumulative product": ("Cumprod", tf.math.cumprod, 1),
    "cumulative log-sum-exp": ("CumulativeLogsumexp", tf.math.cumulative_logsumexp, 4),
    "sums by segment": ("SegmentSum", lambda x: tf.math.segment_sum(x, [0, 1]), 1),
    "sums by unsorted segment": ("UnsortedSegmentSum", lambda x: tf.math.unsorted_segment_sum(x, [1, 0], 9), 1),
    "scattered sums": ("ScatterNd", lambda x: tf.scatter_nd([[4], [4]], x, [9, 3]), 1),
    "scattered into a tensor": ("TensorScatterAdd", lambda x: tf.tensor_scatter_nd_add(TABLE, [[4], [4]], x), 1),
    "scattered over one": ("TensorScatterUpdate", lambda x: tf.tensor_scatter_nd_update(TABLE, [[4], [5]], x), 0),
    "quantised: scale, round, two comparisons": (
        "QuantizeV2",
        raw("QuantizeV2", "input", min_range=0.0, max_range=1.0, T=tf.quint8),
        4,
    ),
    "there and back with a range": ("QuantizeAndDequantizeV4", partial(THERE_AND_BACK, range_given=True), 4 + 2),
    "there and back without one": ("QuantizeAndDequantizeV4", THERE_AND_BACK, 4 + 2 + 2),
    "as if quantised": ("FakeQuantWithMinMaxArgs", tf.quantization.fake_quant_with_min_max_args, 4 + 2),
}


@pytest.mark.parametrize("case", PER_ELEMENT)
def test_operations_for_each_element(case: str) -> None:
    kind, function, operations = PER_ELEMENT[case]
    assert cost(kind, function, X) == (0, 6 * operations)


GRADIENTS: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "relu": ("ReluGrad", tf.nn.relu, 1),
    "relu6": ("Relu6Grad", tf.nn.relu6, 1),
    "leaky relu": ("LeakyReluGrad", tf.nn.leaky_relu, 1),
    "sigmoid": ("SigmoidGrad", tf.sigmoid, 1),
    "tanh": ("TanhGrad", tf.tanh, 1),
    "elu: add, multiply": ("EluGrad", tf.nn.elu, 2),
    "selu": ("SeluGrad", tf.nn.selu, 2),
    "softsign: abs, add, square, divide": ("SoftsignGrad", tf.nn.softsign, 4),
    "root: two products": ("SqrtGrad", tf.sqrt, 2),
    "inverse root: two products, a power": ("RsqrtGrad", tf.math.rsqrt, 3),
    "reciprocal: minus, two products": ("ReciprocalGrad", tf.math.reciprocal, 3),
    "bias": ("BiasAddGrad", lambda x: tf.nn.bias_add(x, x[0]), 1),
}


def gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def gradients(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return tape.gradient(result, x)

    return gradients


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(case: str) -> None:
    kind, function, operations = GRADIENTS[case]
    assert cost(kind, gradient(function), X) == (0, 6 * operations)


def test_gradient_of_a_mirrored_border_adds_up_what_was_copied() -> None:
    assert cost("MirrorPadGrad", gradient(lambda x: tf.pad(x, [[0, 0], [1, 1]], "REFLECT")), X) == (0, 2 * 5)


def test_gradient_of_softplus_is_a_sigmoid_and_a_product() -> None:
    assert raw_cost("SoftplusGrad", gradients=X, features=X) == (0, 6 * 2)


def test_rows_that_are_looked_up_and_added_cost_an_addition_for_each_element() -> None:
    def sums(table: Any) -> Any:
        return tf.raw_ops.SparseSegmentSum(data=table, indices=[0, 4, 4, 1, 2], segment_ids=[0, 0, 0, 1, 1])

    assert cost("SparseSegmentSum", sums, spec(100, 3)) == (0, 5 * 3)


def test_counting_with_weights_adds_them_up() -> None:
    def count(weights: Any) -> Any:
        return tf.math.bincount(tf.constant([0, 1, 1]), weights, minlength=4, maxlength=4, axis=-1)

    assert cost("DenseBincount", count, spec(3)) == (0, 3)


def test_values_of_a_sparse_tensor_are_what_its_sum_adds() -> None:
    def total(values: Any) -> Any:
        return tf.sparse.reduce_sum(tf.SparseTensor([[0, 1], [8, 2], [9, 9]], values, [10, 10]))

    assert cost("SparseReduceSum", total, spec(3)) == (0, 3)


def test_dequantised() -> None:
    found = raw_cost("Dequantize", input=spec(2, 3, dtype="quint8"), min_range=0.0, max_range=1.0)
    assert found == (0, 6 * 2)


def test_quantised_activations_work_on_integers() -> None:
    inputs = {"min_features": spec(), "max_features": spec()}
    assert raw_cost("QuantizedRelu", features=spec(2, 3, dtype="quint8"), **inputs) == (0, 0)


def test_tridiagonal_product() -> None:
    found = raw_cost("TridiagonalMatMul", superdiag=spec(1, 4), maindiag=spec(1, 4), subdiag=spec(1, 4), rhs=spec(4, 3))
    assert found == (0, 5 * (4 * 3))


def test_variables_that_are_added_to() -> None:
    variable = tf.Variable(tf.zeros([2, 3]))
    assert cost("AssignAddVariableOp", variable.assign_add, X) == (0, 6)
    assert cost("AssignVariableOp", variable.assign, X) == (0, 0)
    (read,) = calls("ReadVariableOp", lambda: variable + 1.0)
    assert op_cost(read) == (0, 0)


IMAGE, ELEMENTS = spec(2, 8, 8, 3), 2 * 8 * 8 * 3
HALVES = [1.0, 2.0, 2.0, 1.0]


def pool(function: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
    return lambda x: function(x, 3, 2, "SAME", **options)


# Three by three windows at every second place of eight by eight: four by four of them.
POOLED = 2 * 4 * 4 * 3
POOLINGS: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "average": ("AvgPool", pool(tf.nn.avg_pool2d), POOLED * 9),
    "maximum": ("MaxPool", pool(tf.nn.max_pool2d), POOLED * 9),
    "maximum and its place": ("MaxPoolWithArgmax", pool(tf.nn.max_pool_with_argmax), POOLED * 9),
    "gradient of the average": ("AvgPoolGrad", gradient(pool(tf.nn.avg_pool2d)), POOLED * 9),
    "gradient of the maximum": ("MaxPoolGrad", gradient(pool(tf.nn.max_pool2d)), POOLED),
    "windows by value": (
        "MaxPoolV2",
        raw("MaxPoolV2", "input", ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME"),
        POOLED * 9,
    ),
    "uneven windows": ("FractionalMaxPool", raw("FractionalMaxPool", "value", pooling_ratio=HALVES), ELEMENTS),
    "uneven windows that overlap": (
        "FractionalAvgPool",
        raw("FractionalAvgPool", "value", pooling_ratio=HALVES, overlapping=True),
        2 * (8 + 3) * (8 + 3) * 3,
    ),
    "local response": ("LRN", partial(tf.nn.local_response_normalization, depth_radius=2), ELEMENTS * (5 + 5)),
    "contrast: mean, subtract, multiply, add": (
        "AdjustContrastv2",
        raw("AdjustContrastv2", "images", contrast_factor=2.0),
        ELEMENTS * 4,
    ),
}


@pytest.mark.parametrize("case", POOLINGS)
def test_pooling(case: str) -> None:
    kind, function, flops = POOLINGS[case]
    assert cost(kind, function, IMAGE) == (0, flops)


def test_pooling_with_channels_first() -> None:
    function = pool(tf.nn.avg_pool2d, data_format="NCHW")
    assert cost("AvgPool", function, spec(2, 3, 8, 8)) == (0, POOLED * 9)


def test_pooling_of_volumes() -> None:
    assert cost("MaxPool3D", lambda x: tf.nn.max_pool3d(x, 2, 2, "VALID"), spec(2, 4, 4, 4, 3)) == (0, (2 * 8 * 3) * 8)


def test_windows_by_a_value_that_is_not_known() -> None:
    def windows(x: Any, sizes: Any) -> Any:
        return tf.raw_ops.MaxPoolV2(input=x, ksize=sizes, strides=[1, 2, 2, 1], padding="SAME")

    with pytest.raises(UnknownShapeError):
        cost("MaxPoolV2", windows, IMAGE, spec(4, dtype="int32"))


def resize(method: str) -> Callable[[Any], Any]:
    return lambda x: tf.image.resize(x, [16, 16], method)


def crop(method: str) -> Callable[[Any], Any]:
    return lambda x: tf.image.crop_and_resize(x, [[0.0, 0.0, 1.0, 1.0]], [0], [5, 5], method)


PROJECTION = {"transforms": [[1.0] * 8], "output_shape": [5, 5], "fill_value": 0.0, "interpolation": "BILINEAR"}
RESIZED = 2 * 16 * 16 * 3
RESIZINGS: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "bilinear: four products, three additions": ("ResizeBilinear", resize("bilinear"), RESIZED * 7),
    "bicubic: 16 products, 15 additions": ("ResizeBicubic", resize("bicubic"), RESIZED * 31),
    "nearest": ("ResizeNearestNeighbor", resize("nearest"), 0),
    "gradient of bilinear": ("ResizeBilinearGrad", gradient(resize("bilinear")), RESIZED * 8),
    "gradient of bicubic": ("ResizeBicubicGrad", gradient(resize("bicubic")), RESIZED * 32),
    "gradient of nearest": ("ResizeNearestNeighborGrad", gradient(resize("nearest")), RESIZED),
    "crops": ("CropAndResize", crop("bilinear"), (5 * 5 * 3) * 7),
    "crops of the nearest": ("CropAndResize", crop("nearest"), 0),
    "projections": (
        "ImageProjectiveTransformV3",
        raw("ImageProjectiveTransformV3", "images", **PROJECTION),
        (2 * 5 * 5) * (14 + 3 * 7),
    ),
}


@pytest.mark.parametrize("case", RESIZINGS)
def test_resizing(case: str) -> None:
    kind, function, flops = RESIZINGS[case]
    assert cost(kind, function, IMAGE) == (0, flops)


def batch_norm(training: bool, data_format: str = "NHWC") -> Callable[[Any], Any]:
    def normalise(x: Any) -> Any:
        channels = tf.ones([3])
        statistics = dict.fromkeys(("scale", "offset", "mean", "variance"), channels)
        return tf.raw_ops.FusedBatchNormV3(x=x, is_training=training, data_format=data_format, **statistics).y

    return normalise


@pytest.mark.parametrize(("training", "operations"), [(False, 2), (True, 5 + 1 + 1)])
def test_fused_batch_norm(training: bool, operations: int) -> None:
    assert cost("FusedBatchNormV3", batch_norm(training), IMAGE) == (0, ELEMENTS * operations)
    assert cost("FusedBatchNormV3", batch_norm(training, "NCHW"), spec(2, 3, 8, 8)) == (0, ELEMENTS * operations)


def test_gradient_of_the_fused_batch_norm() -> None:
    assert cost("FusedBatchNormGradV3", gradient(batch_norm(True)), IMAGE) == (0, ELEMENTS * 9)


def test_fused_batch_norm_with_what_follows_it() -> None:
    x, channels = spec(2, 8, 8, 4), {name: spec(4) for name in ("scale", "offset", "mean", "variance")}
    found = raw_cost("_FusedBatchNormEx", x=x, side_input=[x], activation_mode="Relu", is_training=False, **channels)
    assert found == (0, (2 * 8 * 8 * 4) * (2 + 1 + 1))


def test_cross_entropies() -> None:
    assert cost("SoftmaxCrossEntropyWithLogits", tf.nn.softmax_cross_entropy_with_logits, X, X) == (0, 6 * (5 + 2 + 1))
    sparse = cost(
        "SparseSoftmaxCrossEntropyWithLogits", tf.nn.sparse_softmax_cross_entropy_with_logits, spec(2, dtype="int32"), X
    )
    assert sparse == (0, 6 * 5 + 2 * (1 + 1))
