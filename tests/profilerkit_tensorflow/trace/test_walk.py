"""The walk over a traced graph: what runs, how often, and with which shapes; all numbers by hand."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from one_product import ONE, Function, W, X, macs, walk_graph
from slow_ones import slow_ones
from small import ones, trace, trace_complete, trace_complete_by_shapes

from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.trace.bounds import Bounds

# What runs --------------------------------------------------------------------------------------------------------


def test_what_no_output_needs_does_not_run() -> None:
    def function(x: Any) -> Any:
        tf.matmul(x, ones(3, 50))
        return x @ W

    assert macs(function) == ONE


def test_what_a_called_function_does_not_read_does_not_run() -> None:
    """One product in the function; those that its second argument is made of, here or in another function, run not."""

    @tf.function  # type: ignore[untyped-decorator]
    def ignoring(x: Any, y: Any) -> Any:
        return x @ W

    @tf.function  # type: ignore[untyped-decorator]
    def making_two(x: Any) -> Any:
        return tf.exp(x), x @ W @ W

    def function(x: Any) -> Any:
        return ignoring(x, x @ W), ignoring(*making_two(x)), ignoring(x, ignoring(x, x @ W))

    assert macs(function) == 3 * ONE


def test_what_has_a_side_effect_runs() -> None:
    variable = tf.Variable(ones(2, 3))

    def function(x: Any) -> Any:
        variable.assign(x @ W)
        return x

    assert macs(function) == ONE


def test_called_functions_are_entered() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def inner(x: Any) -> Any:
        return x @ W

    @tf.function  # type: ignore[untyped-decorator]
    def outer(x: Any) -> Any:
        return inner(inner(x)) @ W

    assert macs(outer) == macs(lambda x: outer(x) + x) == 3 * ONE


def test_of_a_called_function_runs_what_its_caller_uses() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def both(x: Any) -> Any:
        return x @ W, x @ ones(3, 50)

    assert macs(lambda x: both(x)[0]) == ONE
    assert macs(both) == ONE + 2 * 3 * 50


# Loops ------------------------------------------------------------------------------------------------------------


def make_loop(condition: Function, step: Function, start: Any = 0, **options: Any) -> Function:
    """Return a function that multiplies its input with W in a loop over a counter."""

    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: condition(i, x), lambda i, y: (step(i), y @ W), (start, x), **options)[1]

    return function


#: Condition of the counter and the input, next counter, first counter, runs.
LOOPS: dict[str, tuple[Function, Function, Any, int]] = {
    "less": (lambda i, x: i < 7, lambda i: i + 1, 0, 7),
    "less or equal": (lambda i, x: i <= 7, lambda i: i + 1, 0, 8),
    "greater": (lambda i, x: i > 0, lambda i: i - 1, 7, 7),
    "greater or equal": (lambda i, x: i >= 0, lambda i: i - 1, 7, 8),
    "not equal": (lambda i, x: tf.not_equal(i, 6), lambda i: i + 2, 0, 3),
    "limit first": (lambda i, x: tf.constant(7) > i, lambda i: i + 1, 0, 7),
    "limit first, down": (lambda i, x: tf.constant(0) <= i, lambda i: i - 1, 7, 8),
    "steps of three": (lambda i, x: i < 7, lambda i: i + 3, 0, 3),
    "steps of three, included": (lambda i, x: i <= 6, lambda i: 3 + i, 0, 3),
    "steps of minus two": (lambda i, x: i > 0, lambda i: i - 2, 7, 4),
    "fractions": (lambda i, x: i < 1.0, lambda i: i + 0.25, 0.0, 4),
    "limit from the shape": (lambda i, x: i < tf.shape(x)[1], lambda i: i + 1, 0, 3),
    "limit computed from the shape": (lambda i, x: i < 2 * tf.size(x) // 3 + 1, lambda i: i + 1, 0, 5),
    "limit from a range": (lambda i, x: i < tf.reduce_max(tf.range(9)), lambda i: i + 1, 0, 8),
    "both": (lambda i, x: tf.logical_and(i < 7, i < tf.shape(x)[1]), lambda i: i + 1, 0, 3),
    "three": (lambda i, x: tf.logical_and(i < 7, tf.logical_and(i < 5, i < tf.shape(x)[0])), lambda i: i + 1, 0, 2),
    "never": (lambda i, x: i < 0, lambda i: i + 1, 0, 0),
    "once": (lambda i, x: i < 1, lambda i: i + 1, 0, 1),
}


@pytest.mark.parametrize(
    "name",
    slow_ones(LOOPS, ["greater", "greater or equal", "limit first, down", "steps of three, included", "three", "once"]),
)
def test_a_loop_counts_as_often_as_it_runs(name: str) -> None:
    condition, step, start, runs = LOOPS[name]
    assert macs(make_loop(condition, step, start)) == runs * ONE
    function = tf.function(make_loop(condition, step, start))
    assert macs(lambda x: function(x) @ W) == (runs + 1) * ONE


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_condition_counts_once_more_than_its_loop_runs(turns: int) -> None:
    """The condition makes a product too, so there are ``turns`` products in the body and ``turns + 1`` tests."""

    def goes_on(i: Any, x: Any) -> Any:
        return tf.logical_and(i < turns, tf.reduce_sum(x @ W) < 1e9)

    assert macs(make_loop(goes_on, lambda i: i + 1)) == (turns + turns + 1) * ONE


def test_a_loop_that_never_runs_names_what_its_condition_leaves_uncounted() -> None:
    def goes_on(i: Any, x: Any) -> Any:
        made = tf.ensure_shape(tf.numpy_function(lambda x: x, [x], tf.float32), x.shape)
        return tf.logical_and(i < 0, tf.reduce_sum(made) < 1e9)

    found = trace(make_loop(goes_on, lambda i: i + 1), X)
    assert (found.macs, found.uncounted) == (0, {"PyFunc": 1})


def test_a_loop_of_limited_iterations() -> None:
    assert macs(make_loop(lambda i, x: i < 7, lambda i: i + 1, maximum_iterations=4)) == 4 * ONE


def test_python_loops_over_tensors() -> None:
    @tf.function  # type: ignore[untyped-decorator]
    def rows(x: Any) -> Any:
        for row in x:
            x = x @ W + row
        return x

    @tf.function  # type: ignore[untyped-decorator]
    def numbers(x: Any) -> Any:
        for _ in tf.range(1, 10, 2):
            x = x @ W
        return x

    assert macs(rows) == 2 * ONE
    assert macs(numbers) == 5 * ONE


def test_loops_in_loops_multiply() -> None:
    def outer(x: Any) -> Any:
        inner = make_loop(lambda i, y: i < 4, lambda i: i + 1)
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y) @ W), (0, x))[1]

    assert macs(outer) == 3 * (4 + 1) * ONE


def test_a_loop_whose_runs_are_not_known_says_so() -> None:
    found = trace(make_loop(lambda i, x: tf.reduce_sum(x) > tf.cast(i, tf.float32), lambda i: i + 1), X)
    (missing,) = found.missing
    assert "While (how often it runs is not known; counted once)" in missing
    assert (found.macs, found.bounds("macs")) == (ONE, Bounds(0, None))  # its condition may be false at once


def test_a_counter_that_is_not_counted_up_evenly_is_not_known() -> None:
    found = trace(make_loop(lambda i, x: i < 100, lambda i: i * 2, 1), X)
    assert "how often it runs is not known" in found.missing[0]


def test_what_a_condition_computes_counts_once_more_than_the_body() -> None:
    def condition(i: Any, x: Any) -> Any:
        return tf.logical_and(i < 5, tf.reduce_sum(x @ W) > 0)

    assert trace_complete(make_loop(condition, lambda i: i + 1), X).macs == (5 + 6) * ONE


def test_of_a_loop_runs_what_its_caller_uses() -> None:
    def function(x: Any) -> Any:
        def body(i: Any, y: Any, z: Any, unused: Any) -> Any:
            return i + 1, y @ W, z + tf.reduce_sum(y), unused @ ones(3, 3)

        return tf.while_loop(lambda i, *_: i < 4, body, (0, x, 0.0, x))[2]

    assert macs(function) == 4 * ONE  # z needs y, nothing needs the last


def test_a_loop_whose_variable_grows_is_not_counted_in_the_graph_and_is_in_an_eager_run() -> None:
    def function(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.concat([y, y @ W], 0)

        shapes = (tf.TensorShape([]), tf.TensorShape([None, 3]))
        return tf.while_loop(lambda i, y: i < 3, body, (0, x), shape_invariants=shapes)[1]

    found = walk_graph(function, X)
    assert found.missing == ("MatMul of unknown shape (3 calls)",)
    assert found.macs == 0
    completed = trace(function, X)
    assert (completed.macs, completed.missing) == (ONE + 2 * ONE + 4 * ONE, ())  # of 2, 4 and 8 rows
    assert completed.method == "an eager run"


def test_a_loop_whose_variable_might_grow_but_does_not() -> None:
    def function(x: Any) -> Any:
        shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y @ W), (0, x), shape_invariants=shapes)[1]

    assert macs(function) == 3 * ONE


def test_maps_and_scans() -> None:
    """Two rows; each row of three with a matrix of three by three."""

    def times(row: Any) -> Any:
        return tf.linalg.matvec(W, row)

    assert macs(lambda x: tf.map_fn(times, x)) == 2 * 9
    assert macs(lambda x: tf.vectorized_map(times, x)) == 2 * 9
    assert macs(lambda x: tf.scan(lambda state, row: times(state) + row, x, ones(3))) == 2 * 9
    assert macs(lambda x: tf.foldl(lambda state, row: times(state) + row, x, ones(3))) == 2 * 9


# Dilated convolutions ---------------------------------------------------------------------------------------------


def dealt_out(x: Any, further: bool) -> Any:
    """A convolution of dilation two over nine places as TensorFlow spells it: of ten, dealt out, one is cropped."""
    blocks = tf.space_to_batch(x, [2], [[2, 3]])
    y = tf.nn.conv1d(blocks, ones(3, 4, 6), 1, "VALID")
    cropped = tf.batch_to_space(y, [2], [[0, 1]])
    return (cropped, tf.reduce_sum(y)) if further else cropped


def test_what_padding_adds_is_no_part_of_a_dilated_convolution() -> None:
    assert macs(lambda x: dealt_out(x, further=False), ones(1, 9, 4)) == 9 * 6 * 3 * 4


def test_what_is_used_besides_is_not_cropped() -> None:
    assert macs(lambda x: dealt_out(x, further=True), ones(1, 9, 4)) == 2 * 5 * 6 * 3 * 4


# Branches ---------------------------------------------------------------------------------------------------------


def test_of_branches_the_most_expensive_counts() -> None:
    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ W, lambda: x @ W @ W)

    found = trace_complete_by_shapes(function, X)
    assert found.macs == 2 * ONE
    assert found.bounds("macs") == Bounds(ONE, 2 * ONE)
    assert ["most expensive" in choice.reason for choice in found.choices] == [True]


def test_the_most_expensive_branch_is_the_one_with_the_most_flops() -> None:
    x = ones(2, 2)

    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x * tf.ones((100, 2, 2)), lambda: (x @ x)[None])

    found = trace_complete_by_shapes(function, x)
    assert (found.macs, found.bounds("macs")) == (0, Bounds(0, 2 * 2 * 2))
    sum_and_comparison = (4 - 1) + 1
    assert found.flops == sum_and_comparison + 100 * 2 * 2


def test_of_cases_the_most_expensive_counts() -> None:
    def function(x: Any) -> Any:
        index = tf.cast(tf.reduce_sum(x), tf.int32)
        return tf.switch_case(index, [lambda: x, lambda: x @ W @ W @ W, lambda: x @ W])

    assert trace_complete_by_shapes(function, X).macs == 3 * ONE


@pytest.mark.parametrize(("sign", "expected"), [(1, 1), (-1, 2)])
def test_a_branch_that_a_given_input_chooses_is_counted_alone(sign: int, expected: int) -> None:
    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ W, lambda: x @ W @ W)

    found = trace_complete(function, sign * X)
    assert (found.macs, found.choices) == (expected * ONE, ())
    assert found.notes == (FOLLOWED,)


def test_constants_alone_that_choose_a_branch_need_no_note() -> None:
    def function(x: Any) -> Any:
        return tf.cond(tf.constant(3) + tf.shape(x)[0] > 4, lambda: x @ W, lambda: x @ W @ W)

    found = trace_complete(function, X)
    assert (found.macs, found.notes) == (ONE, ())


@pytest.mark.parametrize(("index", "expected"), [(0, 0), (1, 3), (2, 1), (9, 1), (-1, 1)])
def test_a_case_that_a_given_input_chooses_is_counted_alone(index: int, expected: int) -> None:
    def function(x: Any, index: Any) -> Any:
        return tf.switch_case(index, [lambda: x, lambda: x @ W @ W @ W, lambda: x @ W])

    found = trace_complete(function, X, tf.constant(index))
    assert (found.macs, found.choices) == (expected * ONE, ())


@pytest.mark.parametrize("rounds", [0, 1, 6])
def test_a_loop_runs_as_often_as_a_given_input_says(rounds: int) -> None:
    def function(x: Any, rounds: Any) -> Any:
        return tf.while_loop(lambda i, y: i < rounds, lambda i, y: (i + 1, y @ W), (0, x))[1]

    found = trace_complete(function, X, tf.constant(rounds))
    assert (found.macs, found.choices) == (rounds * ONE, ())


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (3, 2)])
def test_a_condition_that_is_known_takes_its_branch(limit: int, expected: int) -> None:
    def function(x: Any) -> Any:
        return tf.cond(tf.shape(x)[0] > limit, lambda: x @ W, lambda: x @ W @ W)

    found = trace_complete(function, X)
    assert found.macs == expected * ONE
    assert found.choices == ()


@pytest.mark.parametrize(("index", "expected"), [(0, 1), (1, 2), (2, 3), (7, 3), (-1, 3)])
def test_a_case_that_is_known_takes_its_branch(index: int, expected: int) -> None:
    branches = [lambda x: x @ W, lambda x: x @ W @ W, lambda x: x @ W @ W @ W]

    def function(x: Any) -> Any:
        chosen = tf.shape(x)[0] - 2 + index
        return tf.switch_case(chosen, [lambda b=b: b(x) for b in branches])

    assert macs(function) == expected * ONE


def test_a_branch_in_a_loop() -> None:
    def function(x: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.cond(i > 2, lambda: y @ W, lambda: y @ W @ W)

        return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

    assert macs(function) == 5 * 2 * ONE  # which it takes changes from run to run
