"""Layers responsible for a difference: what has only another name is none, and buffers are told from parameters."""

from __future__ import annotations

from collections import Counter

from profilerkit import profile
from profilerkit.audits.changes import _Move, find_layers, leave_out_renamed
from profilerkit_numpy.layers import Sequential, dense


def test_layers_with_another_name_are_left_out() -> None:
    """Of three layers of 8 that came and two that went one is new; what differs in size or type stays."""
    counts = Counter(
        {
            _Move("Linear", 8, "added"): 3,
            _Move("Linear", -8, "removed"): 2,
            _Move("Linear", 5, "changed"): 1,
            _Move("Conv2d", 4, "added"): 1,
            _Move("Linear", -4, "removed"): 1,
        }
    )
    assert leave_out_renamed(counts) == {
        ("Linear", 8, "added"): 1,
        ("Linear", 5, "changed"): 1,
        ("Conv2d", 4, "added"): 1,
        ("Linear", -4, "removed"): 1,
    }


def test_a_size_that_moved_without_its_parameters() -> None:
    """A layer of 4 x 8 on both sides: nothing but buffers or dtypes can have moved its bytes."""
    metrics = ["model_size", "total_params"]
    one, two = (profile(Sequential(dense(4, width)), input_shape=(4,), metrics=metrics) for width in (8, 9))
    assert find_layers(one, one, "model_size") == ("as many parameters as before: buffers or dtypes differ",)
    assert find_layers(one, two, "model_size")[0].endswith("(Dense): +5"), "4 weights and a bias"
