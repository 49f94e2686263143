"""Inputs made from what a model declares itself, where nobody gives any."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit import InputError, ModelInputs, Report, profile
from profilerkit.declared_inputs import DeclaredInput, make_inputs
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

IMAGE = DeclaredInput("image", (None, 8, 8, 3))


def made(batch_size: int | None, *args: Any, **kwargs: Any) -> ModelInputs:
    return make_inputs(ModelInputs(*args, **kwargs), batch_size, FakeBackend().random_tensor)


def test_the_batch_is_the_requested_one_or_the_models_own_or_one() -> None:
    fixed = DeclaredInput("fixed", (4, 3), "int64")
    assert made(None, IMAGE).args == (FakeTensor((1, 8, 8, 3)),)
    assert made(5, IMAGE).args == (FakeTensor((5, 8, 8, 3)),)
    assert made(None, fixed).args == (FakeTensor((4, 3), "int64"),)
    assert made(4, fixed).args == (FakeTensor((4, 3), "int64"),)


def test_the_structure_of_the_call_and_its_constants_stay() -> None:
    found = made(2, [IMAGE, 3], mask=DeclaredInput("mask", (None,), "bool"), flag=None)
    assert found.args == ([FakeTensor((2, 8, 8, 3)), 3],)
    assert found.kwargs == {"mask": FakeTensor((2,), "bool"), "flag": None}


@pytest.mark.parametrize(
    ("declared", "batch_size", "message"),
    [
        (
            ModelInputs(DeclaredInput("x", (4, 3))),
            8,
            "the model declares its input 'x' with the shape (4, 3), for a batch of 4 alone: batch_size=8 does not "
            "fit; give batch_size=4 or none, or build the model for batches of any size",
        ),
        (
            ModelInputs(DeclaredInput("x", (None, None, 3))),
            None,
            "the model declares its input 'x' with the shape (None, None, 3), which leaves dimension 1 open; give all "
            "sizes but the batch's: input_shape=(16, 3), or example inputs: inputs=x",
        ),
        (
            ModelInputs(IMAGE, DeclaredInput("ids", (None, None, None), "int64")),
            None,
            "which leaves dimensions 1, 2 open; give all sizes but the batch's: "
            "input_shape=[(8, 8, 3), ((16, 16), 'int64')], or",
        ),
        (
            ModelInputs(ids=DeclaredInput("ids", (None, None), "int64")),
            None,
            "input_shape={'ids': ((16,), 'int64')}",
        ),
        (ModelInputs(DeclaredInput("x", None)), None, "a number of dimensions that is not known; give example inputs"),
    ],
)
def test_what_cannot_be_made_is_said(declared: ModelInputs, batch_size: int | None, message: str) -> None:
    with pytest.raises(InputError) as raised:
        make_inputs(declared, batch_size, FakeBackend().random_tensor)
    assert message in str(raised.value)


class Declaring(FakeBackend):
    """A backend whose models declare one image."""

    def example_inputs(self, model: FakeModel, batch_size: int | None = None) -> ModelInputs | None:
        return make_inputs(ModelInputs(IMAGE), batch_size, self.random_tensor)


def report(*given: Any, **options: Any) -> Report:
    model = FakeModel([FakeLayer("layer", macs=5, flops=10)])
    return profile(model, *given, metrics=["macs"], **{"backend": Declaring(), **options})


NOTE = "the inputs were created as the model declares them"


def test_a_model_that_declares_its_inputs_needs_none_and_the_report_says_so() -> None:
    found = report()
    assert (found["macs"], found.batch_size, found.notes) == (5, 1, (NOTE,))
    assert found.inputs == "ModelInputs(FakeTensor(1, 8, 8, 3))"
    found = report(batch_size=3)
    assert (found["macs"], found.batch_size, found.notes) == (15, 3, (NOTE,))
    assert found.inputs == "ModelInputs(FakeTensor(3, 8, 8, 3))"


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ((FakeTensor((2, 3)),), {}),
        ((), {"input_shape": (3,), "batch_size": 2}),
        ((), {"data_splits": {"train": [(FakeTensor((2, 3)), 0)]}, "batch_size": 2}),
    ],
)
def test_what_is_given_comes_before_what_is_declared(given: Any, options: Any) -> None:
    found = report(*given, **options)
    assert (found["macs"], found.inputs, found.notes) == (10, "ModelInputs(FakeTensor(2, 3))", ())


def test_without_a_declaration_the_ways_are_said() -> None:
    found = report(backend=FakeBackend())
    assert found.status("macs").missing == (
        "there is nothing to run the model with; give inputs=x (example inputs), input_shape=(3, 224, 224) (the shape "
        "of one sample; on the command line --input-shape 3,224,224), data_splits={'train': loader}, or have what "
        "builds the model return LoadedModel(model, inputs=x)",
    )
