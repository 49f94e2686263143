"""Branches and loops that the values of given inputs decide: the branch that is taken, and the turns that are made.

Numbers of turns are counted by running the same loop in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from slow_ones import slow_ones

from profilerkit import ModelInputs, ModelTrace, TensorSpec, profile
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit_jax import JaxModel
from profilerkit_jax.backend import JaxBackend

S = jax.ShapeDtypeStruct
MATRIX = S((4, 4), "float32")
#: The multiply-accumulates of a product of two such matrices.
ONE = 4 * 4 * 4
UNKNOWN = ["while: a loop of an unknown number of turns, counted once"]


def trace_function(function: Any, *inputs: Any) -> ModelTrace:
    trace = JaxBackend().trace(function, ModelInputs(*inputs))
    assert trace.failure is None, trace.failure
    return trace


# Branches -------------------------------------------------------------------------------------------------------------


def branch(x: Any, is_long: Any) -> Any:
    return lax.cond(is_long, lambda: x @ x @ x, lambda: x @ x)


def switch(x: Any, which: Any) -> Any:
    return lax.switch(which, [lambda: x, lambda: x @ x, lambda: x @ x @ x])


@pytest.mark.parametrize(("is_long", "products"), [(True, 2), (False, 1)])
def test_the_branch_of_a_given_value_is_counted(is_long: bool, products: int) -> None:
    trace = trace_function(branch, MATRIX, jnp.bool_(is_long))
    assert (trace.macs, trace.choices, FOLLOWED in trace.notes) == (products * ONE, (), True)
    assert dict(trace.uncounted) == {}


def test_without_a_value_the_dearest_branch_is_counted_with_both_ends() -> None:
    trace = trace_function(branch, MATRIX, S((), "bool"))
    assert (trace.macs, len(trace.choices), FOLLOWED in trace.notes) == (2 * ONE, 1, False)


@pytest.mark.parametrize(("which", "products"), [(-3, 0), (0, 0), (1, 1), (2, 2), (9, 2)])
def test_an_index_of_a_switch_is_kept_to_its_branches(which: int, products: int) -> None:
    assert trace_function(switch, MATRIX, jnp.int32(which)).macs == products * ONE
    assert trace_function(switch, MATRIX, np.int32(which)).macs == products * ONE


@pytest.mark.parametrize(
    ("condition", "products"),
    [
        (lambda x: jnp.sum(x) > 15.0, 2),
        (lambda x: x[0, 0] > 1.0, 1),
        (jax.jit(lambda x: jnp.linalg.norm(x) < 4.1), 2),
        (lambda x: jnp.argmax(x.reshape(-1)) == 0, 2),
        (lambda x: jnp.array([False, True])[x[0, 0].astype("int32")], 2),
    ],
)
def test_a_condition_may_follow_from_an_input(condition: Callable[[Any], Any], products: int) -> None:
    function = lambda x: branch(x, condition(x))  # noqa: E731
    assert [op.macs for op in trace_function(function, jnp.ones((4, 4))).operators if op.macs] == [ONE] * products
    assert trace_function(function, MATRIX).choices


def test_a_condition_on_a_weight_or_on_what_a_loop_carries_is_not_known() -> None:
    """The model is not run for it."""
    model = JaxModel(lambda weight, x: branch(x, jnp.sum(x @ weight) > 0), jnp.ones((4, 4)))
    assert trace_function(model, jnp.ones((4, 4))).choices
    turns = lambda x: lax.scan(lambda c, _: (branch(c, c[0, 0] > 0), None), x, None, length=3)[0]  # noqa: E731
    assert trace_function(turns, jnp.ones((4, 4))).choices


def test_a_condition_that_no_turn_changes_is_known_inside_of_a_loop() -> None:
    turns = lambda x, flag: lax.scan(lambda c, _: (branch(c, flag), None), x, None, length=3)[0]  # noqa: E731
    assert trace_function(turns, MATRIX, jnp.bool_(False)).macs == 3 * ONE


def test_work_on_given_numbers_is_counted_all_the_same() -> None:
    """XLA does not know the value of an input: two operations on a number, and a product for each of 16 elements."""
    assert trace_function(lambda x, n: x * (n * 2.0 + 1.0), MATRIX, jnp.float32(0.0)).flops == 2 + 16


def test_inputs_that_stand_for_shapes_decide_nothing() -> None:
    """Zeros that were made for a shape are no values that a user gave; nor are those of another batch size."""
    function = lambda x, n: lax.switch(n[0], [lambda: x, lambda: x @ x])  # noqa: E731
    inputs = ModelInputs(MATRIX, jnp.zeros(4, "int32"))
    assert not JaxBackend().trace(function, inputs).choices
    inputs.are_random = True
    assert JaxBackend().trace(function, inputs).choices
    shapes = [TensorSpec((4,)), TensorSpec((), "int32")]
    report = profile(function, backend="jax", metrics=["macs"], input_shape=shapes, batch_size=4)
    assert report.status("macs").completeness.value == "partial"


def test_a_report_says_that_it_follows_the_values() -> None:
    report = profile(branch, (jnp.ones((4, 4)), jnp.bool_(True)), backend="jax", metrics=["macs"])
    assert FOLLOWED[1:] in " ".join(str(report).split())
    for is_long, products in ((True, 2), (False, 1), (True, 2)):
        report = profile(branch, (jnp.ones((4, 4)), jnp.bool_(is_long)), backend="jax", metrics=["macs"])
        assert (report["macs"], report.statuses["macs"].completeness.value) == (products * ONE, "complete")


# Loops ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 1, 5])
def test_the_turns_of_a_fori_loop_to_a_given_number(turns: int) -> None:
    function = lambda x, n: lax.fori_loop(0, n, lambda _, y: y @ y, x)  # noqa: E731
    trace = trace_function(function, MATRIX, jnp.int32(turns))
    assert (trace.macs, dict(trace.uncounted), FOLLOWED in trace.notes) == (turns * ONE, {}, True)
    assert list(trace_function(function, MATRIX, S((), "int32")).uncounted) == UNKNOWN


@pytest.mark.parametrize(
    ("start", "goes_on", "step", "turns"),
    [
        (jnp.float32(8), lambda n: n > 1.0, lambda n: n / 2, 3),  # 8, 4, 2, 1
        (jnp.int32(1), lambda n: n < 9, lambda n: n * 2, 4),  # 1, 2, 4, 8, 16
        (jnp.int32(6), lambda n: n != 1, lambda n: jnp.where(n % 2 == 0, n // 2, 3 * n + 1), 8),  # Collatz of 6
        (jnp.array([3, 5]), lambda n: n[1] > 0, lambda n: jnp.stack([n[1], n[0] - 1]), 5),  # 5 2, 2 4, 4 1, 1 3, 3 0
    ],
)
def test_the_turns_of_a_loop_whose_condition_follows_from_an_input(
    start: Any, goes_on: Any, step: Any, turns: int
) -> None:
    def function(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda s: goes_on(s[0]), lambda s: (step(s[0]), s[1] @ s[1]), (n, x))[1]

    made, now = 0, start
    while goes_on(now):
        made, now = made + 1, step(now)
    assert made == turns
    trace = trace_function(function, MATRIX, start)
    assert (trace.macs, dict(trace.uncounted)) == (turns * ONE, {})


def test_a_loop_that_vmap_maps_over_conditions_is_named_as_not_counted() -> None:
    """Its samples end one by one; where all have one condition, it is that of one loop."""

    def loop(x: Any, most: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < most, lambda s: (s[0] + 1, x @ s[1]), (0, x))[1]

    batch = S((3, 4, 4), "float32")
    assert list(trace_function(jax.vmap(loop), batch, jnp.array([1, 5, 2])).uncounted) == UNKNOWN
    trace = trace_function(jax.vmap(loop, in_axes=(0, None)), batch, jnp.int32(5))
    assert (trace.macs, dict(trace.uncounted)) == (5 * 3 * ONE, {})


def test_a_condition_may_follow_from_an_input_through_many_equations() -> None:
    """Beyond Python's stack it is not known: the dearest branch is counted with both ends."""

    def function(x: Any, n: Any, steps: int) -> Any:
        for _ in range(steps):
            n = n + 1
        return branch(x, n > steps)

    assert trace_function(lambda x, n: function(x, n, 100), MATRIX, jnp.int32(0)).macs == ONE
    assert trace_function(lambda x, n: function(x, n, 2000), MATRIX, jnp.int32(0)).choices


