"""Shapes: what they mean, where they come from, and what is said of one that a model does not take."""

from __future__ import annotations

import numpy as np
from frameworks import Framework

from profilerkit import profile


def test_a_model_that_does_not_take_a_shape_is_reported_with_what_the_shape_means(framework: Framework) -> None:
    shape = (2, *framework.image(8, 8, 3))
    (message,) = profile(framework.convolutional(), input_shape=shape, metrics=["macs"]).status("macs").missing
    assert message.startswith(f"the model raised {framework.misfit.__name__}: ")
    assert message.endswith(f"; input_shape={shape} is of one sample: the batch is put in front of it")


def test_a_shape_in_the_place_of_inputs_is_said(framework: Framework) -> None:
    (message,) = profile(framework.convolutional(), framework.image(8, 8, 3), metrics=["macs"]).status("macs").missing
    assert message.startswith(framework.no_numbers)
    assert f"input_shape={framework.image(8, 8, 3)}" in message


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
