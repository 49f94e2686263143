"""``call=``: a function of the model that is profiled in place of its own call; and inputs of the user's own types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from profilerkit import InputError, ModelInputs, Profiler, profile
from profilerkit.arguments.structures import map_leaves
from profilerkit.piping.input_source import InputSource
from profilerkit.piping.intrinsic import ComputeInputs
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor


def generate(model: Any, x: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        result = model(x)
    return result


def test_a_function_stays_with_inputs_that_are_mapped() -> None:
    inputs = ModelInputs(1, steps=2).given_to(generate)
    doubled = inputs.map(lambda leaf: 2 * leaf)
    assert (doubled.args, doubled.kwargs, doubled.function) == ((2,), {"steps": 4}, generate)
    assert doubled.run(lambda x: ("ran with", x)) == ("ran with", 2)
    assert ModelInputs(3).run(lambda x: x + 1) == 4


def test_inputs_say_what_they_are_given_to() -> None:
    inputs = ModelInputs(FakeTensor((2, 3)), steps=2)
    assert repr(inputs.given_to(generate)) == "ModelInputs(FakeTensor(2, 3), steps=2) given to generate"
    assert repr(inputs.given_to(None)) == "ModelInputs(FakeTensor(2, 3), steps=2)"

    class Sampler:
        def __call__(self, model: Any, x: Any) -> Any:
            return model(x)

    assert repr(inputs.given_to(Sampler())).endswith(" given to Sampler")


@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_function_is_called_with_inputs_of_the_batch_size(batch_size: int | None) -> None:
    backend = FakeBackend()
    source = InputSource.of({"x": FakeTensor((2, 3)), "steps": 4}, None)
    found = ComputeInputs()(backend, {}, batch_size=batch_size, call=generate, input_source=source)
    assert isinstance(found, ModelInputs)
    assert found.function is generate
    assert found.kwargs == {"x": FakeTensor((batch_size or 2, 3)), "steps": 4}


def test_every_metric_runs_the_function() -> None:
    model = FakeModel([FakeLayer("", params=1, macs=5)])
    report = profile(
        model, FakeTensor((2, 3)), call=generate, backend=FakeBackend(), num_iters=6, warmup=0, max_seconds=1
    )
    assert report.inputs == "ModelInputs(FakeTensor(2, 3)) given to generate"
    assert report["macs"] == 10
    once = model.calls
    profile(
        model,
        ModelInputs(FakeTensor((2, 3)), steps=3).given_to(generate),
        metrics=["execution_time"],
        backend=FakeBackend(),
        num_iters=6,
        warmup=0,
    )
    assert model.calls - once >= 3 * 6


def test_another_function_is_profiled_anew() -> None:
    backend = FakeBackend()
    profiler = Profiler(FakeModel([FakeLayer("", macs=5)]), inputs=FakeTensor((1,)), backend=backend)
    profiler.register_defaults()
    for _ in range(2):
        profiler.compute_status("macs", call=generate)
    assert backend.traced == 1
    profiler.compute_status("macs", call=lambda model, x: model(x))
    profiler.compute_status("macs")
    assert backend.traced == 3


@pytest.mark.parametrize("wrong", ["generate", 3])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(
        InputError, match=rf"call={wrong!r}: give a function of the model and its inputs, such as lambda"
    ):
        profile(FakeModel(), FakeTensor((1,)), call=wrong, backend=FakeBackend(), metrics=["macs"], strict=True)


@dataclass
class Batch:
    image: int
    mask: int | None = None
    size: int = field(init=False, default=7)


@dataclass(frozen=True)
class Frozen:
    inner: Batch
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int


@dataclass
class Half:
    x: int
    y: int = field(init=False)


def test_dataclasses_are_looked_into_and_come_back_as_what_they_are() -> None:
    given = Frozen(Batch(1), (2, 3))
    mapped = map_leaves(given, lambda leaf: None if leaf is None else 10 * leaf)
    assert (type(mapped), type(mapped.inner), mapped.values) == (Frozen, Batch, (20, 30))
    assert (mapped.inner.image, mapped.inner.mask, mapped.inner.size) == (10, None, 70)
    assert given == Frozen(Batch(1), (2, 3))
    assert given.inner.size == 7
    assert map_leaves(Slotted(4), lambda leaf: leaf + 1) == Slotted(5)
    assert map_leaves(Half(4), lambda leaf: leaf + 1).x == 5
    assert map_leaves(Batch, lambda leaf: leaf is Batch)
    assert list(ModelInputs(given, [Slotted(9)]).leaves()) == [1, None, 7, 2, 3, 9]


def test_a_tensor_that_is_a_dataclass_is_one_leaf() -> None:
    assert list(ModelInputs(FakeTensor((2,))).leaves()) == [FakeTensor((2,))]


def test_a_mapping_that_takes_items_one_by_one_keeps_its_type() -> None:
    class Outputs(dict[str, int]):
        def update(self, *args: Any, **kwargs: Any) -> None:
            raise RuntimeError("use items")  # as those of transformers do

    mapped = map_leaves(Outputs(a=1), lambda leaf: leaf + 1)
    assert (type(mapped), mapped) == (Outputs, {"a": 2})


class Boxes(list[Any]):
    """A list whose constructor takes more than its items."""

    def __init__(self, items: Any, size: int) -> None:
        super().__init__(items)
        self.size = size


class Pair(NamedTuple("Pair", [("first", Any), ("second", Any)])):
    """A named tuple that is made of one value."""

    def __new__(cls, both: Any) -> Pair:
        return super().__new__(cls, both, both)


def test_lists_and_named_tuples_with_a_constructor_of_their_own_keep_their_type() -> None:
    given = Boxes([1, 2], size=8)
    mapped = map_leaves(given, lambda leaf: 10 * leaf)
    assert (type(mapped), [*mapped], mapped.size) == (Boxes, [10, 20], 8)
    assert [*given] == [1, 2]
    assert map_leaves(Pair(1), lambda leaf: leaf + 1) == (2, 2)
    assert type(map_leaves(Pair(1), lambda leaf: leaf + 1)) is Pair
