"""A shape is that of one sample: a model that fails is reported with how its inputs were given."""

from __future__ import annotations

from typing import Any

import pytest

from profilerkit import ModelFailedError, ModelInputs, Report, TensorSpec, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

LAYERS = [FakeLayer("layer", params=3, macs=5, flops=10)]


def explain(model: FakeModel, *inputs: Any, **options: Any) -> str:
    """Return what a metric of the trace says of a model that does not take its inputs."""
    report: Report = profile(model, *inputs, metrics=["macs"], backend=FakeBackend(), **options)
    (message,) = report.statuses["macs"].missing
    return message


IMAGES: dict[str, Any] = {"inputs": {0: (3, 8, 8)}, "outputs": {0: (10,)}}


@pytest.mark.parametrize("call", [None, lambda model, *inputs, **named: model(*inputs, **named)])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, 3, 8, 8), "(2, 3, 8, 8)"),
        (((2, 5), "int64"), "((2, 5), 'int64')"),
        ([(2, 3), (2, 5)], "[(2, 3), (2, 5)]"),
        ({"image": (2, 3), "words": (2, 5)}, "{'image': (2, 3), 'words': (2, 5)}"),
    ],
    ids=["image", "dtype", "several", "by name"],
)
def test_a_model_that_fails_with_a_shape_is_reported_with_what_the_shape_means(
    shape: Any, text: str, call: Any
) -> None:
    given = {} if call is None else {"call": call}
    message = explain(FakeModel(LAYERS, **IMAGES), input_shape=shape, **given)
    assert message.startswith("the model raised ValueError: the inputs have the shapes")
    assert message.endswith(f"; input_shape={text} is of one sample: the batch is put in front of it")


@pytest.mark.parametrize(
    ("inputs", "shape"), [((3, 8, 8), "(3, 8, 8)"), ([2, 3], "(2, 3)"), (8, "(8,)"), (ModelInputs(1, 3), "(1, 3)")]
)
def test_numbers_in_the_place_of_inputs_may_be_a_shape(inputs: Any, shape: str) -> None:
    hint = f"; if these numbers are the shape of one sample, give input_shape={shape}"
    assert explain(FakeModel(LAYERS, **IMAGES), inputs).endswith(hint)


@pytest.mark.parametrize("inputs", [(2, True), (2, 3.0), (2, FakeTensor((1, 3)))], ids=["flag", "fraction", "tensor"])
def test_inputs_that_are_no_numbers_alone_have_no_hint(inputs: Any) -> None:
    assert "input_shape" not in explain(FakeModel(LAYERS, **IMAGES), inputs)


@pytest.mark.parametrize("inputs", [(), [], {}, ModelInputs()], ids=str)
def test_the_error_of_a_model_that_was_called_without_inputs_is_shown(inputs: Any) -> None:
    message = explain(Picky(), inputs)
    assert message.startswith("the model raised TypeError: a number is no tensor")
    assert "input_shape" not in message


class Picky(FakeModel):
    """Takes tensors, and no numbers."""

    def __init__(self) -> None:
        super().__init__(LAYERS, **IMAGES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a number is no tensor")


def test_numbers_that_a_model_takes_are_inputs() -> None:
    assert profile(FakeModel(LAYERS), (2, 3), metrics=["macs"], backend=FakeBackend())["macs"] == 5


def test_the_kind_of_the_error_and_its_cause_stay() -> None:
    with pytest.raises(ModelFailedError, match="; input_shape=") as raised:
        profile(FakeModel(LAYERS, **IMAGES), input_shape=(2, 3, 8, 8), backend=FakeBackend(), strict=True)
    assert isinstance(raised.value.__cause__, ModelFailedError), "the error without it"


@pytest.mark.parametrize("given", [{"input_shape": (2, 4)}, {"inputs": FakeTensor((1, 2, 4))}])
@pytest.mark.parametrize("refused", [MemoryError(), RuntimeError("can't allocate memory"), Exception("out of memory")])
def test_a_batch_that_memory_cannot_hold(given: dict[str, Any], refused: Exception) -> None:
    class FullBackend(FakeBackend):
        def random_tensor(self, spec: TensorSpec, batch_size: int) -> FakeTensor:
            raise refused

        def with_batch_size(self, tensor: Any, batch_size: int) -> Any:
            raise refused

    report = profile(FakeModel([]), batch_size=3000, backend=FullBackend(), metrics=["macs"], **given)
    assert report.statuses["macs"].missing == (
        "there is no memory for a batch of 3,000 inputs of shape (2, 4); give a smaller batch_size",
    )
