"""From a batch, a shape or a data set to the tensors a TensorFlow model is called with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from time_limits import run_python

from profilerkit import Device, DeviceNotAvailableError, FailureCode, ForwardPass, InputError, TensorSpec, profile
from profilerkit_tensorflow.data import (
    TFDataLoader,
    TFForwardPass,
    as_tensor,
    is_tensor,
    random_tensor,
    with_batch_size,
)
from profilerkit_tensorflow.running.devices import device_info, resolve_device


def dataset(rows: int = 5) -> Any:
    return tf.data.Dataset.from_tensor_slices((np.zeros((rows, 3), np.float32), np.zeros(rows, np.int64)))


def test_floats_of_eight_bits() -> None:
    tensor = random_tensor(TensorSpec((50,), "float8_e4m3fn"), 20)
    assert tensor.dtype == tf.as_dtype("float8_e4m3fn")
    assert abs(float(tf.reduce_mean(tf.cast(tensor, tf.float32) ** 2)) - 1) < 0.2


def test_text_is_empty() -> None:
    tensor = random_tensor(TensorSpec((4,), "string"), 2)
    assert (tuple(tensor.shape), tensor.dtype) == ((2, 4), tf.string)
    assert (tensor.numpy() == b"").all()


@pytest.mark.parametrize(
    ("size", "rows"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 0]), (7, [0, 1, 2, 0, 1, 2, 0])]
)
def test_a_batch_of_any_kind_is_cut_or_repeated(size: int, rows: list[int]) -> None:
    numbers = tf.constant([0, 1, 2])
    resized = with_batch_size(tf.Variable(tf.tile(numbers[:, None, None], [1, 2, 2])), size)
    assert tuple(resized.shape) == (size, 2, 2)
    assert resized[:, 0, 0].numpy().tolist() == rows
    ragged = with_batch_size(tf.ragged.constant([[0], [1, 1], [2]]), size)
    assert [row[0] for row in ragged.to_list()] == rows
    sparse = with_batch_size(tf.sparse.from_dense(numbers[:, None] + 1), size)
    assert (tf.sparse.to_dense(sparse)[:, 0] - 1).numpy().tolist() == rows
    assert with_batch_size(keras.Variable([0, 1, 2]), size).numpy().tolist() == rows


def test_what_a_tensor_is() -> None:
    ragged = tf.ragged.constant([[1], [1, 2]])
    tensors = [tf.ones(1), tf.Variable(1.0), ragged, tf.sparse.from_dense([[1]]), keras.Variable(1.0)]
    assert all(map(is_tensor, tensors))
    assert not any(map(is_tensor, [np.ones(1), 1.0, [tf.ones(1)], keras.layers.Dense(1), None]))
    assert all(as_tensor(tensor) is tensor for tensor in tensors)


def test_torch_tensors_become_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = as_tensor(torch.tensor([[1.5, -2.0]], requires_grad=True))
    assert (tensor.dtype, tensor.numpy().tolist()) == (tf.float32, [[1.5, -2.0]])
    assert as_tensor(torch.tensor([3])).dtype == tf.int64
    half = as_tensor(torch.tensor([1.5], dtype=torch.bfloat16))
    assert (half.dtype, float(half[0])) == (tf.bfloat16, 1.5)
    conjugate = torch.tensor([1 + 2j]).conj()  # torch notes a conjugate, and computes it later
    assert (as_tensor(conjugate).numpy().tolist(), as_tensor(conjugate.imag).numpy().tolist()) == ([1 - 2j], [-2])


def test_a_torch_loader_gives_tensors() -> None:
    torch = pytest.importorskip("torch")
    native = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.ones(5, 3), torch.arange(5)), batch_size=2
    )
    loader = TFDataLoader(native)
    assert (len(loader), loader.batch_size) == (3, 2)
    (inputs,) = loader.model_inputs().args
    assert tf.is_tensor(inputs)
    assert inputs.shape == (2, 3)
    targets = [loader.forward_pass.extract_targets(batch) for batch in loader]
    assert [target.numpy().tolist() for target in targets] == [[0, 1], [2, 3], [4]]


@pytest.mark.slow
def test_torch_is_not_imported_to_look_for_its_tensors() -> None:
    code = (
        "import sys, numpy; from profilerkit_tensorflow.data import as_tensor; as_tensor(numpy.ones(1)); "
        "print('torch' in sys.modules)"
    )
    done = run_python(code)
    assert done.stdout.strip() == "False"


class Named(NamedTuple):
    x: Any
    y: Any


@pytest.mark.parametrize(
    ("batch", "first"),
    [
        ((np.ones((2, 3)), np.zeros(2)), "tensor"),
        ([np.ones((2, 3)), np.zeros(2)], "tensor"),
        (Named(np.ones((2, 3)), np.zeros(2)), "tensor"),
        ((np.ones((2, 3)),), "tensor"),
        (np.ones((2, 3)), "tensor"),
        ((np.ones((2, 3)), np.zeros(2), np.ones(2)), "tensor"),
        (({"a": np.ones((2, 3))}, np.zeros(2)), {"a": "tensor"}),
        (((np.ones((2, 3)), np.ones(2)), np.zeros(2)), ("tensor", "tensor")),
    ],
)
def test_structures_of_batches(batch: Any, first: Any) -> None:
    inputs = TFDataLoader([batch]).model_inputs()
    assert inputs.kwargs == {}
    assert len(inputs.args) == 1
    assert tf.nest.map_structure(lambda leaf: "tensor" if tf.is_tensor(leaf) else leaf, inputs.args[0]) == first


def test_mapping_batches_are_keyword_inputs_without_the_targets() -> None:
    native = tf.data.Dataset.from_tensor_slices({"a": np.ones((4, 3)), "label": np.zeros(4)}).batch(2)
    loader = TFDataLoader(native)
    assert {name: tuple(value.shape) for name, value in loader.model_inputs().kwargs.items()} == {"a": (2, 3)}
    assert loader.forward_pass.extract_targets(next(iter(loader))).shape == (2,)


def test_weights_of_samples_are_left_out_with_the_usual_pattern_alone() -> None:
    batch = (np.ones((2, 3)), np.array([4, 5]), np.ones(2))
    assert TFForwardPass((0, "_")).extract_targets(batch).numpy().tolist() == [4, 5]
    everything = TFForwardPass((0, "_", "_")).extract_targets(batch)
    assert [part.numpy().tolist() for part in everything] == [[4, 5], [1, 1]]
    with pytest.raises(InputError, match=r"a batch of the loader has 3 elements, the model input pattern \(0, 1\)"):
        TFForwardPass((0, 1)).extract_model_inputs(batch)


@pytest.mark.parametrize(
    ("native", "size"),
    [
        (dataset().batch(2, drop_remainder=True).map(lambda *pair: pair).prefetch(1), 2),
        (dataset().batch(2), None),  # the last batch may be smaller
        ([], None),
    ],
)
def test_a_batch_size_that_is_declared(native: Any, size: int | None) -> None:
    assert TFDataLoader(native).batch_size == size


def test_lengths() -> None:
    assert len(TFDataLoader(dataset(5).batch(2))) == 3
    assert len(TFDataLoader([1, 2])) == 2


def test_a_length_that_has_no_end_or_is_not_known() -> None:
    with pytest.raises(TypeError, match=r"has no end and therefore no length; give dataset\.take\(n\)"):
        len(TFDataLoader(dataset().batch(2).repeat()))
    unknown = dataset().batch(2).filter(lambda x, y: True)
    with pytest.raises(
        TypeError, match=r"is not known; declare it with dataset\.apply\(tf\.data\.experimental\.assert_car"
    ):
        len(TFDataLoader(unknown))
    loader = TFDataLoader(unknown.apply(tf.data.experimental.assert_cardinality(3)))
    assert len(loader) == len(list(loader)) == 3


@pytest.mark.parametrize(
    "native",
    [
        dataset(),
        tf.data.Dataset.from_tensor_slices((np.zeros((5, 28, 28)), np.zeros((5, 10)))),
        tf.data.Dataset.from_tensor_slices({"x": np.zeros((5, 3)), "label": np.zeros(5)}),
    ],
)
def test_a_dataset_of_single_samples_is_said_to_be_one(native: Any) -> None:
    with pytest.raises(
        InputError, match=r"gives single samples, not batches: its tensors have the shapes \(.*batch\(32"
    ):
        TFDataLoader(native)


def test_a_forward_pass_of_the_users_own_may_take_single_samples() -> None:
    class Batched(TFForwardPass):
        def extract_model_inputs(self, batch: Any) -> Any:
            return batch[0][None]

    assert TFDataLoader(dataset(), Batched()).model_inputs().args[0].shape == (1, 3)
    with pytest.raises(InputError, match="single samples"):
        TFDataLoader(dataset(), ForwardPass((0, "_")))


def test_shapes_that_are_not_known_are_no_reason_to_refuse() -> None:
    native = tf.data.Dataset.from_generator(lambda: iter([np.zeros((2, 3))]), output_types=tf.float32)
    assert TFDataLoader(native).model_inputs().args[0].shape == (2, 3)


def test_a_pair_of_arrays_is_no_iterable_of_batches() -> None:
    for pair in [(np.zeros((5, 3)), np.zeros(5)), (tf.zeros((5, 3)), np.zeros(5))]:
        with pytest.raises(InputError, match=r"whole data set, not an iterable of batches; give tf\.data\.Dataset"):
            TFDataLoader(pair)


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return np.full((2, 3), index), np.full(2, index)


class Counted(keras.utils.PyDataset):  # type: ignore[misc]
    def __init__(self, count: int | None) -> None:
        super().__init__()
        self.count = count

    @property
    def num_batches(self) -> int | None:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return np.full((2, 3), index), np.full(2, index)


class Indexed:
    """What Keras' Sequence was: a length and an index, which need not raise at the end."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return np.full((2, 3), index), np.full(2, index)


