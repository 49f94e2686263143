"""From a batch, a shape or a callable to the tensors a torch model is called with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny import BACKEND
from torch import nn

from profilerkit import InputError, ModelInputs, Profiler, TensorSpec
from profilerkit_torch import ComputeFlops, TorchDataLoader, TorchForwardPass, TorchProfiler


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_random_floats_are_normal_and_the_same_each_time(dtype: str) -> None:
    spec = TensorSpec((3, 50), dtype)
    tensor = BACKEND.random_tensor(spec, 20)
    assert (tensor.shape, tensor.dtype) == ((20, 3, 50), getattr(torch, dtype))
    assert torch.equal(tensor, BACKEND.random_tensor(spec, 20))
    assert abs(float(tensor.abs().double().square().mean()) - 1) < 0.1  # of variance one


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_integers_are_zeros(dtype: str) -> None:
    tensor = BACKEND.random_tensor(TensorSpec((4,), dtype), 2)
    assert (tensor.shape, tensor.dtype, int(tensor.sum())) == ((2, 4), getattr(torch, dtype), 0)


@pytest.mark.parametrize("dtype", ["float33", "Tensor", "nn", ""])
def test_an_unknown_dtype(dtype: str) -> None:
    with pytest.raises(InputError, match=f"torch has no dtype '{dtype}'; use a name such as 'float32'"):
        BACKEND.random_tensor(TensorSpec((1,), dtype), 1)


def test_random_tensors_leave_the_generator_alone() -> None:
    state = torch.get_rng_state()
    BACKEND.random_tensor(TensorSpec((3,)), 2)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("size", "rows"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 0]), (7, [0, 1, 2, 0, 1, 2, 0])]
)
def test_a_batch_is_cut_or_repeated(size: int, rows: list[int]) -> None:
    tensor = torch.arange(3)[:, None, None].expand(3, 2, 2)
    resized = BACKEND.with_batch_size(tensor, size)
    assert resized.shape == (size, 2, 2)
    assert resized[:, 0, 0].tolist() == rows


def test_an_empty_batch_cannot_be_repeated() -> None:
    with pytest.raises(InputError, match="an empty batch, which cannot be repeated"):
        BACKEND.with_batch_size(torch.zeros(0, 3), 2)


def test_numpy_arrays_become_tensors() -> None:
    batch = (np.ones((2, 3), dtype=np.float32), np.zeros(2))
    inputs = TorchDataLoader([batch], TorchForwardPass((0, "_"))).model_inputs()
    assert isinstance(inputs.args[0], torch.Tensor)
    assert inputs.args[0].dtype == torch.float32
    assert BACKEND.trace(nn.Linear(3, 4), ModelInputs(batch[0])).macs == 2 * 3 * 4


def test_the_dataset_of_a_native_loader_can_be_asked_for() -> None:
    dataset = torch.utils.data.TensorDataset(torch.zeros(5, 3), torch.zeros(5))
    loader = TorchDataLoader(torch.utils.data.DataLoader(dataset, batch_size=2))
    assert (len(loader.dataset), len(loader), loader.batch_size) == (5, 3, 2)


def macs(profiler: Profiler, **kwargs: Any) -> Any:
    profiler.register_profiler_function(ComputeFlops())
    return profiler.compute_status("macs", **kwargs)


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2))


def test_integer_inputs_from_a_loader() -> None:
    dataset = torch.utils.data.TensorDataset(torch.randint(0, 10, (6, 3)), torch.zeros(6))
    splits = {"train": torch.utils.data.DataLoader(dataset, batch_size=4)}
    assert macs(TorchProfiler(words(), splits)) == 12 * 2  # one sample, whatever the loader's batch
    assert macs(TorchProfiler(words(), splits), batch_size=5) == 5 * 12 * 2


def test_integer_inputs_from_a_shape() -> None:
    assert macs(TorchProfiler(words(), input_shape=((3,), "int64")), batch_size=2) == 2 * 12 * 2


def test_inputs_from_a_callable_of_the_batch_size() -> None:
    profiler = TorchProfiler(words(), inputs=lambda size: torch.zeros(size, 3, dtype=torch.int64))
    assert macs(profiler, batch_size=3) == 3 * 12 * 2


def test_a_model_is_no_source_of_inputs_but_a_tensor_is_one_input() -> None:
    assert macs(TorchProfiler(nn.Linear(3, 4), inputs=torch.ones(2, 3))) == 2 * 3 * 4


def test_a_loader_of_the_users_own_forward_pass() -> None:
    class Nested(TorchForwardPass):
        def extract_model_inputs(self, batch: Any) -> Any:
            return batch["data"]["x"]

    splits = TorchProfiler.enable_forward_pass_data_splits({"train": [{"data": {"x": torch.ones(4, 3)}}]}, Nested())
    assert macs(TorchProfiler(nn.Linear(3, 4), splits), batch_size=4) == 4 * 3 * 4


def test_the_backend_knows_its_own() -> None:
    assert BACKEND.accepts(nn.Linear(1, 1))
    assert not BACKEND.accepts(lambda x: x)
    assert BACKEND.is_tensor(torch.ones(1))
    assert not BACKEND.is_tensor(np.ones(1))
