"""What is written down of a model to notice that it was changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from profilerkit_tensorflow.model.structure import read_structure


class _Holder(tf.Module):  # type: ignore[misc]
    """A module with one attribute of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = 1
        self.names = {"a", "b"}
        self.edges = {("a", "b"), ("b", "c")}
        self.first, self.second = ["x", "y"], ["z"]
        self.pairs = (1, (2, 3))
        self.mean = np.zeros(3)
        self.scale = partial(max, 2)
        self.variable = tf.Variable([1.0])


def _move_an_item(holder: Any) -> None:
    holder.second.insert(0, holder.first.pop())


CHANGES: dict[str, Callable[[Any], object]] = {
    "a plain value of another type": lambda holder: setattr(holder, "plain", True),
    "another member of a set": lambda holder: holder.names.symmetric_difference_update({"b", "c"}),
    "another member of a set of tuples": lambda holder: holder.edges.symmetric_difference_update({("b", "c"), (1, 2)}),
    "an item from one list to the next": _move_an_item,
    "another item of a tuple inside": lambda holder: setattr(holder, "pairs", (1, (2, 4))),
    "an array in place": lambda holder: holder.mean.fill(1),
    "another argument": lambda holder: setattr(holder, "scale", partial(max, 3)),
    "a new attribute": lambda holder: setattr(holder, "further", None),
    "another variable": lambda holder: setattr(holder, "variable", tf.Variable([1.0])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_written_down(change: str) -> None:
    holder = _Holder()
    before = read_structure(holder)
    assert read_structure(holder) == before
    CHANGES[change](holder)
    assert read_structure(holder) != before


def test_the_value_of_a_variable_is_left_out() -> None:
    holder = _Holder()
    before = read_structure(holder)
    holder.variable.assign([2.0])
    assert read_structure(holder) == before
