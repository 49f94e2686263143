"""Which blocks count as equal, and what a block that is watched notes; no step is run."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from profilerkit_torch.meshes.equal_blocks import LEAST, find_equal_blocks
from profilerkit_torch.meshes.watched_numbers import OwnNumber, watch_numbers
from profilerkit_torch.model.inventory import Inventory

#: Enough blocks for three stages, of which the blocks that run are in the first and the last.
BLOCKS = 3 * LEAST


class Slots:
    __slots__ = ("width",)

    width: int


class Sizes(Slots):
    """A class whose objects have a place of their own for one attribute, and a dictionary for the others."""


class Settings(dict[str, int]):
    """A dictionary that has attributes."""


class Words(deque[int]):
    """A class in C that compares what it holds, with attributes."""


def make_sizes(width: int) -> Sizes:
    sizes = Sizes()
    sizes.width = width
    return sizes


def make_settings(width: int) -> Settings:
    settings = Settings()
    settings.width = width  # type: ignore[attr-defined]
    return settings


def make_hooked(width: int) -> nn.Parameter:
    weight = nn.Parameter(torch.zeros(2))
    if width == 2:
        weight.register_hook(lambda gradient: gradient * 2)
    return weight


def make_function(width: int) -> Callable[[], int]:
    def work() -> int:
        return work.width  # type: ignore[attr-defined,no-any-return]

    work.width = width  # type: ignore[attr-defined]
    return work


def list_lengths(make: Callable[[int], Any]) -> list[int]:
    """Return how many equal blocks a model has, in each run; each block has what ``make`` makes of its number."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(BLOCKS)))
    for number, block in enumerate(model):
        block.kept = make(number)
    return [len(blocks.modules) for blocks in find_equal_blocks(Inventory(model))]


@pytest.mark.parametrize(
    "make",
    [
        lambda number: 7,
        lambda number: number,
        lambda number: number + 100,
        lambda number: {"layer": number, "width": 2},
        lambda number: partial(max, 3),
        lambda number: make_sizes(3),
        lambda number: make_settings(3),
        lambda number: Words([3]),
    ],
    ids=["equal", "number", "number from 100", "number in a dict", "partial", "slots", "dict", "deque"],
)
def test_blocks_that_differ_in_their_number_alone_are_equal(make: Callable[[int], Any]) -> None:
    assert list_lengths(make) == [BLOCKS]


#: Attributes of which the second third of the blocks has another one, by the stage: 0, 1 or 2.
STAGES: dict[str, Callable[[int], Any]] = {
    "number": lambda stage: stage,
    "text": str,
    "list": lambda stage: [stage],
    "tuple": lambda stage: (1, stage),
    "set": lambda stage: {stage},
    "key": lambda stage: {stage: "kept"},
    "later partial": lambda stage: [partial(max, 7), partial(max, stage)],
    "attribute of a function": make_function,
    "slots": make_sizes,
    "attribute of a dict": make_settings,
    "deque": lambda stage: Words([stage]),
}


@pytest.mark.parametrize("make", STAGES.values(), ids=STAGES)
def test_each_stage_of_blocks_is_apart(make: Callable[[int], Any]) -> None:
    """Also where the stage grows by one from a block to the next, as the number of a block does."""
    assert list_lengths(lambda number: make(number // LEAST)) == [LEAST] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda number: BLOCKS - number,
        lambda number: f"{number}",
        lambda number: [number],
        lambda number: (number, 1),
        lambda number: number / BLOCKS,
    ],
    ids=["down", "path", "list", "tuple", "float"],
)
def test_what_else_grows_with_the_number_makes_blocks_differ(make: Callable[[int], Any]) -> None:
    """The path of a block is its number here: a block may ask for it as for a number."""
    assert list_lengths(make) == []


def test_one_block_that_has_another_attribute_divides_its_neighbours() -> None:
    """A hook on the gradient of a weight is of the block that has the weight."""
    assert list_lengths(lambda number: make_hooked(2 if number == LEAST else 1)) == [LEAST, BLOCKS - LEAST - 1]
    assert list_lengths(lambda number: int(number == LEAST)) == [LEAST, BLOCKS - LEAST - 1]


def test_blocks_that_share_weights_with_any_before_are_not_equal() -> None:
    """Each has a weight of that before the last."""
    weights = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
    assert list_lengths(lambda number: weights[number % 2]) == []


#: What a block may do with its number.
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "index of a list": lambda number: [7, 8, 9][number],
    "part of a list": lambda number: [7, 8, 9][:number],
    "loop": lambda number: list(range(number)),
    "key": lambda number: {1: "one"}[number],
    "set": lambda number: number in {5},
    "tuple": lambda number: number in (5, 6),
    "comparison": lambda number: number == 5,
    "comparison from the left": partial(operator.eq, 5),
    "truth": lambda number: not number,
    "text": str,
    "format": lambda number: f"layer {number:03}",
    "percent": lambda number: "%d" % number,  # noqa: UP031
    "remainder": lambda number: number % 3,
    "product from the right": lambda number: 3 * number,
    "least": lambda number: min(number, 3),
    "method": lambda number: number.bit_length(),
    "copy": deepcopy,
    "index": operator.index,
    "float": float,
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_number_that_is_asked_for_is_noted_and_answers(ask: Callable[[Any], Any]) -> None:
    attributes: dict[str, Any] = {"layer_idx": 1}
    with watch_numbers([OwnNumber(attributes, "layer_idx")]) as asked:
        answer = ask(attributes["layer_idx"])
        assert set(asked) == {"layer_idx"}
    assert attributes == {"layer_idx": 1}
    assert type(attributes["layer_idx"]) is int
    assert answer == ask(1)


def test_a_number_that_is_kept_or_handed_on_is_not_asked_for() -> None:
    attributes: dict[str, Any] = {"layer_idx": 1}
    with watch_numbers([OwnNumber(attributes, "layer_idx")]) as asked:
        number = attributes["layer_idx"]
        assert isinstance(number, int)
        assert number is not None
        assert [number, {"layer": number}]
    assert asked == []
