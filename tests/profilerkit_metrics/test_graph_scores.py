"""Whether the scores of a graph are probabilities or logits, by the operators at its end."""

from __future__ import annotations

import pytest

from profilerkit_metrics.graph_scores import GraphStep, Role, gives_probabilities

SIGMOID = GraphStep(Role.SIGMOID, ["x"], ["p"])
SOFTMAX = GraphStep(Role.SOFTMAX, ["x"], ["s"])
LINEAR = GraphStep(Role.LINEAR, ["x"], ["l"])
OTHER = GraphStep(Role.OTHER, ["x"], ["o"])


@pytest.mark.parametrize(
    ("role", "reads", "expected"),
    [
        (Role.MOVE, ["p"], True),
        (Role.MOVE, ["l"], False),
        (Role.MOVE, ["p", "o"], True),  # the second says where to
        (Role.MOVE, ["o", "p"], None),
        (Role.MOVE, ["s"], None),
        (Role.MOVE, ["x"], None),
        (Role.JOIN, ["p", "p"], True),
        (Role.JOIN, ["l", "l"], False),
        (Role.JOIN, ["p", "l"], None),
        (Role.JOIN, ["l", "o"], None),
        (Role.ADD, ["l", "x"], False),
        (Role.ADD, ["l", "o"], False),
        (Role.ADD, ["p", "p"], None),
        (Role.ADD, ["o", "o"], None),
        (Role.LINEAR, ["o"], False),
        (Role.LINEAR, ["p"], None),
        (Role.LINEAR, ["s"], None),
        (Role.OTHER, ["p"], None),
        (Role.OTHER, ["l"], None),
    ],
)
def test_the_last_operator_says_what_the_scores_are(role: Role, reads: list[str], expected: bool | None) -> None:
    steps = [SIGMOID, SOFTMAX, LINEAR, OTHER, GraphStep(role, reads, ["y"])]
    assert gives_probabilities(steps, "y") is expected
    handed_on = [*steps, GraphStep(Role.MOVE, ["y"], ["z"])]
    assert gives_probabilities(handed_on, "z") is expected


@pytest.mark.parametrize("role", [Role.MOVE, Role.OTHER, Role.JOIN, Role.ADD])
@pytest.mark.parametrize("source", ["p", "s"])
def test_a_product_of_what_comes_from_probabilities_may_be_a_mean_of_them(role: Role, source: str) -> None:
    steps = [SIGMOID, SOFTMAX, GraphStep(role, [source], ["a"]), GraphStep(Role.LINEAR, ["a"], ["y"])]
    assert gives_probabilities(steps, "y") is None
    assert gives_probabilities([*steps, GraphStep(Role.LINEAR, ["y"], ["z"])], "z") is False  # a mean is weighed again


def test_the_inputs_of_a_graph_are_no_scores() -> None:
    assert gives_probabilities([SIGMOID], "x") is None
    assert gives_probabilities([], None) is None
