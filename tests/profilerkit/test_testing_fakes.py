"""The fakes for the authors of metrics and backends, and the snapshots that models are compared by."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from profilerkit import InputError, ModelInputs, profile
from profilerkit.testing import ARCHITECTURES, FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.testing.snapshots import collect_facts, differences, process_facts

LENET = ARCHITECTURES["lenet5"]
#: Its types leave out some functions.
_NUMPY: Any = np.random
STATIC = ("total_params", "macs", "flops")


def test_a_fake_model_has_the_numbers_of_a_network() -> None:
    """In a profile as in the closed forms; its layers lie where they do in the description."""
    report = profile(FakeModel.of(LENET), input_shape=(28, 28, 1), batch_size=4, backend=FakeBackend(), metrics=STATIC)
    assert [report[name] for name in STATIC] == [61_706, 4 * 416_520, 4 * 852_370]
    paths = [layer.name for layer in FakeModel.of(ARCHITECTURES["residual_cnn"]).layers]
    assert paths[:7] == ["", "stem", "stem_norm", "block", "block.convolution", "block.norm", "block.activation"]


def test_a_fake_model_may_take_its_images_channels_first() -> None:
    report = profile(
        FakeModel.of(LENET, "channels_first"), np.zeros((2, 1, 28, 28)), backend=FakeBackend(), metrics=["macs"]
    )
    assert (report["macs"], report.batch_size) == (2 * 416_520, 2)


def test_a_fake_model_refuses_other_shapes() -> None:
    model = FakeModel.of(LENET)
    with pytest.raises(ValueError, match=re.escape("the inputs have the shapes {0: (20,)}, the model takes {0: (28,")):
        model(FakeTensor((3, 20)))
    assert model(FakeTensor((3, 28, 28, 1))) == FakeTensor((3, 10))
    assert model.calls == 2


def test_numpy_reads_values_from_a_fake_tensor() -> None:
    """Floats that differ, integers that are zero, of the dtype that was said."""
    floats, integers = np.asarray(FakeTensor((2, 3))), np.asarray(FakeTensor((2, 3), "int64"))
    assert (floats.shape, floats.dtype.name) == ((2, 3), "float32")
    assert len(set(floats.ravel().tolist())) == 6
    assert (integers.tolist(), integers.dtype.name) == ([[0, 0, 0], [0, 0, 0]], "int64")


def test_the_fake_backend_takes_numpy_arrays_as_tensors() -> None:
    """Their samples are cut and repeated; the batch size is theirs."""
    backend, array = FakeBackend(), np.arange(6.0).reshape(3, 2)
    assert backend.is_tensor(array)
    assert not backend.is_tensor(np)
    assert backend.with_batch_size(array, 2).tolist() == [[0, 1], [2, 3]]
    assert backend.with_batch_size(array, 4).tolist() == [[0, 1], [2, 3], [4, 5], [0, 1]]
    found = backend.trace(FakeModel([FakeLayer("layer", macs=7, flops=14)]), ModelInputs(array))
    assert found.macs == 3 * 7
    for empty in (np.zeros((0, 2)), FakeTensor((0, 2))):
        with pytest.raises(InputError, match="an input has an empty batch, which cannot be repeated to a batch size"):
            backend.with_batch_size(empty, 2)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("int8", 1), ("float64", 8)])
def test_the_weights_of_a_fake_model_have_the_bytes_of_their_dtype(dtype: str, size: int) -> None:
    """Ten parameters, and three statistics, which are float32: in the memory as in the size of the model."""
    model = FakeModel([FakeLayer("layer", params=10, statistics=3, activation_bytes=8, dtype=dtype)])
    metrics = ["model_size", "memory_footprint"]
    report = profile(model, FakeTensor((2, 3)), backend=FakeBackend(), metrics=metrics)
    assert [report[name] for name in metrics] == [10 * size + 12, 10 * size + 12 + 2 * 8]


@pytest.mark.parametrize("number", [2, 0.5, True, None, "mean", np.float32(2)])
def test_a_fake_model_takes_values_that_are_no_tensors(number: Any) -> None:
    model = FakeModel([FakeLayer("layer", macs=7)], inputs={0: (3,), "mask": (3,)}, outputs={0: (2,)})
    inputs = ModelInputs(FakeTensor((4, 3)), number, mask=FakeTensor((4, 3), "bool"))
    found = FakeBackend().trace(model, inputs)
    assert found.failure is None
    assert (found.macs, model.calls) == (4 * 7, 0)
    assert found.memory.input_bytes == 4 * 3 * (4 + 1) + getattr(number, "nbytes", 0)


@pytest.mark.parametrize(
    ("outputs", "returned"),
    [
        ({0: (2,)}, FakeTensor((4, 2))),
        ({0: (2,), 1: (5,)}, (FakeTensor((4, 2)), FakeTensor((4, 5)))),
        ({1: (5,), 0: (2,)}, (FakeTensor((4, 2)), FakeTensor((4, 5)))),
        ({"logits": (2,)}, {"logits": FakeTensor((4, 2))}),
        ({0: (2,), "loss": ()}, {0: FakeTensor((4, 2)), "loss": FakeTensor((4,))}),
    ],
)
def test_a_fake_model_returns_all_of_its_outputs(outputs: Any, returned: Any) -> None:
    model = FakeModel([FakeLayer("layer")], inputs={0: (3,)}, outputs=outputs)
    assert model(FakeTensor((4, 3))) == returned
    found = FakeBackend().trace(model, ModelInputs(FakeTensor((4, 3))))
    assert [tensor.shape for tensor in found.layers[0].calls[0].outputs] == [
        (4, *shape) for _, shape in sorted(outputs.items(), key=lambda item: str(item[0]))
    ]


def test_running_a_fake_model_is_in_inference_mode_and_leaves_it_as_it_was() -> None:
    seen: list[bool] = []
    model = FakeModel(on_call=lambda: seen.append(model.training))
    backend = FakeBackend()
    with backend.run(model, ModelInputs(FakeTensor((1, 2)))) as call:
        call()
    with pytest.raises(ZeroDivisionError):
        backend.evaluate(model, lambda: [model(), 1 / 0])
    assert (seen, model.training) == ([False, False], True)


# Snapshots ----------------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Network:
    def __init__(self) -> None:
        self.weight = np.ones(3)
        self.layers: list[Any] = [Slotted(1), {"bias": np.zeros(2)}]
        self.flags = {"training"}
        self.numbers = random.Random(0)
        self.generator = np.random.default_rng(0)
        self.itself = self
        self.code = re.escape


def change_weight(model: Network) -> None:
    model.weight[1] = 2


def replace_weight(model: Network) -> None:
    model.weight = model.weight.copy()


def change_slot(model: Network) -> None:
    model.layers[0].value = 2


def change_inside(model: Network) -> None:
    model.layers[1]["bias"] += 1


def add_layer(model: Network) -> None:
    model.layers.append(Slotted(3))


def add_attribute(model: Network) -> None:
    model.late = True  # type: ignore[attr-defined]


def remove_attribute(model: Network) -> None:
    del model.code


def add_flag(model: Network) -> None:
    model.flags.add("late")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (change_weight, r"model\.weight \(values\): .* became .*"),
        (replace_weight, r"model\.weight: <ndarray at 0x\w+> became <ndarray at 0x\w+>"),
        (change_slot, r"model\.layers\[0\]\.value: '1' became '2'"),
        (change_inside, r"model\.layers\[1\]\['bias'\] \(values\): .*"),
        (add_layer, r"model\.layers\[2\] is new; model\.layers\[2\]\.value is new"),
        (add_attribute, r"model\.late is new"),
        (remove_attribute, r"model\.code is gone"),
        (add_flag, r"model\.flags\{\}: .*"),
        (lambda model: model.numbers.random(), r"model\.numbers \(values\): .*"),
        (lambda model: model.generator.random(), r"model\.generator \(values\): .*"),
    ],
)
def test_every_change_is_found_and_named(change: Any, where: str) -> None:
    model = Network()
    before = collect_facts(model)
    assert collect_facts(model) == before
    change(model)
    assert collect_facts(model) != before
    assert re.fullmatch(where, differences(before, collect_facts(model)))


def test_only_the_first_differences_are_named() -> None:
    after = {str(number): number for number in range(8)}
    assert differences({}, after) == "0 is new; 1 is new; 2 is new; 3 is new; 4 is new; and 3 more"
    assert differences("before", "after") == "'before' became 'after'"


def test_an_array_that_cannot_be_read_requires_a_snapshot() -> None:
    class Symbol:
        shape, dtype = (3,), "float32"

        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("it has no values")

    message = re.escape(
        "the values of model[0], a Symbol, cannot be read (it has no values); define snapshot(model), which returns "
        "what must not change"
    )
    with pytest.raises(TypeError, match=message):
        collect_facts([Symbol()])


@pytest.fixture
def _random_states() -> Iterator[None]:
    python, bits, state = random.getstate(), _NUMPY.get_bit_generator(), np.random.get_state()
    yield
    _NUMPY.set_bit_generator(bits)
    np.random.set_state(state)
    random.setstate(python)


@pytest.mark.usefixtures("_random_states")
@pytest.mark.parametrize("draw", [random.random, np.random.rand], ids=["python", "numpy"])
@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64, np.random.Philox])
def test_process_facts_have_the_states_of_random_generators(draw: Any, bits: Any) -> None:
    _NUMPY.set_bit_generator(bits(7))
    before = process_facts()
    assert process_facts() == before
    draw()
    assert process_facts() != before


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.PCG64, np.random.default_rng, random.Random])
def test_a_draw_of_a_generator_is_found(make: Any) -> None:
    generator = make(7)
    model = [generator]
    before = collect_facts(model)
    assert collect_facts(model) == before
    draw = getattr(generator, "random_raw", None) or generator.random
    with np.printoptions(threshold=2):
        draw()
        assert re.fullmatch(r"model\[0\] \(values\): .*", differences(before, collect_facts(model)))


def test_a_generator_of_the_system_has_no_state() -> None:
    assert "model[0] (values)" not in collect_facts([random.SystemRandom()])
