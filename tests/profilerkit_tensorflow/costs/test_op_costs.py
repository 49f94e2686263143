"""The tables of operators: every name is one of TensorFlow's, stands in one class, and behaves at the edges."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from calls import calls, cost, raw_cost, spec, total
from tensorflow.python.framework import op_def_registry

from profilerkit.costs import Cost, Shape
from profilerkit_tensorflow import costs
from profilerkit_tensorflow.costs import (
    FAMILIES,
    OpCall,
    Shapes,
    UnknownCostError,
    UnknownShapeError,
    op_cost,
    register_op_cost,
    registry,
    scoped_costs,
)

#: Operators that came after TensorFlow 2.18, the oldest that is supported.
AFTER_2_18 = {"DecodeJxl", "DecodeWebP"}

CLASSES = {
    "free": registry.OPERATORS.free,
    "elementwise": set(registry.OPERATORS.elementwise),
    "reduction": set(registry.OPERATORS.reductions),
    "formula": {key for key in registry.COSTS if isinstance(key, str)},
}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_registered_operator_is_one_of_tensorflows(kind: str) -> None:
    absent = {name for name in CLASSES[kind] if op_def_registry.get(name) is None}
    assert absent <= AFTER_2_18


@pytest.mark.parametrize("kind", CLASSES)
def test_no_operator_stands_in_two_classes(kind: str) -> None:
    others = set().union(*(names for other, names in CLASSES.items() if other != kind))
    assert not CLASSES[kind] & others


def test_every_module_of_the_package_is_a_family() -> None:
    families = {family.__name__.rpartition(".")[2] for family in FAMILIES}
    assert families | {"registry"} == {module.name for module in pkgutil.iter_modules(costs.__path__)}


@pytest.mark.parametrize(
    "name", ["PartitionedCall", "While", "StatelessIf", "Placeholder", "_Arg", "XlaCallModule", "PyFunc"]
)
def test_calls_of_functions_are_no_operators_with_a_cost(name: str) -> None:
    assert op_cost(OpCall(name, Shapes([]), Shapes([]))) is None


NO_ARITHMETIC: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: tf.reshape(x, [3, 2]),
    "transpose": tf.transpose,
    "concat": lambda x: tf.concat([x, x], 0),
    "stack": lambda x: tf.stack([x, x]),
    "slice": lambda x: x[:, 1:],
    "gather": lambda x: tf.gather(x, [1, 0]),
    "cast": lambda x: tf.cast(x, "float16"),
    "comparison": lambda x: x > 1.0,
    "choice": lambda x: tf.where(x > 1.0, x, tf.zeros_like(x)),
    "argmax": lambda x: tf.argmax(x, -1),
    "top k": lambda x: tf.math.top_k(x, 2),
    "one hot": lambda x: tf.one_hot(tf.shape(x), 3),
    "pad": lambda x: tf.pad(x, [[1, 1], [0, 0]]),
    "broadcast": lambda x: tf.broadcast_to(x, [4, 2, 3]),
    "integers": lambda x: tf.range(5) * 2 + tf.shape(x)[0],
    "not a number": tf.math.is_nan,
}


@pytest.mark.parametrize("case", NO_ARITHMETIC)
def test_moving_choosing_and_comparing_is_free(case: str) -> None:
    assert total(NO_ARITHMETIC[case], spec(2, 3)) == (0, 0)


def test_work_on_integers_is_no_flop() -> None:
    assert cost("AddV2", tf.add, spec(2, 3, dtype="int32"), spec(2, 3, dtype="int32")) == (0, 0)
    assert cost("Sum", tf.reduce_sum, spec(2, 3, dtype="int32")) == (0, 0)


def test_work_on_integers_needs_no_shape() -> None:
    unknown = spec(None, dtype="int32")
    assert cost("Mul", tf.multiply, unknown, unknown) == (0, 0)
    assert cost("Max", tf.reduce_max, unknown) == (0, 0)
    assert cost("Maximum", tf.maximum, unknown, unknown) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "function"),
    [("Relu", tf.nn.relu), ("Sum", tf.reduce_sum), ("Mul", lambda x: x * x), ("Square", tf.square)],
)
def test_a_shape_that_is_not_known_is_said(kind: str, function: Callable[[Any], Any]) -> None:
    with pytest.raises(UnknownShapeError):
        cost(kind, function, spec(None, 3))


def test_a_shape_that_the_formula_does_not_need_may_be_unknown() -> None:
    (call,) = calls("GatherV2", tf.gather, spec(5, 3), spec(None, dtype="int32"))
    assert op_cost(call) == (0, 0)


def test_a_variant_that_its_formula_does_not_know_is_not_counted() -> None:
    with scoped_costs():

        @register_op_cost("AttentionOfMine")
        def attend(call: OpCall) -> Cost:
            if call.attribute("causal"):
                raise UnknownCostError
            return Cost.of_macs(2)

        assert op_cost(OpCall("AttentionOfMine", Shapes([]), Shapes([]))) == (2, 4)
        assert op_cost(OpCall("AttentionOfMine", Shapes([]), Shapes([]), attribute=lambda name: True)) is None


NEUTRAL: dict[str, tuple[str, Callable[[Any], Any], int]] = {
    "product with one": ("Mul", lambda x: 1.0 * x, 0),
    "product with two": ("Mul", lambda x: 2.0 * x, 6),
    "product with ones that are data": ("Mul", lambda x: tf.ones([2, 3]) * x, 6),
    "sum with zero": ("AddV2", lambda x: x + 0.0, 0),
    "sum with one": ("AddV2", lambda x: x + 1.0, 6),
    "nothing taken off": ("Sub", lambda x: x - 0.0, 0),
    "taken off nothing": ("Sub", lambda x: 0.0 - x, 6),
    "divided by one": ("RealDiv", lambda x: x / 1.0, 0),
    "one divided": ("RealDiv", lambda x: 1.0 / x, 6),
    "divided by no number": ("DivNoNan", lambda x: tf.math.divide_no_nan(x, x), 6),
}


@pytest.mark.parametrize("case", NEUTRAL)
def test_what_the_graph_optimiser_takes_out_costs_nothing(case: str) -> None:
    kind, function, flops = NEUTRAL[case]
    assert cost(kind, function, spec(2, 3)) == (0, flops)


def test_an_operand_of_unknown_shape_is_no_neutral_one() -> None:
    call = OpCall("Mul", Shapes([None, Shape((2, 3))]), Shapes([Shape((2, 3))]), ("float32",) * 2, ("float32",))
    assert op_cost(call) == (0, 6)


def test_silu_is_a_sigmoid_and_a_product() -> None:
    assert total(tf.nn.silu, spec(2, 3)) == (0, 6 * 2)


def test_gelu_counts_as_in_torch() -> None:
    assert total(tf.nn.gelu, spec(2, 3)) == (0, 6 * 5)
    assert total(lambda x: tf.nn.gelu(x, approximate=True), spec(2, 3)) == (0, 6 * 8)


def flops_by_tensorflow(function: Callable[..., Any], *specs: Any) -> int:
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    return int(tf.compat.v1.profiler.profile(graph, options=options).total_float_ops)


# What tf.compat.v1.profiler counts right, by two operations for each multiply-accumulate as we do.
AS_TENSORFLOW: dict[str, tuple[str, Callable[..., Any], tuple[Any, ...]]] = {
    "matmul": ("MatMul", tf.matmul, (spec(2, 3), spec(3, 4))),
    "matmul of a transposed": ("MatMul", lambda a, b: tf.matmul(a, b, transpose_a=True), (spec(3, 2), spec(3, 4))),
    "conv": ("Conv2D", lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), (spec(2, 8, 8, 3), spec(3, 3, 3, 16))),
    "conv with stride": ("Conv2D", lambda x, w: tf.nn.conv2d(x, w, 2, "VALID"), (spec(2, 9, 9, 3), spec(3, 3, 3, 16))),
    "depthwise conv": (
        "DepthwiseConv2dNative",
        lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
        (spec(2, 8, 8, 3), spec(3, 3, 3, 2)),
    ),
    "bias": ("BiasAdd", tf.nn.bias_add, (spec(2, 3), spec(3))),
    "addition": ("AddV2", tf.add, (spec(2, 3), spec(2, 3))),
    "pooling": ("AvgPool", lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), (spec(2, 8, 8, 3),)),
}


@pytest.mark.parametrize("case", AS_TENSORFLOW)
def test_tensorflows_own_profiler_agrees_where_it_is_right(case: str) -> None:
    kind, function, specs = AS_TENSORFLOW[case]
    ours = cost(kind, function, *specs)
    assert ours is not None
    assert ours.flops == flops_by_tensorflow(function, *specs)


def test_reductions_over_no_axis_cost_nothing() -> None:
    assert cost("Sum", lambda x: tf.reduce_sum(x, axis=[]), spec(2, 3)) == (0, 0)


def test_values_come_as_arrays() -> None:
    (call,) = calls("Sum", lambda x: tf.reduce_sum(x, axis=[1]), spec(2, 3))
    np.testing.assert_array_equal(call.value(1), [1])
    assert call.value(0) is None


def test_an_operator_without_a_cost_is_not_counted() -> None:
    assert raw_cost("MatrixSquareRoot", input=spec(3, 3)) is None
