"""Loops, branches, calls and devices inside a function: what runs how often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from profilerkit import ModelInputs, ModelTrace
from profilerkit.trace.bounds import Bounds
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

S = jax.ShapeDtypeStruct
MATRIX = S((4, 4), "float32")
#: The multiply-accumulates of the product of two such matrices.
ONE = 4 * 4 * 4


def trace_function(function: Callable[..., Any], *inputs: Any) -> ModelTrace:
    trace = JaxBackend().trace(function, ModelInputs(*inputs))
    assert trace.failure is None, trace.failure
    return trace


# Loops --------------------------------------------------------------------------------------------------------------


def test_a_scan_counts_its_body_for_each_turn() -> None:
    def chain(x: Any, weights: Any) -> Any:
        return lax.scan(lambda carry, weight: (carry @ weight, jnp.sum(carry)), x, weights)

    trace = trace_function(chain, MATRIX, S((9, 4, 4), "float32"))
    assert trace.macs == 9 * ONE
    assert trace.flops == 2 * 9 * ONE + 9 * 16
    assert not trace.uncounted


def test_a_loop_in_the_function_of_a_reduction_runs_for_each_element() -> None:
    """8 hyperbolic tangents, and 3 additions for each of the 8 elements; the numbers inside have no buffers."""

    def add_three_times(total: Any, number: Any) -> Any:
        return lax.fori_loop(0, 3, lambda turn, summed: summed + number, total)

    trace = trace_function(lambda x: lax.reduce(jnp.tanh(x), 0.0, add_three_times, (1,)), S((2, 4), "float32"))
    assert trace.flops == 2 * 4 + 2 * 4 * 3
    assert trace.memory is not None
    assert trace.memory.live_bytes == (2 * 4 * (4 + 4), 2 * 4 * (4 + 4) + 2 * 4)


def test_a_layer_in_the_body_of_a_loop_is_called_in_each_turn() -> None:
    """The scope around the loop once, the one in it five times, and the one in the loop inside fifteen times."""

    def body(carry: Any, _: Any) -> Any:
        with jax.named_scope("step"):
            carry = carry @ carry

            def again(inner: Any, _: Any) -> Any:
                with jax.named_scope("inner"):
                    return inner @ inner, None

            return lax.scan(again, carry, None, length=3)[0], None

    def chain(x: Any) -> Any:
        with jax.named_scope("outer"):
            return lax.scan(body, x, None, length=5)[0] @ x

    trace = trace_function(chain, MATRIX)
    calls = {row["path"]: (row["calls"], row["macs"]) for row in trace.table}
    assert calls == {
        "": (1, (1 + 5 + 15) * ONE),
        "outer": (1, (1 + 5 + 15) * ONE),
        "outer.step": (5, (5 + 15) * ONE),
        "outer.step.inner": (15, 15 * ONE),
    }


@pytest.mark.parametrize(
    ("start", "step", "runs_on", "turns"),
    [
        (0, 1, lambda i: i < 7, 7),
        (2, 1, lambda i: i < 7, 5),
        (0, 3, lambda i: i < 7, 3),
        (0, 1, lambda i: i <= 7, 8),
        (7, -1, lambda i: i > 0, 7),
        (7, -2, lambda i: i >= 0, 4),
        (0, 7, lambda i: i != 21, 3),
        (9, 1, lambda i: i < 7, 0),
    ],
)
def test_a_while_loop_that_counts_to_a_bound(start: int, step: int, runs_on: Any, turns: int) -> None:
    def loop(x: Any) -> Any:
        return lax.while_loop(lambda s: runs_on(s[0]), lambda s: (s[0] + step, s[1] @ s[1]), (start, x))[1]

    trace = trace_function(loop, MATRIX)
    assert (trace.macs, dict(trace.uncounted)) == (turns * ONE, {})


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: lax.while_loop(lambda c: jnp.sum(c) < 9.0, lambda c: c @ c, x),
        lambda x: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1] @ s[1]), (x[0, 0], x))[1],
        lambda x: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] + 1, s[1] @ s[1]), (jnp.float32(1), x))[1],
        lambda x: lax.while_loop(lambda s: (s[0] < 9) & (jnp.sum(s[1]) > 0), lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[
            1
        ],
    ],
)
def test_a_while_loop_of_an_unknown_number_of_turns_is_partial(loop: Any) -> None:
    trace = trace_function(loop, MATRIX)
    assert (trace.macs, trace.bounds("macs")) == (ONE, Bounds(0, None))  # its condition may be false at once
    assert list(trace.uncounted) == ["while: a loop of an unknown number of turns, counted once"]


def test_what_is_not_known_in_a_branch_that_is_not_counted_leaves_no_upper_end() -> None:
    """The dearer branch has two products, the other a loop of any number of them."""
    trace = trace_function(
        lambda x: lax.cond(
            jnp.sum(x) > 0,
            lambda c: lax.while_loop(lambda c: jnp.sum(c) < 9.0, lambda c: c @ c, c),
            lambda c: c @ c @ c,
            x,
        ),
        MATRIX,
    )
    assert (trace.macs, trace.bounds("macs")) == (2 * ONE, Bounds(0, None))
    assert list(trace.uncounted) == ["while: a loop of an unknown number of turns, counted once"]


# Branches -----------------------------------------------------------------------------------------------------------


def test_a_cond_counts_the_dearer_branch_and_tells_both_ends() -> None:
    trace = trace_function(lambda x: lax.cond(jnp.sum(x) > 0, lambda c: c @ c @ c, lambda c: c + 1, x), MATRIX)
    assert trace.macs == 2 * ONE
    bounds = trace.bounds("macs")
    assert (bounds.low, bounds.high) == (0, 2 * ONE)
    of_flops = trace.bounds("flops")
    assert (of_flops.low, of_flops.high) == (16 + 16, 16 + 2 * 2 * ONE)  # the sum is always there


def test_a_choice_inside_a_choice() -> None:
    def inner(x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda c: c @ c @ c, lambda c: c @ c, x)

    trace = trace_function(lambda x: lax.cond(x[1, 1] > 0, inner, lambda c: c @ c @ c @ c, x), MATRIX)
    assert trace.macs == 3 * ONE
    bounds = trace.bounds("macs")
    assert (bounds.low, bounds.high) == (ONE, 3 * ONE)


#: The bytes of such a matrix.
BYTES = 4 * 4 * 4


@pytest.mark.parametrize("other", [lambda c: c + 1, lambda c: jnp.concatenate([c] * 8)[:4]])
def test_the_peak_is_that_of_the_counted_branch_and_another_is_said_to_be_possible(other: Any) -> None:
    """Counted are what is given, the first product and the second."""
    trace = trace_function(lambda x: lax.cond(jnp.sum(x) > 0, lambda c: c @ c @ c, other, x), MATRIX)
    assert max(trace.memory.live_bytes) == 3 * BYTES
    assert trace.peak_spread is not None
    assert (trace.peak_spread.below, trace.peak_spread.above) == (None, None)


def hold_until(read: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return a function that makes ten matrices ``a``, then eight, each with its sum, and then reads the ten."""

    def function(x: Any) -> Any:
        a = jnp.concatenate([x] * 10)
        s = jnp.sum(a)
        t = jnp.sum(jnp.concatenate([x] * 8))
        return read(x, a) + s + t

    return function