@pytest.mark.parametrize("native", [Batches(), Counted(3), Indexed()])
def test_keras_datasets_end(native: Any) -> None:
    loader = TFDataLoader(native)
    assert len(loader) == 3
    assert not loader.endless
    assert [int(loader.forward_pass.extract_targets(batch)[0]) for batch in loader] == [0, 1, 2]
    assert loader.model_inputs().args[0].shape == (2, 3)


def test_a_keras_dataset_without_end() -> None:
    loader = TFDataLoader(Counted(None))
    assert loader.endless
    with pytest.raises(TypeError, match="no end"):
        len(loader)


def test_an_iterator_is_refused() -> None:
    def batches() -> Iterator[Any]:
        yield np.zeros((2, 3))

    for native in (batches(), iter(dataset().batch(2)), dataset().batch(2).as_numpy_iterator()):
        with pytest.raises(InputError, match="can be read only once"):
            TFDataLoader(native)


@pytest.mark.parametrize(
    "device",
    [
        None,
        Device.CPU,
        "cpu",
        "CPU",
        "cpu:0",
        "/CPU:0",
        "/device:cpu:0",
        "/job:localhost/replica:0/task:0/device:CPU:0",
    ],
)
def test_device_strings(device: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    assert resolve_device(model, device) == "/CPU:0"


@pytest.mark.parametrize(
    "device",
    ["GPU:99", "cuda:7", "abacus", "TPU:0", "", "cpu:x", "/job:worker/device:CPU:0", "/job:worker/device:GPU:0"],
)
def test_a_device_that_is_not_there(device: str) -> None:
    with pytest.raises(
        DeviceNotAvailableError, match=rf"device '{device}' is not there; tensorflow [\d.]+ sees here: /CPU:0"
    ):
        resolve_device(None, device)


def test_without_a_gpu() -> None:
    if tf.config.list_physical_devices("GPU"):
        assert resolve_device(None, Device.GPU) == "/GPU:0"
        return
    with pytest.raises(
        DeviceNotAvailableError, match=r"Device\.GPU was requested, but tensorflow .* sees no GPU here; use Device\.CPU"
    ):
        resolve_device(None, Device.GPU)


def test_a_number_counts_the_devices_that_tensorflow_was_told_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two GPUs only the second one is visible: it is ``/GPU:0``."""
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["first", "second"])
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["second"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: {"device_name": f"the {device}"})
    assert device_info("/GPU:0").name == "the second"


@pytest.mark.slow
def test_a_second_device_by_its_number_and_by_the_model_on_it() -> None:
    code = """
import keras, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from profilerkit_tensorflow.running.devices import resolve_device
with tf.device("CPU:1"):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    module = tf.Module(); module.v = tf.Variable(1.0)
print(*(resolve_device(*asked) for asked in [(None, "cpu:1"), (model, None), (module, None), (len, None)]))
"""
    done = run_python(code)
    assert done.stdout.split() == ["/CPU:1", "/CPU:1", "/CPU:1", "/CPU:0"]


def test_a_variable_whose_batch_size_is_not_fixed_is_an_input() -> None:
    """Five rows of 8 by 4 weights; it has no batch size that stays."""
    variable = tf.Variable(tf.ones((5, 8)), shape=tf.TensorShape([None, 8]))
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    report = profile(model, variable, metrics=["macs"])
    assert (report["macs"], report.batch_size) == (5 * 8 * 4, None)


def test_a_batch_that_memory_cannot_hold() -> None:
    """TensorFlow's error of memory is one of its own; 256 TiB are more than an address of today's machines reaches."""
    report = profile(lambda x: x, input_shape=(2**23, 2**23), backend="tensorflow", metrics=["macs"])
    said = "there is no memory for a batch of 1 inputs of shape (8388608, 8388608); give a smaller batch_size"
    assert report.statuses["macs"].missing == (said,)
    assert report.statuses["macs"].failure == FailureCode.MEMORY
