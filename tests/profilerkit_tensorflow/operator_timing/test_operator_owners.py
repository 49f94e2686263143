"""Whose an operator is: of graphs by hand, in which the names and the edges say it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import tensorflow as tf

from profilerkit_tensorflow.operator_timing.operator_owners import OperatorOwners
from profilerkit_tensorflow.operator_timing.placed_graphs import Body
from profilerkit_tensorflow.trace.ownership import Owner, Ownership


def trace(function: Any) -> Any:
    """The graph of a function of four numbers; its operators have the names that the function gives to them."""
    return tf.function(function, autograph=False).get_concrete_function(tf.TensorSpec([4])).graph


def chain(x: Any) -> Any:
    """The gradient of a layer, which goes through two operators that no name leads anywhere."""
    gradient = tf.negative(tf.nn.relu(x, name="first/Relu"), name="gradient_tape/first/Relu/Neg")
    return tf.identity(tf.identity(gradient, name="near"), name="far")


def residuals(x: Any) -> Any:
    """Two layers, each added to its input: the sum of the gradients by one's output goes to that layer and to a sum."""
    y = tf.nn.relu(tf.nn.relu(x, name="first/Relu"), name="second/Relu")
    upper = tf.add_n([y, y], name="upper")
    lower = tf.add_n([upper, tf.negative(upper, name="gradient_tape/second/Relu/Neg")], name="lower")
    return tf.negative(lower, name="gradient_tape/first/Relu/Neg")


@pytest.mark.parametrize(
    ("function", "start", "expected"),
    [
        (chain, "gradient_tape/first/Relu/Neg", {"near": "first", "far": "first", "Identity": "first"}),
        (residuals, "upper", {"upper": "second", "lower": "first", "Identity": "first"}),
    ],
)
def test_an_owner_does_not_depend_on_which_operator_is_asked_for_first(
    function: Any, start: str, expected: dict[str, str]
) -> None:
    graph = trace(function)
    position = {operator.name: index for index, operator in enumerate(graph.get_operations())}
    relus = [name for name in position if name in ("first/Relu", "second/Relu")]
    layers = [Owner(name[:-5], 0, "", None, graph, position[name], position[name] + 1) for name in relus]
    for order in permutations(expected):
        ownership = Ownership(layers)
        body = Body(graph, ownership.root, position[start])
        body.forward = body
        owners = OperatorOwners(ownership)
        assert {name: owners.find(body.operators[name], body).path for name in order} == expected


def test_a_scope_is_the_callers_in_each_place_where_its_function_runs() -> None:
    graph = trace(lambda x: tf.nn.relu(x, name="shared/Relu"))
    owners = OperatorOwners(Ownership())
    first, second = (Body(graph, Owner(path, 0), len(graph.get_operations())) for path in ("first", "second"))
    scopes = [owners.find_in_scope("shared", body) for body in (first, second)]
    assert scopes == [first.owner, second.owner]