def read_never(x: Any, a: Any) -> Any:
    return jnp.sum(x @ x)


def read_largest(x: Any, a: Any) -> Any:
    return jnp.max(a)


def cond_of(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda x, a: lax.cond(x[0, 0] > 0, first, second, x, a)


@pytest.mark.parametrize(
    "read",
    [
        cond_of(read_never, read_largest),
        cond_of(read_largest, read_never),
        cond_of(read_never, cond_of(read_largest, read_never)),
        lambda x, a: lax.fori_loop(0, 3, lambda i, c: c + cond_of(read_never, read_largest)(x, a), jnp.float32(0)),
        lambda x, a: jnp.max(lax.fori_loop(0, 3, lambda i, c: jnp.concatenate([x] * 10), a)),
    ],
    ids=["in the other branch", "in the dearer branch", "in a branch of a branch", "in a loop", "as a loop begins"],
)
@pytest.mark.parametrize("given", [MATRIX, jnp.ones((4, 4)), -jnp.ones((4, 4))], ids=["unknown", "yes", "no"])
def test_what_any_branch_may_read_is_alive_until_the_cond(read: Any, given: Any) -> None:
    """At the second sum: x, the ten matrices and their sum, the eight and their sum; whichever branch is taken."""
    trace = trace_function(hold_until(read), given)
    assert max(trace.memory.live_bytes) == (1 + 10 + 8) * BYTES + 4 + 4


def test_a_choice_inside_a_branch_that_is_known() -> None:
    """The branch that is taken has one product or two; the other one, of four, counts for nothing."""

    def inner(x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda c: c @ c @ c, lambda c: c @ c, x)

    trace = trace_function(lambda x: lax.switch(1, [lambda c: c @ c @ c @ c @ c, inner], x), MATRIX)
    assert (trace.macs, trace.bounds("macs")) == (2 * ONE, Bounds(ONE, 2 * ONE))


# Calls --------------------------------------------------------------------------------------------------------------


@jax.custom_vjp
def square(x: Any) -> Any:
    return x @ x


square.defvjp(lambda x: (x @ x, x), lambda x, g: (g @ x.T + x.T @ g,))


@jax.custom_jvp
def cube(x: Any) -> Any:
    return x @ x @ x


cube.defjvp(lambda primals, tangents: (cube(*primals), tangents[0]))


@pytest.mark.parametrize(
    ("function", "products"),
    [
        (jax.jit(lambda x: x @ x), 1),
        (lambda x: jax.jit(lambda y: y @ y)(x) + jax.jit(lambda y: y @ y)(x), 2),
        (jax.checkpoint(lambda x: x @ x), 1),
        (square, 1),
        (cube, 2),
        (jax.vmap(lambda row: row @ jnp.ones((4, 4))), 1),
        (lambda x: lax.map(lambda row: row @ jnp.ones((4, 4)), x), 1),
        (lambda x: lax.associative_scan(jnp.matmul, jnp.stack([x, x])), 1),
    ],
)
def test_what_is_inside_a_call_is_counted(function: Any, products: int) -> None:
    assert trace_function(function, MATRIX).macs == products * ONE


def test_what_a_scan_carries_and_what_it_takes_in_slices_is_told_by_shapes() -> None:
    """Five turns, each a product with the carried, with the closed over and with the sliced matrix."""

    def function(x: Any, stacked: Any) -> Any:
        def turn(carried: Any, piece: Any) -> Any:
            return (carried[0] @ x, carried[1] + 1), carried[0] @ piece @ piece

        return lax.scan(turn, (x, jnp.zeros((), "int32")), stacked)

    trace = trace_function(function, MATRIX, S((5, 4, 4), "float32"))
    assert trace.macs == 5 * 3 * ONE


def test_what_no_output_needs_is_not_counted() -> None:
    def function(x: Any) -> Any:
        x @ x @ x
        return x @ x

    assert trace_function(function, MATRIX).macs == ONE


def test_one_devices_share_of_a_shard_map_is_counted_and_noted() -> None:
    mesh = Mesh(np.array(jax.devices()[:1]), ("batch",))
    spec = PartitionSpec("batch")
    mapped = jax.shard_map(lambda x: lax.psum(x @ x.T, "batch"), mesh=mesh, in_specs=spec, out_specs=PartitionSpec())
    trace = trace_function(mapped, MATRIX)
    assert trace.macs == ONE
    assert trace.flops == 2 * ONE, "one device has nothing to add up"
    assert any("shard_map" in note for note in trace.notes)


def test_an_abstract_mesh_of_many_devices_needs_none_of_them() -> None:
    mesh = jax.sharding.AbstractMesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    mapped = jax.shard_map(
        lambda x: lax.psum(x.T @ x, "batch"), mesh=mesh, in_specs=PartitionSpec("batch"), out_specs=PartitionSpec()
    )
    trace = trace_function(mapped, S((64, 4), "float32"))
    assert trace.macs == 64 // 8 * 4 * 4
    assert trace.flops == 2 * trace.macs + 4 * 4  # around a ring one addition for each element
    assert "8 devices" in " ".join(trace.notes)


def test_how_weights_and_inputs_are_spread_over_explicit_axes_belongs_to_their_types() -> None:
    """By default the axes of ``jax.make_mesh`` are explicit; a ``shard_map`` refuses arrays of another type there."""
    mesh = jax.sharding.AbstractMesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
    specs = (PartitionSpec(), PartitionSpec("batch"))
    mapped = jax.shard_map(lambda weight, x: x @ weight, mesh=mesh, in_specs=specs, out_specs=PartitionSpec("batch"))
    weight, x = (
        S(shape, "float32", sharding=NamedSharding(mesh, spec))
        for shape, spec in zip(((4, 4), (64, 4)), specs, strict=True)
    )
    assert trace_function(JaxModel(mapped, weight), x).macs == trace_function(mapped, weight, x).macs == 64 // 8 * 4 * 4


# Numbers that are known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "flops"), [("float32", 32), ("bfloat16", 32), ("complex64", 64), ("int32", 0)])
def test_a_sum_over_devices_is_an_addition_of_each_element(dtype: str, flops: int) -> None:
    """Each of 4 devices has 4 x 8 of the 16 x 8 elements; the addition of complex numbers is two of real ones."""
    mesh = jax.sharding.AbstractMesh((4,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("batch")
    mapped = jax.shard_map(lambda x: lax.psum(x, "batch"), mesh=mesh, in_specs=spec, out_specs=PartitionSpec())
    assert trace_function(mapped, S((16, 8), dtype)).flops == flops


def test_single_numbers_of_the_program_cost_nothing() -> None:
    trace = trace_function(lambda x: x * (jnp.float32(2.0) * 3.0 + 1.0), MATRIX)
    assert trace.flops == 16


# Memory -------------------------------------------------------------------------------------------------------------


def test_live_bytes_along_a_chain() -> None:
    """Input and two intermediate matrices of 64 bytes are alive while the second exponential runs."""
    trace = trace_function(lambda x: jnp.exp(jnp.exp(jnp.exp(x))), MATRIX)
    assert trace.memory.input_bytes == 64
    assert trace.memory.live_bytes == (128, 192, 192)


def test_views_take_no_bytes() -> None:
    trace = trace_function(lambda x: jnp.exp(x.T.reshape(16)), MATRIX)
    assert trace.memory.live_bytes[-1] == 64 + 64
