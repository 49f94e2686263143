"""Differences of outputs, whose values follow from the weights."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from profilerkit import Comparison, InputError, Profiler, compare, profile
from profilerkit.inputs import ModelInputs
from profilerkit_metrics.output_arrays import compare_outputs, copy_values

ABSOLUTE, RELATIVE = "output_difference", "relative_output_difference"
KEYS = [ABSOLUTE, RELATIVE]


class Scaled(nn.Module):
    """Gives its input times a factor, and what else is asked for."""

    def __init__(self, factor: float, give: Any = lambda y: y) -> None:
        super().__init__()
        self.factor, self.give = factor, give

    def forward(self, x: torch.Tensor) -> Any:
        return self.give(self.factor * x)


X = torch.tensor([[1.0, -4.0, 2.0]])


def check(*models: nn.Module, inputs: Any = X, **options: Any) -> Comparison:
    names = tuple("abc"[: len(models)])
    return compare(*models, inputs=inputs, names=names, check_outputs=True, metrics=["total_params"], **options)


def test_the_differences_are_those_of_the_largest_element() -> None:
    comparison = check(Scaled(1.0), Scaled(1.25), Scaled(0.5))
    assert comparison[ABSOLUTE] == {"a": 0.0, "b": 1.0, "c": 2.0}  # of the element -4
    assert comparison[RELATIVE] == {"a": 0.0, "b": 0.25, "c": 0.5}
    assert comparison.enhancement(ABSOLUTE, "b") is None, "a difference is no speed"


def test_the_comparison_is_printed_and_saved_as_any_metric(tmp_path: Path) -> None:
    comparison = check(Scaled(1.0), Scaled(1.25))
    line = next(line for line in str(comparison).splitlines() if line.strip().startswith("Output Difference"))
    assert line.split() == ["Output", "Difference", "0", "1", "-"]
    comparison.save(tmp_path / "compared.json")
    assert Comparison.load(tmp_path / "compared.json")[RELATIVE] == {"a": 0.0, "b": 0.25}


def test_the_largest_of_all_outputs_counts_each_by_its_own_scale() -> None:
    first = Scaled(1.0, lambda y: {"small": y / 100, "large": y})
    second = Scaled(1.0, lambda y: {"small": y / 50, "large": y + 0.5})
    comparison = check(first, second)
    assert comparison[ABSOLUTE]["b"] == 0.5
    assert comparison[RELATIVE]["b"] == pytest.approx(1.0)  # 0.04 of 0.04


def test_outputs_in_another_order_are_matched_by_their_shapes() -> None:
    comparison = check(Scaled(1.0, lambda y: (y, y.sum(-1))), Scaled(1.0, lambda y: (y.sum(-1), y + 1, "no tensor")))
    assert comparison[ABSOLUTE]["b"] == 1.0


def test_an_output_that_one_model_lacks_is_left_out() -> None:
    comparison = check(Scaled(1.0, lambda y: (y, y.sum(-1))), Scaled(1.0, lambda y: y.sum(-1) + 2))
    assert comparison[ABSOLUTE]["b"] == 2.0


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (lambda y: y, lambda y: y[:, :2], r"gives \[1, 3\], and this model \[1, 2\]: which outputs are the same"),
        (lambda y: (y, y), lambda y: y, r"gives \[1, 3\] and \[1, 3\], and this model \[1, 3\]: which outputs"),
        (lambda y: y, lambda y: y.int(), r"is float32 of the reference and int32 of this model"),
        (lambda y: y, lambda y: "text", r"the model gives no tensor whose values could be compared"),
    ],
)
def test_outputs_that_cannot_be_matched_are_said(first: Any, second: Any, reason: str) -> None:
    record = check(Scaled(1.0, first), Scaled(1.0, second)).others[0].status(ABSOLUTE)
    assert record.completeness.value == "unavailable"
    assert re.search(reason, record.missing[0])


def test_dropout_of_training_makes_no_difference() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train()
    assert check(model, model)[ABSOLUTE]["b"] == 0.0
    assert check(model, model, training=True)[ABSOLUTE]["b"] == 0.0


def test_a_model_that_draws_numbers_has_no_difference() -> None:
    noisy = Scaled(1.0, lambda y: y + torch.rand_like(y))
    comparison = check(noisy, Scaled(1.0))
    assert comparison[ABSOLUTE] == {"a": None, "b": None}
    assert "draws random numbers" in comparison.reference.status(ABSOLUTE).missing[0]
    assert "the reference gives no outputs" in comparison.others[0].status(ABSOLUTE).missing[0]
    assert check(Scaled(1.0), noisy)[ABSOLUTE] == {"a": 0.0, "b": None}


def test_a_model_that_fails_keeps_its_error_and_the_others_their_values() -> None:
    def fail(y: torch.Tensor) -> torch.Tensor:
        raise ValueError("broken")

    comparison = check(Scaled(1.0), Scaled(1.0, fail), Scaled(1.5))
    assert comparison[ABSOLUTE] == {"a": 0.0, "b": None, "c": 2.0}
    assert comparison.others[0].status(ABSOLUTE).completeness.value == "failed"


def test_each_model_gets_the_inputs_of_the_reference() -> None:
    first, second = Profiler(Scaled(1.0), inputs=X, name="a"), Profiler(Scaled(1.0), inputs=X + 1, name="b")
    for profiler in (first, second):
        profiler.register_defaults()
    assert compare(first, second, metrics=KEYS)[ABSOLUTE]["b"] == 0.0


def test_made_up_inputs_are_said() -> None:
    comparison = compare(nn.Linear(3, 2), nn.Linear(3, 2), input_shape=(3,), metrics=[ABSOLUTE])
    assert "Output Difference: compared on inputs that were made up; give inputs=x for others" in str(comparison)


def test_one_model_alone_has_no_difference() -> None:
    record = profile(Scaled(1.0), X, metrics=[ABSOLUTE]).status(ABSOLUTE)
    assert record.missing == ("needs another model to compare with: compare(reference, model)",)


@pytest.mark.filterwarnings("error")
def test_nothing_is_compared_unless_it_is_asked_for() -> None:
    assert ABSOLUTE not in compare(Scaled(1.0), Scaled(1.0), inputs=X, metrics=["macs"])
    assert ABSOLUTE not in compare(Scaled(1.0), Scaled(1.0), inputs=X, metrics=["macs"], check_outputs=False)


# Arrays ---------------------------------------------------------------------------------------------------------------


def test_numbers_that_are_none_are_the_same_only_in_both() -> None:
    odd = np.array([math.nan, math.inf, 1.0])
    assert compare_outputs([odd], [odd.copy()]) == (0.0, 0.0)
    assert compare_outputs([odd], [np.array([math.nan, math.inf, 1.5])]) == (0.5, 0.5)
    assert compare_outputs([odd], [np.array([0.0, math.inf, 1.0])]) == (math.inf, math.inf)
    assert compare_outputs([np.zeros(2)], [np.ones(2)]) == (1.0, math.inf)
    assert compare_outputs([np.zeros((0, 3))], [np.zeros((0, 3))]) == (0.0, 0.0)


@pytest.mark.parametrize("shape", [(), (2,), (0,)])
@pytest.mark.parametrize("kinds", [("int64", "int64"), ("int64", "uint64"), ("uint8", "int16")])
def test_large_integers_are_told_apart_where_floats_do_not(shape: tuple[int, ...], kinds: tuple[str, str]) -> None:
    """As hashes or positions are: of 2 ** 62 and 3 more, float64 says they are equal."""
    large = 200 if "uint8" in kinds else 2**62
    first, second = (np.full(shape, large + more, kind) for kind, more in zip(kinds, (0, 3), strict=True))
    expected = (3.0, 3 / large) if first.size else (0.0, 0.0)
    assert compare_outputs([first], [second]) == pytest.approx(expected)


def test_channels_first_and_last_are_the_same_output() -> None:
    first = np.arange(24.0).reshape(1, 2, 3, 4)
    last = np.moveaxis(first, 1, -1)
    assert compare_outputs([first], [last]) == compare_outputs([last], [first]) == (0.0, 0.0)


def test_a_shape_that_does_not_say_where_channels_are_is_read_as_the_inputs_were() -> None:
    cube = np.arange(27.0).reshape(1, 3, 3, 3)
    moved = np.moveaxis(cube, 1, -1)
    assert compare_outputs([cube], [moved], has_moved=True) == (0.0, 0.0)
    assert compare_outputs([cube], [moved]) == (16.0, 16 / 26)  # as |cube - moved| is largest


def test_inputs_keep_structure_dtype_and_layout() -> None:
    image = np.arange(24.0).reshape(1, 2, 3, 4)
    own = ModelInputs(np.zeros((1, 3, 4, 2), np.float32), flag=True)
    copied, has_moved = copy_values(ModelInputs(image), own, lambda array: array)
    assert has_moved
    assert copied.kwargs == {"flag": True}
    assert copied.args[0].dtype == np.float32
    assert np.array_equal(copied.args[0], np.moveaxis(image, 1, -1))
    with pytest.raises(InputError, match=r"called with \[1, 2, 3, 4\], and this model with \[5\]: give both the same"):
        copy_values(ModelInputs(image), ModelInputs(np.zeros(5)), lambda array: array)


@pytest.mark.parametrize("value", [0.5, 300.0, -1.0, math.nan])
def test_values_that_the_integers_of_a_model_cannot_hold_are_not_cut(value: float) -> None:
    """What is compared then would not be what the reference was called with."""
    own = ModelInputs(np.zeros(2, np.uint8))
    copied = copy_values(ModelInputs(np.array([7.0, 255.0])), own, lambda array: array)
    assert copied.inputs.args[0].tolist() == [7, 255]
    with pytest.raises(InputError, match="the values of the reference's inputs are no uint8, which this model takes"):
        copy_values(ModelInputs(np.array([7.0, value])), own, lambda array: array)