def test_a_loop_without_end_or_with_an_effect_is_not_run() -> None:
    def endless(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda s: s[0] != 1, lambda s: (s[0] * 3, s[1] @ s[1]), (n, x))[1]

    assert list(trace_function(endless, MATRIX, jnp.int32(0)).uncounted) == UNKNOWN
    said: list[Any] = []

    def saying(x: Any, n: Any) -> Any:
        def turn(s: Any) -> Any:
            jax.debug.callback(said.append, s[0])
            return jax.pure_callback(lambda v: v + 1, S((), "int32"), s[0]), s[1] @ s[1]

        return lax.while_loop(lambda s: s[0] < 3, turn, (n, x))[1]

    trace = trace_function(saying, MATRIX, jnp.int32(0))
    assert UNKNOWN[0] in trace.uncounted
    assert said == []


# Counters that leave the range of their dtype -------------------------------------------------------------------------

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": lambda one, two: one < two,
    "le": lambda one, two: one <= two,
    "gt": lambda one, two: one > two,
    "ge": lambda one, two: one >= two,
    "ne": lambda one, two: one != two,
}


def turns_made(dtype: str, start: int, step: int, bound: int, comparison: str) -> int | None:
    """Return how often the loop runs in numpy, whose integers go on at the other end of their range; None for ever."""
    low, size = int(np.iinfo(dtype).min), 1 << np.iinfo(dtype).bits
    value = start
    for turns in range(size + 1):
        if not COMPARISONS[comparison](value, bound):
            return turns
        value = (value + step - low) % size + low
    return None


