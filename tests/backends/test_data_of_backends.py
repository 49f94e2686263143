"""From a batch, a shape or a callable to the tensors with which each backend calls a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import InputError, Profiler, TensorSpec


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_random_floats_are_normal_and_the_same_each_time(framework: Framework, dtype: str) -> None:
    spec = TensorSpec((3, 50), dtype)
    tensor = framework.backend.random_tensor(spec, 20)
    assert (tuple(tensor.shape), framework.dtype(tensor)) == ((20, 3, 50), dtype)
    values = framework.array(tensor)
    assert np.array_equal(values, framework.array(framework.backend.random_tensor(spec, 20)))
    assert abs((np.abs(values.astype(np.complex128)) ** 2).mean() - 1) < 0.1  # of variance one


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_are_zeros(framework: Framework, dtype: str) -> None:
    tensor = framework.backend.random_tensor(TensorSpec((4,), dtype), 2)
    assert (tuple(tensor.shape), framework.dtype(tensor)) == ((2, 4), dtype)
    assert not framework.array(tensor).any()


@pytest.mark.parametrize("dtype", ["float33", "Tensor", "nn", "", "resource", "float32_ref"])
def test_an_unknown_dtype(framework: Framework, dtype: str) -> None:
    with pytest.raises(InputError, match=f"{framework.title} has no dtype '{dtype}'; use a name such as 'float32'"):
        framework.backend.random_tensor(TensorSpec((1,), dtype), 1)


def test_random_tensors_leave_every_generator_alone(framework: Framework) -> None:
    framework.seed(7)
    expected = framework.draws()
    framework.seed(7)
    framework.backend.random_tensor(TensorSpec((3,)), 2)
    assert framework.draws() == expected


@pytest.mark.parametrize(
    ("size", "rows"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 0]), (7, [0, 1, 2, 0, 1, 2, 0])]
)
def test_a_batch_is_cut_or_repeated(framework: Framework, size: int, rows: list[int]) -> None:
    tensor = framework.tensor(np.repeat(np.arange(3), 4).reshape(3, 2, 2))
    resized = framework.array(framework.backend.with_batch_size(tensor, size))
    assert resized.shape == (size, 2, 2)
    assert resized[:, 0, 0].tolist() == rows


def test_an_empty_batch_cannot_be_repeated(framework: Framework) -> None:
    with pytest.raises(InputError, match="an empty batch, which cannot be repeated"):
        framework.backend.with_batch_size(framework.tensor(np.zeros((0, 3))), 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "uint8"])
def test_arrays_become_tensors_of_their_dtype(framework: Framework, dtype: str) -> None:
    array = np.array([[1, 0]], dtype=dtype)
    assert not framework.backend.is_tensor(array)
    tensor = framework.backend.as_tensor(array)
    assert framework.backend.is_tensor(tensor)
    assert framework.backend.as_tensor(tensor) is tensor
    assert framework.dtype(tensor) == dtype
    assert (framework.array(tensor) == array).all()


def test_other_values_stay(framework: Framework) -> None:
    assert [framework.backend.as_tensor(value) for value in (1, "a", None, 2.5)] == [1, "a", None, 2.5]


def test_a_loader_gives_tensors(framework: Framework) -> None:
    batch = (np.ones((2, 3), dtype=np.float32), np.zeros(2))
    (tensor,) = framework.loader([batch], framework.forward_pass((0, "_"))).model_inputs().args
    assert framework.backend.is_tensor(tensor)
    assert (tuple(tensor.shape), framework.dtype(tensor)) == ((2, 3), "float32")


def macs(profiler: Profiler, **kwargs: Any) -> Any:
    from profilerkit_metrics import ComputeFlops

    profiler.register_profiler_function(ComputeFlops())
    return profiler.compute_status("macs", **kwargs)


@pytest.mark.parametrize("native", [False, True], ids=["a list", "torch's own"])
def test_integer_inputs_from_a_loader(framework: Framework, native: bool) -> None:
    words, labels = np.ones((6, 3), np.int64), np.zeros(6)
    loader: Any = [(words[:4], labels[:4]), (words[4:], labels[4:])]
    if native:
        data = pytest.importorskip("torch.utils.data")
        loader = data.DataLoader(list(zip(words, labels, strict=True)), batch_size=4)
    profiler = framework.profiler(framework.words(), {"train": loader})
    assert macs(profiler) == 12 * 2, "one sample, whatever the loader's batch"
    assert macs(framework.profiler(framework.words(), {"train": loader}), batch_size=5) == 5 * 12 * 2


def test_integer_inputs_from_a_shape(framework: Framework) -> None:
    profiler = framework.profiler(framework.words(), input_shape=((3,), "int64"))
    assert macs(profiler, batch_size=2) == 2 * 12 * 2


def test_inputs_from_a_callable_of_the_batch_size(framework: Framework) -> None:
    profiler = framework.profiler(
        framework.words(), inputs=lambda size: framework.tensor(np.zeros((size, 3), np.int64))
    )
    assert macs(profiler, batch_size=3) == 3 * 12 * 2


def test_a_tensor_or_an_array_is_one_input(framework: Framework) -> None:
    array = np.ones((2, 3), np.float32)
    for value in (array, framework.tensor(array)):
        assert macs(framework.profiler(framework.dense(3, 4), inputs=value)) == 2 * 3 * 4


def test_a_loader_of_the_users_own_forward_pass(framework: Framework) -> None:
    class Nested(framework.forward_pass):  # type: ignore[misc,name-defined]
        def extract_model_inputs(self, batch: Any) -> Any:
            return batch["data"]["x"]

    batches = [{"data": {"x": framework.tensor(np.ones((4, 3), np.float32))}}]
    splits = framework.profiler.enable_forward_pass_data_splits({"train": batches}, Nested())  # type: ignore[attr-defined]
    assert macs(framework.profiler(framework.dense(3, 4), splits), batch_size=4) == 4 * 3 * 4


def test_the_backend_knows_its_own(framework: Framework) -> None:
    assert framework.backend.accepts(framework.dense(1, 1))
    assert not framework.backend.accepts(3)
