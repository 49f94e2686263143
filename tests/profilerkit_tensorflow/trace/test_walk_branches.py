"""Conditions whose branch is not known before the model runs, and what follows from that; all numbers by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from one_product import ONE, Function, W, X, walk_graph
from small import BACKEND, ones
from small import trace_by_shapes as trace
from small import trace_complete_by_shapes as traced

from profilerkit import ModelInputs
from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.trace.bounds import Bounds

MAY_STOP = "a loop may stop before it reaches its limit; it is counted up to that"


def either(first: Function, second: Function, x: Any = X) -> Any:
    """Return what one of two functions returns; which one depends on the numbers in ``x``."""
    return tf.cond(tf.reduce_sum(x) > 0, first, second)


def repeat(x: Any, runs: Any) -> Any:
    """Multiply with W as often as a tensor says."""
    return tf.while_loop(lambda i, y: i < runs, lambda i, y: (i + 1, y @ W), (0, x))[1]


def autograph(function: Function) -> Function:
    """Return a function whose Python loops and conditions become operators."""
    converted: Function = tf.function(function)
    return converted


# What one branch alone tells --------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_a_flag_that_a_branch_sets_is_not_known(first: bool) -> None:
    def function(x: Any) -> Any:
        flag = either(lambda: tf.constant(first), lambda: tf.constant(not first), x)
        return tf.cond(flag, lambda: x, lambda: x @ W)

    assert traced(function, X).macs == ONE


@pytest.mark.parametrize(("first", "second"), [(2, 50), (50, 2)])
def test_a_limit_that_a_branch_sets_is_not_known(first: int, second: int) -> None:
    def function(x: Any) -> Any:
        return repeat(x, either(lambda: tf.constant(first), lambda: tf.constant(second), x))

    found = trace(function, X)
    assert found.macs == ONE
    assert [missing.split(" (")[0] for missing in found.uncounted] == ["StatelessWhile"]


@pytest.mark.parametrize("alike", [False, True])
def test_what_is_not_known_in_a_branch_stays_unknown_outside_of_it(alike: bool) -> None:
    """A product may be made or not: in the only branch that can be taken, or in both of two branches alike."""

    def product(y: Any) -> Any:
        return either(lambda: y @ W, lambda: y, y)

    def function(x: Any) -> Any:
        if alike:
            return either(lambda: product(x), lambda: product(x), x)
        return tf.cond(tf.rank(x) > 1, lambda: product(x), lambda: x)

    found = traced(function, X)
    assert found.macs == ONE
    assert found.bounds("macs") == Bounds(0, ONE)


def test_a_limit_that_all_branches_set_alike_is_known() -> None:
    def function(x: Any) -> Any:
        return repeat(x, either(lambda: tf.constant(5), lambda: tf.constant(2) + 3, x))

    assert traced(function, X).macs == 5 * ONE


@pytest.mark.parametrize("is_given_in", ["the cheap branch", "the dear branch"])
def test_a_limit_that_one_branch_takes_from_the_inputs_follows_them(is_given_in: str) -> None:
    """The condition is a product, the dear branch makes two, and three turns come after it: not of another input."""

    def function(x: Any, n: Any) -> Any:
        constant, given = tf.constant(3), tf.identity(n)
        dear, cheap = (constant, given) if is_given_in == "the cheap branch" else (given, constant)
        turns, y = either(lambda: (dear, x @ W @ W), lambda: (cheap, x @ W), x @ W)
        return repeat(y, turns)

    found = BACKEND.trace(function, ModelInputs(X, tf.constant(3)))
    assert found.macs == (1 + 2 + 3) * ONE
    assert FOLLOWED in found.notes


def test_a_counter_that_begins_at_an_input_follows_it_after_the_loop() -> None:
    """It begins at 2, and three turns add one each: so the second loop has five, of another input it has others."""

    def function(x: Any, n: Any) -> Any:
        _, last = tf.while_loop(lambda i, j: i < 3, lambda i, j: (i + 1, j + 1), (0, n))
        return repeat(x, last)

    found = BACKEND.trace(function, ModelInputs(X, tf.constant(2)))
    assert found.macs == 5 * ONE
    assert FOLLOWED in found.notes


def test_a_limit_from_a_shape_that_only_one_branch_has_is_not_known() -> None:
    def function(x: Any) -> Any:
        return repeat(x, tf.shape(either(lambda: ones(7, 3), lambda: ones(4, 3), x))[0])

    found = trace(function, X)
    assert found.macs == ONE
    assert [missing.split(" (")[0] for missing in found.uncounted] == ["StatelessWhile"]


def test_a_size_that_only_one_branch_has_costs_what_is_not_known() -> None:
    found = walk_graph(lambda x: either(lambda: x @ W, lambda: ones(1, 3), x) @ W, X)
    assert found.macs == ONE
    assert list(found.uncounted) == ["MatMul of unknown shape"]


@pytest.mark.parametrize(("sign", "expected"), [(1, 2 * ONE), (-1, 1 * 3 * 3)])
def test_an_eager_run_counts_the_branch_that_is_taken_and_its_sizes(sign: int, expected: int) -> None:
    """Of positive numbers a product of two rows and another of it; of negative ones a product of one row alone."""
    found = trace(lambda x: either(lambda: x @ W, lambda: ones(1, 3), x) @ W, sign * X)
    assert (found.method, found.macs, found.missing) == ("an eager run", expected, ())


def test_the_sizes_that_all_branches_have_are_known() -> None:
    @tf.function(input_signature=[tf.TensorSpec((None, 3))])  # type: ignore[untyped-decorator]
    def any_batch(x: Any) -> Any:
        return either(lambda: x @ W, lambda: x + 1.0, x) @ W

    assert traced(lambda x: tf.identity(any_batch(x)), X).macs == 2 * ONE


@pytest.mark.parametrize(("sizes", "counted"), [((3, 3), 2 * ONE), ((3, 4), ONE)])
def test_the_elements_of_a_list_are_known_where_all_branches_put_in_the_same(
    sizes: tuple[int, int], counted: int
) -> None:
    """The list is filled with rows of 3 numbers on one side; on the other with rows of 3, or of 4."""

    @tf.function(input_signature=[tf.TensorSpec((None, None))] * 2)  # type: ignore[untyped-decorator]
    def any_shape(x: Any, other: Any) -> Any:
        def listed(rows: Any) -> Any:
            return tf.raw_ops.TensorListFromTensor(tensor=rows, element_shape=tf.constant(-1))

        handle = either(lambda: listed(x @ W), lambda: listed(other), x)
        stacked = tf.raw_ops.TensorListStack(
            input_handle=handle, element_shape=tf.constant(-1), element_dtype=tf.float32
        )
        return tf.ensure_shape(stacked, (None, None)) @ W

    found = walk_graph(lambda x: any_shape(x, ones(2, sizes[1])), X)
    assert found.macs == counted
    assert bool(found.uncounted) is (counted == ONE)


def test_what_a_branch_hands_on_stays_in_memory() -> None:
    """While the sum is made there are the input, the product of one branch and the sum itself, 24 bytes each."""

    def function(x: Any) -> Any:
        one = either(lambda: x @ W, lambda: ones(1, 3), x)
        return one, x + 1.0

    found = trace(function, X)
    assert found.memory is not None
    last = [record.operator for record in found.operators].index("AddV2")
    assert found.memory.live_bytes[last] == 3 * 24


def test_a_step_that_is_left_out_with_continue_counts_as_taken() -> None:
    @autograph
    def function(x: Any) -> Any:
        total = tf.zeros_like(x)
        for i in tf.range(10):
            if i % 2 == 0:
                continue
            total += x @ W
        return total

    assert traced(function, X).macs == 10 * ONE


# Branches that cannot be counted ----------------------------------------------------------------------------------


def test_a_branch_that_cannot_be_counted_is_named() -> None:
    def python(x: Any) -> Any:
        return tf.ensure_shape(tf.py_function(lambda value: value @ W, [x], tf.float32), (2, 3))

    found = trace(lambda x: either(lambda: x @ W, lambda: python(x), x), X)
    assert found.macs == ONE
    assert dict(found.uncounted) == {"EagerPyFunc": 1}


def test_a_dear_branch_does_not_hide_a_loop_of_unknown_length() -> None:
    def function(x: Any) -> Any:
        return either(lambda: x @ W @ W, lambda: repeat(x, tf.cast(tf.reduce_sum(x), tf.int32)), x)

    found = trace(function, X)
    assert found.macs == 2 * ONE
    assert [(missing.split(" (")[0], calls) for missing, calls in found.uncounted.items()] == [("StatelessWhile", 1)]


def test_what_several_branches_cannot_count_is_named_as_often_as_in_the_worst() -> None:
    def python(x: Any) -> Any:
        return tf.ensure_shape(tf.py_function(lambda value: value, [x], tf.float32), (2, 3))

    found = trace(lambda x: either(lambda: python(x), lambda: python(python(x)), x), X)
    assert dict(found.uncounted) == {"EagerPyFunc": 2}


# Loops that may stop early ----------------------------------------------------------------------------------------


def test_a_loop_with_a_limit_may_stop_before_it() -> None:
    """In each of at most 5 turns there is a product."""

    def function(x: Any) -> Any:
        goes_on = lambda i, y: tf.reduce_sum(y) > 0  # noqa: E731
        return tf.while_loop(goes_on, lambda i, y: (i + 1, y @ W), (0, x), maximum_iterations=5)[1]

    found = traced(function, X)
    assert found.macs == 5 * ONE
    assert [choice.reason for choice in found.choices] == [MAY_STOP]
    assert found.bounds("macs") == Bounds(0, 5 * ONE)


def test_the_gradient_of_a_loop_with_a_limit_counts_up_to_it_too() -> None:
    """Each of 5 turns makes a product, and its gradient two: for what is multiplied and for the weight."""
    weight = tf.Variable(W)

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            goes_on = lambda i, y: tf.reduce_sum(y) > 0  # noqa: E731
            y = tf.while_loop(goes_on, lambda i, y: (i + 1, y @ weight), (0, x), maximum_iterations=5)[1]
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, weight)

    assert traced(function, X).macs == 3 * 5 * ONE


def test_a_loop_with_a_break_is_counted_once_and_says_so() -> None:
    @autograph
    def function(x: Any) -> Any:
        for _ in tf.range(10):
            x = x @ W
            if tf.reduce_sum(x) > 0:
                break
        return x

    found = trace(function, X)
    assert (found.macs, found.bounds("macs")) == (ONE, Bounds(0, None))
    assert [missing.partition(" (")[2] for missing in found.uncounted] == [
        "how often it runs is not known; counted once)"
    ]


def test_what_a_loop_sets_is_not_known_where_it_may_not_run() -> None:
    """It may stop before its first run, and then the flag is as before it, and the product is made."""

    def function(x: Any) -> Any:
        flag = tf.while_loop(
            lambda i, y, flag: tf.logical_and(i < 4, tf.reduce_sum(y) > 0),
            lambda i, y, flag: (i + 1, y, tf.constant(True)),
            (0, x, tf.constant(False)),
        )[2]
        return tf.cond(flag, lambda: x, lambda: x @ W)

    assert traced(function, X).macs == ONE


def test_where_a_counter_ends_is_not_known_of_a_loop_that_may_stop() -> None:
    def function(x: Any) -> Any:
        ended = tf.while_loop(lambda i: tf.logical_and(i < 4, tf.reduce_sum(x) > 0), lambda i: (i + 1,), (0,))[0]
        return tf.cond(ended > 3, lambda: x, lambda: x @ W)

    assert traced(function, X).macs == ONE


# Functions whose gradient was taken -------------------------------------------------------------------------------


class Saved(tf.Module):  # type: ignore[misc]
    """Calls of a product, a loop of three and a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(W)

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])  # type: ignore[untyped-decorator]
    def __call__(self, x: Any) -> Any:
        x = tf.tanh(x @ self.weight)
        x = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y @ self.weight)), (0, x))[1]
        return either(lambda: tf.tanh(x @ self.weight), lambda: tf.exp(x), x)