@pytest.mark.parametrize("dtype", slow_ones(["uint8", "int8", "uint16", "int16"], ["uint16", "int16"]))
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_counter_goes_on_at_the_other_end_of_its_range(dtype: str, comparison: str) -> None:
    """Steps that pass the ends of each dtype, up and down, by ``+`` and ``-``."""
    limits, low = np.iinfo(dtype), int(np.iinfo(dtype).min)
    seen = 0
    for start, step, bound in [
        (low, 100, limits.max - 5),
        (low + 3, -1, limits.max - 2),
        (limits.max, 1, low + 7),
        (limits.max - 1, 3, low + 1),
        (0, 7, 3),
        (limits.max, -100, low + 5),
        (0, 1, limits.max),
    ]:
        expected = turns_made(dtype, start, step, bound, comparison)

        def loop(x: Any, start: int = start, step: int = step, bound: int = bound) -> Any:
            def turn(s: Any) -> Any:
                counter = s[0] + jnp.asarray(step, dtype) if step > 0 else s[0] - jnp.asarray(-step, dtype)
                return counter, s[1] @ s[1]

            end = jnp.asarray(bound, dtype)
            return lax.while_loop(lambda s: COMPARISONS[comparison](s[0], end), turn, (jnp.asarray(start, dtype), x))[1]

        trace = trace_function(loop, MATRIX)
        if expected is None:
            assert list(trace.uncounted) == UNKNOWN
        else:
            assert (trace.macs, dict(trace.uncounted)) == (expected * ONE, {}), (start, step, bound)
            seen += 1
    assert seen


@pytest.mark.parametrize(("dtype", "step"), [("uint32", 1 << 30), ("int32", 1 << 30), ("int32", (1 << 31) - 2)])
def test_wide_counters_go_on_at_the_other_end_too(dtype: str, step: int) -> None:
    bound = int(np.iinfo(dtype).max) - 3
    expected = next(
        turns for turns, value in enumerate(wrap_round(dtype, step)) if not value < bound or turns > 100_000
    )

    def loop(x: Any) -> Any:
        start, by, end = (jnp.asarray(number, dtype) for number in (0, step, bound))
        return lax.while_loop(lambda s: s[0] < end, lambda s: (s[0] + by, s[1] @ s[1]), (start, x))[1]

    trace = trace_function(loop, MATRIX)
    if expected > 100_000:
        assert list(trace.uncounted) == UNKNOWN
    else:
        assert trace.macs == expected * ONE


def wrap_round(dtype: str, step: int) -> Any:
    low, size, value = int(np.iinfo(dtype).min), 1 << np.iinfo(dtype).bits, 0
    while True:
        yield value
        value = (value + step - low) % size + low


@pytest.mark.parametrize(("turns", "counted", "uncounted"), [(1_000_000, 1_000_000, 0), (2_000_000_000, 1, 1)])
def test_a_loop_of_more_than_a_million_turns_is_named_as_not_counted(turns: int, counted: int, uncounted: int) -> None:
    function = lambda x, n: lax.fori_loop(0, n, lambda _, y: y @ y, x)  # noqa: E731
    trace = trace_function(function, MATRIX, jnp.int32(turns))
    assert (trace.macs, len(trace.uncounted)) == (counted * ONE, uncounted)


@pytest.mark.parametrize(
    ("number", "index"),
    [
        (lambda: jnp.int32(6) & 3, 2),
        (lambda: jnp.int32(-7) // jnp.int32(2), 0),
        (lambda: lax.div(jnp.int32(7), jnp.int32(2)) - 1, 2),
        (lambda: jnp.uint8(250) + jnp.uint8(8), 2),
        (lambda: jnp.bfloat16(3) / jnp.bfloat16(4) * jnp.bfloat16(2), 1),  # 1.5, cut
    ],
)
def test_numbers_of_the_program_are_folded_as_xla_computes_them(number: Any, index: int) -> None:
    function = lambda x: switch(x, jnp.asarray(number(), "int32"))  # noqa: E731
    assert min(max(int(number()), 0), 2) == index
    assert trace_function(function, MATRIX).macs == index * ONE
