"""A shape is that of one sample, and the batch stands beside; another meaning is said with the corrected call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from profilerkit import InputError, ModelFailedError, ModelInputs, Report, Run, RunOptions, TensorSpec, profile
from profilerkit.backend import AS_IT_IS
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

LAYERS = [FakeLayer("layer", params=3, macs=5, flops=10)]


class Backend(FakeBackend):
    """Says of a run that fails what it says of a trace that does, as the backends do."""

    @contextmanager
    def run(self, model: Any, inputs: ModelInputs, options: RunOptions = AS_IT_IS) -> Iterator[Run]:
        with super().run(model, inputs, options) as run:
            try:
                run()
            except Exception as error:
                raise ModelFailedError(f"the model raised {type(error).__name__}: {error}") from error
            yield run


def image_model(**facts: Any) -> FakeModel:
    return FakeModel(LAYERS, inputs={0: (3, 8, 8)}, outputs={0: (10,)}, **facts)


def two_inputs() -> FakeModel:
    return FakeModel(LAYERS, inputs={"image": (3, 8, 8), "words": (5,)}, outputs={0: (10,)})


def said(model: FakeModel, *given: Any, **options: Any) -> str:
    """Return what all metrics that run the model say alike."""
    options = {"metrics": ["macs", "execution_time"], "backend": Backend(), **options}
    found: Report = profile(model, *given, **options)
    messages = {record.missing for record in found.statuses.values()}
    assert len(messages) == 1, messages
    ((message,),) = messages
    return message


def test_a_shape_that_begins_with_the_batch_is_said_with_the_corrected_call() -> None:
    message = said(image_model(), input_shape=(1, 3, 8, 8))
    assert message.startswith(
        "input_shape=(1, 3, 8, 8) begins with the batch, and is to be that of one sample; give input_shape=(3, 8, 8) "
        "(on the command line --input-shape 3,8,8); as it is, the model raised ValueError: the inputs have the shapes"
    )


def test_the_batch_of_the_shape_is_the_batch_size_of_the_call() -> None:
    message = said(image_model(), input_shape=(4, 3, 8, 8), batch_size=2)
    assert (
        "; give input_shape=(3, 8, 8), batch_size=4 (on the command line --input-shape 3,8,8 --batch-size 4); as"
    ) in message


def test_times_alone_say_it_too() -> None:
    assert "; give input_shape=(3, 8, 8) (on" in said(
        image_model(), input_shape=(1, 3, 8, 8), metrics=["execution_time"]
    )


def test_several_inputs_are_corrected_together() -> None:
    shapes = {"image": (2, 3, 8, 8), "words": ((2, 5), "int64")}
    message = said(two_inputs(), input_shape=shapes)
    assert (
        "give input_shape={'image': (3, 8, 8), 'words': ((5,), 'int64')}, batch_size=2 (on the command line "
        "--input-shape image=3,8,8 --input-shape words=5:int64 --batch-size 2); as it is, "
    ) in message


@pytest.mark.parametrize(
    "shape",
    [(1, 3, 9, 9), (), {"image": (2, 3, 8, 8), "words": (3, 5)}],
    ids=["other sizes", "a scalar", "two batch sizes"],
)
def test_where_nothing_else_works_the_models_error_stands(shape: Any) -> None:
    model = two_inputs() if isinstance(shape, dict) else image_model()
    assert said(model, input_shape=shape).startswith("the model raised ValueError: the inputs have the shapes")


@pytest.mark.parametrize(
    "given", [(1, 3, 8, 8), [1, 3, 8, 8], ModelInputs(1, 3, 8, 8)], ids=["tuple", "list", "inputs"]
)
def test_a_shape_in_the_place_of_inputs_is_said_with_the_corrected_call(given: Any) -> None:
    message = said(Picky(), given)
    assert message.startswith(
        "inputs=(1, 3, 8, 8) is a shape, and no inputs; give input_shape=(3, 8, 8) (on the command line --input-shape "
        "3,8,8); as it is, "
    )


def test_the_shape_of_a_sample_in_the_place_of_inputs_is_told_from_that_of_a_batch() -> None:
    assert "; give input_shape=(3, 8, 8) (on the" in said(Picky(), (3, 8, 8))
    assert "; give input_shape=(3, 8, 8), batch_size=5 (on the" in said(Picky(), (5, 3, 8, 8))


def test_a_batch_size_beside_such_a_shape_changes_nothing() -> None:
    assert "; give input_shape=(3, 8, 8) (on the" in said(Picky(), (1, 3, 8, 8), batch_size=2)


class Picky(FakeModel):
    """Takes tensors of one shape alone, and no numbers."""

    def __init__(self) -> None:
        super().__init__(LAYERS, inputs={0: (3, 8, 8)}, outputs={0: (10,)})

    def run(self, inputs: ModelInputs) -> Any:
        if any(isinstance(leaf, int) for leaf in inputs.leaves()):
            raise TypeError("a number is no tensor")
        return super().run(inputs)


def test_numbers_that_a_model_takes_are_inputs() -> None:
    found = profile(FakeModel(LAYERS), (2, 3), metrics=["macs"], backend=Backend())
    assert found["macs"] == 5


def test_a_model_that_works_is_traced_once_and_one_that_fails_twice() -> None:
    backend = Backend()
    profile(image_model(), input_shape=(3, 8, 8), backend=backend)
    assert backend.traced == 1
    backend = Backend()
    said(image_model(), input_shape=(1, 3, 8, 8), backend=backend)
    assert backend.traced == 2
    backend = Backend()
    said(image_model(), FakeTensor((1, 3, 9, 9)), backend=backend)
    assert backend.traced == 1, "no shape was given"


def test_strict_raises_what_to_give() -> None:
    with pytest.raises(InputError, match=r"give input_shape=\(3, 8, 8\)") as raised:
        profile(image_model(), input_shape=(1, 3, 8, 8), backend=Backend(), strict=True)
    assert not isinstance(raised.value, ModelFailedError)
    assert raised.value.__cause__ is not None


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
