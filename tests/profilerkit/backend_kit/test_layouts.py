"""Images with the channels first become what a model declares with the channels last; all else stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profilerkit.backend_kit.layouts import in_declared_layout


def find_shapes(tensors: list[Any], declared: list[Any]) -> list[Any]:
    moved = in_declared_layout(tensors, declared, lambda item: getattr(item, "shape", None), np.transpose)
    return [getattr(item, "shape", item) for item in moved]


@pytest.mark.parametrize(
    ("shape", "declared", "expected"),
    [
        ((2, 3, 8, 9), (None, 8, 9, 3), (2, 8, 9, 3)),
        ((2, 3, 8), (None, 8, 3), (2, 8, 3)),
        ((2, 3, 5, 8, 9), (None, 5, 8, 9, 3), (2, 5, 8, 9, 3)),
        ((2, 3, 8, 9), (None, None, None, 3), (2, 8, 9, 3)),
        ((2, 8, 9, 3), (None, 8, 9, 3), (2, 8, 9, 3)),
        ((2, 4, 8, 9), (None, 8, 9, 3), (2, 4, 8, 9)),
        ((2, 3), (None, 4), (2, 3)),
        ((2, 3, 8), (None, 8, 9, 3), (2, 3, 8)),
    ],
)
def test_the_channels_are_moved_if_the_shape_fits_then(shape: Any, declared: Any, expected: Any) -> None:
    assert find_shapes([np.zeros(shape)], [declared]) == [expected]


def test_each_input_has_its_own_layout_and_other_values_are_unchanged() -> None:
    tensors = [np.zeros((2, 3, 8, 9)), None, np.zeros((2, 5))]
    assert find_shapes(tensors, [(None, 8, 9, 3), (None, 4), (None, 5)]) == [(2, 8, 9, 3), None, (2, 5)]


def test_another_number_of_inputs_is_unchanged() -> None:
    tensors = [np.zeros((2, 3, 8, 9))]
    assert find_shapes(tensors, [(None, 8, 9, 3), (None, 4)]) == [(2, 3, 8, 9)]
    assert find_shapes(tensors, []) == [(2, 3, 8, 9)]
