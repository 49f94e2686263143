"""From the names under which nodes run back to the traced graph; held against the function library of real graphs."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from profilerkit_tensorflow.operator_timing.executed_names import find_fused, split_path
from profilerkit_tensorflow.operator_timing.profiler_session import op_seconds


@pytest.mark.parametrize(
    ("executed", "path"),
    [
        ("dense/MatMul", ("dense/MatMul",)),
        ("scope/PartitionedCall/mm", ("scope/PartitionedCall", "mm")),
        ("StatefulPartitionedCall_12/a/b", ("StatefulPartitionedCall_12", "a/b")),
        ("while/body/_4/while/PartitionedCall/rl", ("while/body", "while/PartitionedCall", "rl")),
        ("lstm/while/cond/_93/lstm/while/Less", ("lstm/while/cond", "lstm/while/Less")),
        ("cond/then/_0/cond/case/branch1/_8/x", ("cond/then", "cond/case/branch1", "x")),
        ("cond/else/_1/cond/Relu", ("cond/else", "cond/Relu")),
        ("a/body/weights", ("a/body/weights",)),
        ("x/MyPartitionedCall/y", ("x/MyPartitionedCall/y",)),
    ],
)
def test_calls_loops_and_branches_are_a_path(executed: str, path: tuple[str, ...]) -> None:
    assert split_path(executed) == path
    assert split_path(executed)[-1] == path[-1]


@pytest.mark.parametrize(
    ("executed", "name"),
    [
        ("c/ArithmeticOptimizer/AddOpsRewrite_add_1", "c/add_1"),
        ("ArithmeticOptimizer/AddOpsRewrite_Leaf_1_add_2", "add_2"),
        ("b/ArithmeticOptimizer/AddOpsRewrite_Internal_0_add_2", "b/add_2"),
        ("ArithmeticOptimizer/FoldTransposeIntoMatMul_MatMul_1", "MatMul_1"),
        ("c/ArithmeticOptimizer/ReorderCastLikeAndValuePreserving_double_Cast_1", "c/Cast_1"),
        ("PartitionedCall/n/ArithmeticOptimizer/ReplaceMulWithSquare_mul_2", "n/mul_2"),
        ("Conv2D_3-1-CastToFp16-AutoMixedPrecision", "Conv2D_3"),
        ("x-0-CastToBf16-0-AutoMixedPrecision", "x"),
        ("clip/MatMul-0-StatefulPartitionedCall/clip/truediv_1-0-CastToFp32-AutoMixedPrecision", "clip/MatMul"),
        ("conv/Conv2D-0-TransposeNHWCToNCHW-LayoutOptimizer", "conv/Conv2D"),
        ("ConstantFolding/a/truediv_recip", "a/truediv_recip"),
        ("dense/MatMul/_12", "dense/MatMul"),
        ("scope/PartitionedCall/Sqrt/unary_ops_composition", "Sqrt"),
    ],
)
def test_what_the_optimizer_put_in_is_taken_out(executed: str, name: str) -> None:
    assert split_path(executed)[-1] == name


def everything(x: Any) -> Any:
    @tf.function  # type: ignore[untyped-decorator,unused-ignore]
    def called(y: Any) -> Any:
        return tf.exp(y) * y

    with tf.name_scope("scope"):
        x = called(x)
    for _ in tf.range(3):
        x = tf.tanh(called(x)) if tf.reduce_sum(x) > 0 else tf.sin(x)
    x = tf.switch_case(tf.cast(tf.reduce_max(x) > 100, tf.int32), [lambda: tf.cos(x), lambda: tf.sin(x)])
    return tf.reduce_sum(tf.map_fn(lambda row: tf.tanh(row) * tf.reduce_mean(row), x))


def gradient_of_everything(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = everything(x)
    return tape.gradient(y, x)


ATTRIBUTES = {"body": "body", "cond": "cond", "then": "then_branch", "else": "else_branch", "": "f"}


def callee(node: Any, branch: str) -> str:
    if branch.startswith("branch"):
        name: str = node.attr["branches"].list.func[int(branch[len("branch") :])].name
        return name
    name = node.attr[ATTRIBUTES[branch]].func.name
    return name


@pytest.mark.parametrize("function", [everything, gradient_of_everything])
def test_every_path_leads_through_the_library_to_its_node(function: Any) -> None:
    x = tf.ones([5, 4])
    concrete = tf.function(function).get_concrete_function(x)
    definition = concrete.graph.as_graph_def()
    graphs = {f.signature.name: {node.name: node for node in f.node_def} for f in definition.library.function}
    (one,) = op_seconds(lambda: concrete(x), 1)
    deepest = 0
    for executed in one.nodes:
        *callers, name = split_path(executed)
        nodes = {node.name: node for node in definition.node}
        for caller in callers:
            outer, _, branch = caller.rpartition("/")
            at, branch = (outer, branch) if caller not in nodes else (caller, "")
            nodes = graphs[callee(nodes[at], branch)]
        assert name in nodes, executed
        deepest = max(deepest, len(callers))
    assert deepest >= 3, "a call in a branch in a loop"


def fused(x: Any) -> Any:
    kernel, bias = tf.ones([3, 3, 2, 4]), tf.ones([4])
    x = tf.nn.conv2d(x, kernel, 1, "SAME", name="convolution")
    return tf.nn.relu(tf.nn.bias_add(x, bias, name="bias"), name="activation")


@pytest.mark.parametrize(
    "executed_type", ["_FusedConv2D", "_MklFusedConv2D", "_MklNativeFusedConv2D", "_MklNativePadWithFusedConv2D"]
)
def test_a_fused_kernel_is_the_convolution_behind_its_name(executed_type: str) -> None:
    graph = tf.function(fused).get_concrete_function(tf.TensorSpec([1, 8, 8, 2])).graph
    activation = graph.get_operation_by_name("activation")
    assert find_fused(activation, executed_type)[-1].name == "convolution"
    assert find_fused(activation, "Relu")[-1] is activation
    assert find_fused(activation, "_FusedMatMul")[-1] is activation, "there is none"
    bias = graph.get_operation_by_name("bias")
    assert find_fused(bias, executed_type)[-1].name == "convolution"


def test_an_operator_of_another_type_is_not_searched_for_unless_fused() -> None:
    def divided(x: Any) -> Any:
        return tf.divide(tf.multiply(x, x, name="product"), 3.0, name="quotient")

    graph = tf.function(divided).get_concrete_function(tf.TensorSpec([2])).graph
    quotient = graph.get_operation_by_name("quotient")
    assert find_fused(quotient, "Mul")[-1] is quotient, "a division by a constant runs as a product"


def test_of_two_convolutions_the_fused_one_is_that_which_did_not_run_itself() -> None:
    def residual(x: Any) -> Any:
        kernel = tf.ones([3, 3, 2, 4])
        left = tf.nn.conv2d(x, kernel, 1, "SAME", name="left")
        right = tf.nn.conv2d(x, kernel, 1, "SAME", name="right")
        return tf.nn.relu(tf.add(left, right, name="sum"), name="activation")

    graph = tf.function(residual).get_concrete_function(tf.TensorSpec([1, 8, 8, 2])).graph
    activation = graph.get_operation_by_name("activation")
    assert find_fused(activation, "_FusedConv2D", ran={"left"})[-1].name == "right"
    assert find_fused(activation, "_FusedConv2D", ran={"right"})[-1].name == "left"


def test_the_time_of_a_fused_product_is_found_from_what_ran() -> None:
    def dense(x: Any) -> Any:
        product = tf.matmul(x, tf.transpose(x), name="product")
        return tf.nn.relu(tf.nn.bias_add(product, x[0], name="bias"), name="activation")

    x = tf.ones([300, 300])
    concrete = tf.function(dense).get_concrete_function(x)
    (one,) = op_seconds(lambda: concrete(x), 1)
    slowest = max(one.nodes, key=lambda name: one.nodes[name].seconds)
    operation = concrete.graph.get_operation_by_name(split_path(slowest)[-1])
    assert find_fused(operation, one.nodes[slowest].op_type)[-1].name == "product"