def test_a_loaded_model_is_the_same_after_its_gradient_was_taken(tmp_path: Path) -> None:
    """TensorFlow adds what the gradient needs to the outputs of the loaded function, in place."""
    tf.saved_model.save(Saved(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    assert traced(loaded, X).macs == 5 * ONE

    @tf.function  # type: ignore[untyped-decorator]
    def learn(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loaded(x))
        return tape.gradient(loss, loaded.weight)

    learn(X)
    assert traced(loaded, X).macs == 5 * ONE


def test_a_loop_until_a_value_is_an_estimate_as_it_may_not_run_at_all() -> None:
    def branched(y: Any) -> Any:
        return tf.cond(tf.reduce_max(y) > 1, lambda: y @ W, lambda: y @ W @ W)

    once = trace(lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: (y @ W,), (x,))[0], X)
    assert (once.macs, once.bounds("macs")) == (ONE, Bounds(0, None))
    both = trace(lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: (branched(y),), (x,))[0], X)
    assert (both.macs, both.bounds("macs")) == (2 * ONE, Bounds(0, None))


def test_branches_inside_branches_have_the_ends_of_all() -> None:
    def inner(x: Any) -> Any:
        return tf.cond(tf.reduce_max(x) > 1, lambda: x, lambda: x @ W @ W)

    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: inner(x) @ W, lambda: x @ W @ W)

    found = traced(function, X)
    assert (found.macs, found.bounds("macs")) == (3 * ONE, Bounds(ONE, 3 * ONE))


