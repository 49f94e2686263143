"""Training steps: what the gradients take, counted over the equations that JAX makes of them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flax")
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from profilerkit import ModelInputs, ModelTrace
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

S = jax.ShapeDtypeStruct
BATCH = 3


def trace_step(model: Any, *inputs: Any) -> ModelTrace:
    trace = JaxBackend().trace_training(model, ModelInputs(*inputs))
    assert trace.failure is None, trace.failure
    assert not trace.uncounted
    return trace


def work(trace: ModelTrace, phase: str) -> int:
    return sum(op.macs for op in trace.operators if op.phase == phase)


class Network(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(4, 6, rngs=rngs)
        self.second = nnx.Linear(6, 2, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(jnp.tanh(self.first(x)))


def test_the_backward_pass_of_linear_layers() -> None:
    """A product for each weight, and one for the input of the second layer; the batch needs no gradient."""
    trace = trace_step(Network(), jnp.ones((BATCH, 4)))
    first, second = BATCH * 4 * 6, BATCH * 6 * 2
    assert work(trace, "forward") == first + second
    assert work(trace, "backward") == first + 2 * second


def test_the_backward_pass_belongs_to_the_layers_and_is_no_call_of_its_own() -> None:
    trace = trace_step(Network(), jnp.ones((BATCH, 4)))
    first, second = BATCH * 4 * 6, BATCH * 6 * 2
    rows = {row["path"]: row for row in trace.table}
    assert (rows["first"]["own_macs"], rows["second"]["own_macs"]) == (2 * first, 3 * second)
    assert (rows["first"]["calls"], rows["second"]["calls"]) == (1, 1)


def test_the_gradient_of_a_hyperbolic_tangent_costs_the_same_on_every_release() -> None:
    """Releases write it in other primitives: four operations for each of the 12 elements."""
    trace = trace_step(JaxModel(jnp.tanh, S((3, 4), "float32")))
    assert sum(op.flops for op in trace.operators) == 12 + 4 * 12


def test_integers_and_buffers_have_no_gradients() -> None:
    model = JaxModel(
        lambda p, words: p["table"][words] @ p["weight"],
        {"table": S((9, 4), "float32"), "weight": S((4, 2), "float32"), "offsets": S((3,), "int32")},
    )
    trace = trace_step(model, S((5,), "int32"))
    assert (work(trace, "forward"), work(trace, "backward")) == (40, 80)
    added = [op for op in trace.operators if op.operator == "scatter-add"]
    assert [op.flops for op in added] == [5 * 4], "each row that was looked up is added"


#: Padding, size of the kernel, stride, size of the image, groups: with kernels larger than images, and wide paddings.
CONVOLUTIONS = [
    *((0, 3, 1, 8, 1), (1, 3, 1, 8, 2), (3, 3, 1, 8, 4), (1, 3, 2, 7, 4), (0, 1, 2, 8, 2), (2, 3, 1, 8, 1)),
    *((3, 7, 1, 4, 1), (3, 7, 2, 4, 1), (3, 7, 1, 4, 4), (2, 5, 1, 3, 1)),
]


def convolve(x: Any, kernel: Any, padding: int, stride: int, groups: int) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    paddings = [(padding, padding)] * 2
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), paddings, dimension_numbers=numbers, feature_group_count=groups
    )


def count_positions(padding: int, kernel: int, stride: int, size: int) -> int:
    """Return the positions of the kernel; padded by its size less one, each is an element of the image alone."""
    is_full = padding == kernel - 1 and stride == 1
    return size**2 if is_full else ((size + 2 * padding - kernel) // stride + 1) ** 2


@pytest.mark.parametrize(("padding", "kernel", "stride", "size", "groups"), CONVOLUTIONS)
def test_a_gradient_of_a_convolution_takes_as_many_products_as_the_convolution(
    padding: int, kernel: int, stride: int, size: int, groups: int
) -> None:
    model = JaxModel(
        lambda weights, x: convolve(x * weights["scale"], weights["kernel"], padding, stride, groups),
        {"scale": S((), "float32"), "kernel": S((kernel, kernel, 4 // groups, 4), "float32")},
    )
    trace = trace_step(model, S((BATCH, size, size, 4), "float32"))
    one_pass = BATCH * count_positions(padding, kernel, stride, size) * 4 * (4 // groups) * kernel**2
    assert (work(trace, "forward"), work(trace, "backward")) == (one_pass, 2 * one_pass)


@pytest.mark.parametrize("padding", [1, 5])
def test_the_gradient_of_a_gradient_of_a_convolution_is_said_to_be_uncounted(padding: int) -> None:
    """The penalty is the convolution and its gradient by the image; its own gradients are three convolutions more."""

    def penalty(kernel: Any, x: Any) -> Any:
        return jax.grad(lambda x: (convolve(x, kernel, padding, 1, 1) ** 2).sum())(x) ** 2

    model, x = JaxModel(penalty, S((3, 3, 4, 5), "float32")), S((BATCH, 8, 8, 4), "float32")
    trace = JaxBackend().trace_training(model, ModelInputs(x))
    one_pass = BATCH * count_positions(padding, 3, 1, 8) * 5 * 4 * 9
    assert trace.macs == 3 * one_pass, "both of the penalty, and the gradient of the convolution by the kernel"
    assert dict(trace.uncounted) == {"conv_general_dilated, in the gradient of a gradient": 2}


@pytest.mark.parametrize("padding", [0, 2])
def test_a_convolution_that_is_transposed_and_strided_costs_the_same_backwards(padding: int) -> None:
    def call(weights: Any, x: Any) -> Any:
        return lax.conv_general_dilated(x * weights["scale"], weights["kernel"], (2,), [(padding, padding)], (3,))

    trace = trace_step(JaxModel(call, {"kernel": jnp.ones((6, 4, 3)), "scale": jnp.ones(())}), jnp.ones((BATCH, 4, 9)))
    assert work(trace, "backward") == 2 * work(trace, "forward") == 2 * BATCH * 9 * 4 * 6 * 3


def test_a_scan_is_gone_through_backwards() -> None:
    def function(weight: Any, x: Any) -> Any:
        return lax.scan(lambda carry, _: (jnp.tanh(carry @ weight), None), x, None, length=7)[0]

    trace = trace_step(JaxModel(function, S((4, 4), "float32")), S((BATCH, 4), "float32"))
    number = BATCH * 16
    assert work(trace, "forward") == 7 * number
    assert work(trace, "backward") == 2 * 7 * number


def test_what_remat_computes_again_is_counted_again() -> None:
    def block(weight: Any, x: Any) -> Any:
        return jnp.sin(jnp.sin(x @ weight) @ weight)

    plain = trace_step(JaxModel(block, S((4, 4), "float32")), S((BATCH, 4), "float32"))
    again = trace_step(JaxModel(jax.checkpoint(block), S((4, 4), "float32")), S((BATCH, 4), "float32"))
    assert again.macs == plain.macs + 2 * BATCH * 16


def test_a_product_of_vectors_that_is_computed_again_is_still_one_of_elements() -> None:
    """It sums nothing, so it has no MACs, and 4 x 3 FLOPs; only a gradient of ``W @ v`` has MACs without a sum."""

    def outer(weight: Any, x: Any) -> Any:
        return jnp.sin(jnp.einsum("i,j->ij", x, weight))

    plain = trace_step(JaxModel(outer, S((4,), "float32")), S((BATCH,), "float32"))
    again = trace_step(JaxModel(jax.checkpoint(outer), S((4,), "float32")), S((BATCH,), "float32"))
    assert (again.macs, again.flops) == (plain.macs, plain.flops + BATCH * 4)


class Trained(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm, self.dropout = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(x))


def test_layers_train_in_a_training_step() -> None:
    """The whole normalization, seven operations an element, and two of dropout; the module stays as it was."""
    model = Trained()
    key = model.dropout.rngs.count[...]
    trace = trace_step(model, jnp.ones((BATCH, 4)))
    forward = {op.operator: op.flops for op in trace.operators if op.phase == "forward" and op.flops}
    assert forward == {"BatchNorm": 7 * 12, "Dropout": 2 * 12}
    assert model.dropout.rngs.count[...] == key


def test_more_is_alive_in_a_training_step() -> None:
    inputs = jnp.ones((64, 4))
    forward = JaxBackend().trace(Network(), ModelInputs(inputs)).memory.peak_bytes()
    assert trace_step(Network(), inputs).memory.peak_bytes() > forward


@pytest.mark.parametrize(("function", "size"), [(lambda w, v: w @ v, 5), (lambda w, v: v @ w, 4)])
def test_the_gradient_of_a_matrix_times_a_vector_is_a_product(function: Any, size: int) -> None:
    """4 x 5 products forward, and as many for the gradient of the matrix."""
    trace = trace_step(JaxModel(function, jnp.ones((4, 5))), jnp.ones(size))
    assert (trace.macs, trace.flops) == (40, 80)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("stride", "kernel"), [(1, 3), (1, 4), (2, 3), (2, 2), (3, 2), (2, 4)])
def test_the_gradients_of_a_transposed_convolution_take_twice_its_pass(stride: int, kernel: int, padding: str) -> None:
    """Each of 7 x 8 positions with 4 channels meets a filter of 6 channels; so it is for either gradient."""

    def call(weights: Any, x: Any) -> Any:
        return lax.conv_transpose(x * weights["scale"], weights["kernel"], (stride, stride), padding)

    weights = {"kernel": jnp.ones((kernel, kernel, 4, 6)), "scale": jnp.ones(())}
    trace = trace_step(JaxModel(call, weights), jnp.ones((BATCH, 7, 8, 4)))
    one_pass = BATCH * 7 * 8 * 4 * 6 * kernel**2
    assert (work(trace, "forward"), work(trace, "backward")) == (one_pass, 2 * one_pass)


def test_the_gradients_of_a_transposed_convolution_in_groups() -> None:
    def call(weights: Any, x: Any) -> Any:
        paddings = [(1, 2), (1, 2)]
        return lax.conv_general_dilated(
            x * weights["scale"],
            weights["kernel"],
            (1, 1),
            paddings,
            lhs_dilation=(2, 2),
            feature_group_count=2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    weights = {"kernel": jnp.ones((3, 3, 2, 6)), "scale": jnp.ones(())}
    trace = trace_step(JaxModel(call, weights), jnp.ones((BATCH, 7, 8, 4)))
    one_pass = BATCH * 7 * 8 * 4 * (6 // 2) * 9
    assert (work(trace, "forward"), work(trace, "backward")) == (one_pass, 2 * one_pass)
