"""A shape that begins with the batch, or stands in the place of inputs, is reported with the corrected call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import profile


def given(framework: Framework, case: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of a call, and how the message about them begins."""
    image, misfit = framework.image(8, 8, 3), framework.image(9, 9, 3)
    batch = (4, *image)
    cases = {
        "a shape with a batch of one": (
            {"input_shape": (1, *image)},
            f"input_shape={(1, *image)} begins with the batch, and is to be that of one sample; give "
            f"input_shape={image} (on",
        ),
        "the shape of a batch as inputs": (
            {"inputs": batch},
            f"inputs={batch} is a shape, and no inputs; give input_shape={image}, batch_size=4 (on",
        ),
        "the shape of a sample as inputs": (
            {"inputs": image},
            f"inputs={image} is a shape, and no inputs; give input_shape={image} (on",
        ),
        "a shape that does not fit": ({"input_shape": (1, *misfit)}, f"the model raised {framework.misfit.__name__}: "),
        "numbers that do not fit": ({"inputs": misfit}, framework.no_numbers),
    }
    return cases[case]


@pytest.mark.parametrize(
    "case",
    [
        "a shape with a batch of one",
        "the shape of a batch as inputs",
        "the shape of a sample as inputs",
        "a shape that does not fit",
        "numbers that do not fit",
    ],
)
def test_counts_and_times_say_what_to_give(framework: Framework, case: str) -> None:
    arguments, message = given(framework, case)
    report = profile(framework.convolutional(), metrics=["macs", "execution_time"], **arguments)
    for name in ("macs", "execution_time"):
        (reported,) = report.status(name).missing
        assert reported.startswith(message)


def test_a_function_that_takes_no_numbers_is_told_too(framework: Framework) -> None:
    weight = framework.tensor(np.ones((4, 2), np.float32))
    model = framework.function(lambda x: x @ weight)
    (reported,) = profile(model, (3, 4), metrics=["macs"], backend=framework.name).status("macs").missing
    assert reported.startswith("inputs=(3, 4) is a shape, and no inputs; give input_shape=(4,), batch_size=3 (on")


def test_a_shape_that_fits_both_ways_is_that_of_one_sample(framework: Framework) -> None:
    weight = framework.tensor(np.ones((4, 2), np.float32))
    model = framework.function(lambda x: x @ weight)
    assert profile(model, input_shape=(5, 4), metrics=["macs"], backend=framework.name)["macs"] == 40


NOTE = "the inputs were created as the model declares them"


def test_a_model_for_batches_of_any_size_is_counted_for_one_sample_or_as_many_as_requested(
    framework: Framework,
) -> None:
    model, _ = framework.declaring(None, 4)
    report = profile(model, metrics=["macs", "execution_time"], max_seconds=0.05)
    assert (report["macs"], report.batch_size) == (8, 1)
    assert report["execution_time"].median > 0
    kind = type(framework.tensor(np.ones(1))).__name__
    assert NOTE in report.notes
    assert report.inputs == f"ModelInputs({kind}(1, 4))"
    assert profile(model, metrics=["macs"], batch_size=8)["macs"] == 64


def test_a_fixed_batch_size_is_the_only_one(framework: Framework) -> None:
    model, name = framework.declaring(3, 4)
    assert profile(model, metrics=["macs"])["macs"] == 24
    assert profile(model, metrics=["macs"], batch_size=3)["macs"] == 24
    (message,) = profile(model, metrics=["macs"], batch_size=8).status("macs").missing
    assert message == (
        f"the model declares its input '{name}' with the shape (3, 4), for a batch of 3 alone: batch_size=8 does not "
        "fit; give batch_size=3 or none, or build the model for batches of any size"
    )


def test_other_sizes_that_are_open_must_be_given(framework: Framework) -> None:
    model, name = framework.declaring(None, None, 4)
    (message,) = profile(model, metrics=["macs"]).status("macs").missing
    assert message == (
        f"the model declares its input '{name}' with the shape (None, None, 4), which leaves dimension 1 open; give "
        "all sizes but the batch's: input_shape=(16, 4), or example inputs: inputs=x"
    )
    assert profile(model, input_shape=(16, 4), metrics=["macs"])["macs"] == 128


def test_a_model_that_declares_nothing_needs_inputs(framework: Framework) -> None:
    model = framework.function(lambda x: x)
    (message,) = profile(model, metrics=["macs"], backend=framework.name).status("macs").missing
    assert message.startswith("there is nothing to run the model with; give inputs=x")