# Memory -----------------------------------------------------------------------------------------------------------


def copies(number: int) -> Function:
    """Return a function that makes so many copies of a (2, 3) tensor, of 24 bytes each, and the largest of each."""
    return lambda x: tf.reduce_max(tf.reshape(tf.concat([x] * number, 0), (number, 2, 3)), 0)


@pytest.mark.parametrize(("first", "second"), [(2, 10), (10, 2)])
def test_the_peak_is_that_of_the_counted_branch_and_another_is_said_to_be_possible(first: int, second: int) -> None:
    def function(x: Any) -> Any:
        return either(lambda: copies(first)(x), lambda: copies(second)(x), x)

    found = traced(function, X)
    assert found.memory.peak_bytes(include_weights=False) == 24 + 240 + 24
    assert found.peak_spread is not None
    assert (found.peak_spread.below, found.peak_spread.above) == (None, None)


@pytest.mark.parametrize("swapped", [False, True])
def test_what_any_branch_may_read_is_alive_until_the_condition(swapped: bool) -> None:
    """At the second sum: x, ten copies and their sum, eight copies and their sum; whichever branch is taken."""

    def function(x: Any) -> Any:
        ten = tf.concat([x] * 10, 0)
        s = tf.reduce_sum(ten)
        t = tf.reduce_sum(tf.concat([x] * 8, 0))
        sides = (lambda: tf.reduce_sum(x @ W), lambda: tf.reduce_max(ten))
        return either(*(sides[::-1] if swapped else sides), s) + s + t

    found = traced(function, X)
    assert found.memory.peak_bytes(include_weights=False) == 24 + 240 + 4 + 192 + 4
