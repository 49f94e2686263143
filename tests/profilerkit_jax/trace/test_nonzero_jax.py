"""The work on nonzero weights alone, by hand: of masked, cast and turned weights, in loops, branches and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from profilerkit import ModelInputs, NotOfferedError, WithoutValuesError, profile
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

BACKEND = JaxBackend()
X = jnp.ones((2, 4))


def with_zeros(zeros: int, *shape: int, dtype: Any = "float32") -> Any:
    """Return an array of sevens, ``zeros`` of which are zero."""
    array = np.full(shape, 7, dtype)
    array.reshape(-1)[:zeros] = 0
    return jnp.asarray(array)


def count_macs(model: Any, *inputs: Any) -> int:
    trace = BACKEND.trace_nonzero(model, ModelInputs(*inputs))
    assert trace.failure is None, trace.failure
    assert trace.missing == ()
    return trace.macs


def chain(weights: Any, x: Any) -> Any:
    return lax.scan(lambda carry, weight: (carry @ weight, None), x, weights)[0]


def masked_chain(weights: Any, x: Any) -> Any:
    def body(carry: Any, pair: Any) -> Any:
        weight, mask = pair
        return carry @ (weight * mask).T, None

    return lax.scan(body, x, (weights, jnp.stack([with_zeros(zeros, 4, 4) for zeros in (3, 1, 16)])))[0]


def chain_of_chains(weights: Any, x: Any) -> Any:
    return lax.scan(lambda carry, inner: (chain(inner, carry), None), x, weights)[0]


def low_rank(weights: Any, x: Any) -> Any:
    """The product of weights has 3 * 4 * 2 of its own, with 2 of 14 weights zero."""
    return x @ (weights["down"] @ weights["up"])


def convolve(weight: Any, x: Any) -> Any:
    return lax.conv_general_dilated(x, weight, (1, 1), "VALID")


def recurrent(weight: Any, x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda _, carry: carry @ weight, x)


def carry_weight(weight: Any, x: Any) -> Any:
    """The weight is one of the values that the loop carries, and never changed."""
    return lax.fori_loop(0, 5, lambda _, carry: (carry[0] @ carry[1], carry[1]), (x, weight))[0]


def starting_with_a_weight(weights: Any, x: Any) -> Any:
    """The state is a weight before the first turn and an activation after it, so it is no weight."""
    return lax.scan(lambda state, row: (state @ weights["w"] + row, None), weights["start"], x)[0]


def in_branches(weight: Any, x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda x: x @ weight, lambda x: x @ weight @ weight, x)


def pick(weights: Any, x: Any) -> Any:
    """Which of the weights is multiplied depends on the input."""
    return x @ weights[jnp.argmax(x[0])]


STACK = [with_zeros(zeros, 4, 4) for zeros in (5, 0, 16)]
#: Function, parameters, input, and the multiply-accumulates that are left, by hand.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any, Any, int]] = {
    # 2 rows meet 12 - 5 weights
    "a product": (lambda w, x: x @ w, with_zeros(5, 4, 3), X, 14),
    "on the left": (lambda w, x: w @ x.T, with_zeros(5, 3, 4), X, 14),
    "turned": (lambda w, x: x @ w.T, with_zeros(5, 3, 4), X, 14),
    "cast": (lambda w, x: x @ w.astype("bfloat16").astype("float32"), with_zeros(5, 4, 3), X, 14),
    # 3e-30 is zero in float16
    "zero once it is cast": (lambda w, x: x.astype("float16") @ w.astype("float16"), jnp.full((4, 3), 3e-30), X, 0),
    "of integers": (lambda w, x: x @ (w * 0.5), with_zeros(5, 4, 3, dtype="int8"), X, 14),
    # the zero point is 7: of the 12 integers the 5 zeros are left
    "with a zero point": (lambda w, x: x @ (w - 7).astype("float32"), with_zeros(5, 4, 3, dtype="int8"), X, 10),
    "masked": (lambda w, x: x @ (w["w"] * w["m"]), {"w": with_zeros(0, 4, 3), "m": with_zeros(5, 4, 3)}, X, 14),
    "masked by the program": (lambda w, x: x @ (w * with_zeros(5, 4, 3)), with_zeros(0, 4, 3), X, 14),
    # a triangle of 3 * 3 has 6 elements
    "masked by sizes": (lambda w, x: x[:, :3] @ jnp.tril(w), with_zeros(0, 3, 3), X, 12),
    "jitted and gated": (lambda w, x: jax.jit(lambda v: x @ jax.nn.relu(v))(w), -with_zeros(5, 4, 3), X, 0),
    "rematerialized": (lambda w, x: jax.checkpoint(lambda v: x @ (v * 2))(w), with_zeros(5, 4, 3), X, 14),
    # nothing of it is held: a product with what is made of sizes has all of its work
    "made of sizes": (lambda w, x: x @ jnp.eye(4), with_zeros(12, 4, 3), X, 32),
    "a vector": (lambda w, x: x @ w, with_zeros(1, 4), X, 2 * 3),
    "between activations": (lambda w, x: x @ x.T, with_zeros(2, 4), X, 16),
    "of weights alone": (low_rank, {"down": with_zeros(1, 4, 2), "up": with_zeros(1, 2, 3)}, X, 20 + 24),
    # 9 positions meet 3 * 2 * 9 - 10 weights
    "a convolution": (convolve, with_zeros(10, 3, 2, 3, 3), jnp.ones((1, 2, 5, 5)), 9 * 44),
    # a grid of 3 * 3 filters with 8 of 9 weights each
    "grouped": (
        lambda w, x: lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2),
        with_zeros(2, 2, 1, 3, 3),
        jnp.ones((1, 2, 5, 5)),
        9 * 16,
    ),
    "einsum": (lambda w, x: jnp.einsum("bi,hij->bhj", x, w), with_zeros(7, 2, 4, 3), X, 2 * 17),
    # each turn takes a slice: 11, 16 and none of 16 weights are left
    "a stack in a scan": (chain, jnp.stack(STACK), X, 2 * 27),
    "a stack of stacks": (chain_of_chains, jnp.stack([jnp.stack(STACK)] * 2), X, 2 * 54),
    # the masks have 3, 1 and 16 zeros, at the same places as those of the weights
    "a masked stack in a scan": (masked_chain, jnp.stack(STACK), X, 2 * (11 + 15)),
    "a weight of every turn": (recurrent, with_zeros(5, 4, 4), X, 5 * 22),
    "carried and not changed": (carry_weight, with_zeros(5, 4, 4), X, 5 * 22),
    # 2 turns of 3 rows that meet 16 - 5 weights; all of the start is zero
    "a state": (starting_with_a_weight, {"w": with_zeros(5, 4, 4), "start": jnp.zeros((3, 4))}, X, 2 * 3 * 11),
    # the dearer branch
    "branches": (in_branches, with_zeros(5, 4, 4), jax.ShapeDtypeStruct(X.shape, X.dtype), 2 * 22),
    "the branch that a given input takes": (in_branches, with_zeros(5, 4, 4), X, 22),
    "picked by an input": (pick, jnp.stack([with_zeros(5, 4, 3)] * 4), X, 24),
}


@pytest.mark.parametrize("case", CASES)
def test_work_is_left_out_by_the_zeros_of_each_weight(case: str) -> None:
    function, params, x, macs = CASES[case]
    assert count_macs(JaxModel(function, params), x) == macs


def test_flops_are_less_by_the_products_alone() -> None:
    model = JaxModel(lambda params, x: x @ params["w"] + params["b"], {"w": with_zeros(5, 4, 3), "b": jnp.zeros(3)})
    trace = BACKEND.trace_nonzero(model, ModelInputs(X))
    assert trace.flops == 2 * 14 + 6  # the bias is added to each of 6 results


def test_branches_cost_what_is_left_of_them() -> None:
    """The branch with more zeros is the cheaper one, and both ends are known."""
    params = {"w": with_zeros(9, 4, 3), "v": with_zeros(5, 4, 3)}
    model = JaxModel(lambda p, x: lax.cond(x[0, 0] > 0, lambda: x @ p["w"], lambda: x @ p["v"]), params)
    trace = BACKEND.trace_nonzero(model, ModelInputs(jax.ShapeDtypeStruct(X.shape, X.dtype)))
    assert trace.macs == 14
    [choice] = trace.choices
    assert sorted(sum(macs for macs, _ in branch.work.values()) for branch in choice.branches) == [6, 14]


def test_shapes_have_no_zeros_and_both_metrics_say_so() -> None:
    model = JaxModel(lambda params, x: x @ params["w"], {"w": jax.ShapeDtypeStruct((4, 3), "float32")})
    report = profile(model, X, metrics=["macs", "effective_macs", "sparsity"])
    assert report["macs"] == 24
    for metric in ("effective_macs", "sparsity"):
        assert report.status(metric).completeness.value == "unavailable"
        assert "weights of function have no values, 'w' first, 1 of 1: " in " ".join(report.status(metric).missing)
    with pytest.raises(WithoutValuesError, match="have no values"):
        BACKEND.trace_nonzero(model, ModelInputs(X))


def test_what_computes_a_weight_and_cannot_is_named() -> None:
    def negated(weight: Any) -> Any:
        raise RuntimeError("the sensor is off")

    def function(weight: Any, x: Any) -> Any:
        return x @ jax.pure_callback(negated, jax.ShapeDtypeStruct(weight.shape, weight.dtype), weight)

    with pytest.raises(NotOfferedError, match="the primitive pure_callback, which makes weights of others, cannot be"):
        BACKEND.trace_nonzero(JaxModel(function, with_zeros(5, 4, 3)), ModelInputs(X))


def test_a_long_chain_of_equations_is_computed_once_each() -> None:
    """Each of 60 weights is the sum of the one before with itself: 2 to the 60 ways lead to the first."""

    def function(weight: Any, x: Any) -> Any:
        for _ in range(60):
            weight = (weight + weight) * 0.5
        return x @ weight

    assert count_macs(JaxModel(function, with_zeros(5, 4, 3)), X) == 14


def test_zeros_are_counted_in_more_than_32_bits() -> None:
    """Rows are counted by themselves; a number of zeros and one of a weight without dimensions are there too."""
    zeros = {"w": with_zeros(5, 3, 4), "one": jnp.zeros(()), "none": jnp.zeros((0, 4))}
    assert BACKEND.zero_weights(JaxModel(lambda params, x: x, zeros)) == (6, 13)


# Modules ------------------------------------------------------------------------------------------------------------


def test_a_module_of_nnx() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    model.kernel.set_value(with_zeros(5, 4, 3))
    report = profile(model, X, metrics=["macs", "effective_macs", "sparsity"])
    # the bias of 3 is made of zeros
    assert (report["macs"], report["effective_macs"], report["sparsity"]) == (24, 14, 8 / 15)
    assert (model.kernel[...] == with_zeros(5, 4, 3)).all()


def test_layers_of_nnx_in_a_scan() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Stack(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            make = nnx.vmap(lambda rngs: nnx.Linear(4, 4, use_bias=False, rngs=rngs), in_axes=0)
            self.layers = make(nnx.Rngs(0).split(3))
            self.layers.kernel.set_value(jnp.stack(STACK))

        def __call__(self, x: Any) -> Any:
            return nnx.scan(lambda x, layer: layer(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)(x, self.layers)

    assert count_macs(Stack(), X) == 2 * 27


def test_a_module_of_linen() -> None:
    linen = pytest.importorskip("flax.linen")
    model = JaxModel(linen.Dense(3), {"params": {"kernel": with_zeros(5, 4, 3), "bias": jnp.ones(3)}})
    assert count_macs(model, X) == 14


def test_a_module_of_equinox() -> None:
    eqx = pytest.importorskip("equinox")
    layer = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    layer = eqx.tree_at(lambda item: item.weight, layer, with_zeros(5, 3, 4))
    assert count_macs(layer, jnp.ones(4)) == 7
