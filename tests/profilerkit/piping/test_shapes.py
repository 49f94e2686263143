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


@pytest.mark.parametrize(
    ("sample", "shape", "text"),
    [
        ({0: (3, 8, 8)}, (2, 3, 8, 8), "(3, 8, 8)"),
        ({0: (5,)}, ((2, 5), "int64"), "((5,), 'int64')"),
        ({0: (5,)}, ((2, 5), "float32"), "((5,), 'float32')"),
        ({0: ()}, (2,), "()"),
        ({0: (3,), 1: (5,)}, [(2, 3), (2, 5)], "[(3,), (5,)]"),
        ({"image": (3,), "words": (5,)}, {"image": (2, 3), "words": (2, 5)}, "{'image': (3,), 'words': (5,)}"),
    ],
    ids=["image", "dtype", "usual dtype", "numbers", "several", "by name"],
)
@pytest.mark.parametrize("call", [None, lambda model, *inputs, **named: model(*inputs, **named)])
def test_a_shape_that_begins_with_the_batch_is_said(sample: Any, shape: Any, text: str, call: Any) -> None:
    given = {} if call is None else {"call": call}
    message = explain(FakeModel(LAYERS, inputs=sample, outputs={0: (10,)}), input_shape=shape, **given)
    assert message.startswith("the model raised ValueError: the inputs have the shapes")
    assert message.endswith(
        f" is of one sample, and the batch is put in front of it; the model takes input_shape={text}, batch_size=2"
    )


@pytest.mark.parametrize(
    "shape", [(), (9,), (9, 9), (2, 3, 3, 8, 8), [(3, 8, 8), (2, 3, 8, 8)], {"image": (3, 8, 8)}], ids=str
)
def test_a_shape_without_which_the_model_fails_too_has_no_hint(shape: Any) -> None:
    assert "input_shape" not in explain(FakeModel(LAYERS, **IMAGES), input_shape=shape)


def test_an_error_that_no_shape_avoids_is_shown_alone() -> None:
    assert explain(Picky(), input_shape=(2, 3, 8, 8)) == "the model raised TypeError: a number is no tensor"


def test_a_failing_call_of_a_right_model_has_no_hint() -> None:
    def fail(model: Any, inputs: Any) -> Any:
        raise ValueError("own mistake")

    assert explain(FakeModel(LAYERS, **IMAGES), input_shape=(2, 3, 8, 8), call=fail).endswith("own mistake")


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [((3, 8, 8), ""), ([2, 3, 8, 8], ", batch_size=2"), (ModelInputs(1, 3, 8, 8), ", batch_size=1")],
    ids=["tuple", "list", "own"],
)
def test_a_shape_in_the_place_of_inputs_is_said(inputs: Any, batch: str) -> None:
    hint = f"; the inputs are whole numbers; if they are a shape, give input_shape=(3, 8, 8){batch}"
    assert explain(FakeModel(LAYERS, **IMAGES), inputs).endswith(hint)


@pytest.mark.parametrize("inputs", [(3, 9, 9), 8, (0, 3, 8, 8), (-1, 3, 8, 8), (2, True), (10**9, 3, 8, 8)], ids=str)
def test_numbers_of_which_no_shape_fits_the_model_have_no_hint(inputs: Any) -> None:
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
