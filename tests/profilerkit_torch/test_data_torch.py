"""From a batch, a shape or a callable to the tensors a torch model is called with."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from tiny import BACKEND
from torch import nn

from profilerkit import compare, profile
from profilerkit_torch import TorchDataLoader


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_made_up_inputs_have_the_dtype_of_the_weights(dtype: torch.dtype) -> None:
    """Counts and outputs of a converted model are those of the original; what is named keeps its dtype."""
    model = nn.Linear(8, 4)
    converted = copy.deepcopy(model).to(dtype)
    both = compare(model, converted, input_shape=(8,), metrics=["macs", "output_difference"])
    assert [report["macs"] for report in both.reports] == [32, 32]
    assert [report.input_dtypes for report in both.reports] == ["float32", str(dtype).removeprefix("torch.")]
    assert both["output_difference"] is not None
    mixed = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2).to(dtype))
    assert profile(mixed, input_shape=(8,), metrics=["total_params", "inputs"]).input_dtypes == "float32"
    for named in ("int64", "float32"):
        assert profile(converted, input_shape=((8,), named), metrics=["inputs"]).input_dtypes == named


def test_weights_are_read_without_methods_that_a_model_may_have_of_its_own() -> None:
    """Those of Keras make a table of the weights in the model when they are first called."""

    class WithOwnMethod(nn.Linear):
        def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
            raise AssertionError("a method of the model was called")

    model = WithOwnMethod(8, 4, dtype=torch.float16)
    assert profile(model, input_shape=(8,), metrics=["inputs"]).input_dtypes == "float16"


def test_the_dataset_of_a_native_loader_can_be_asked_for() -> None:
    dataset = torch.utils.data.TensorDataset(torch.zeros(5, 3), torch.zeros(5))
    loader = TorchDataLoader(torch.utils.data.DataLoader(dataset, batch_size=2))
    assert (len(loader.dataset), len(loader), loader.batch_size) == (5, 3, 2)


def test_a_function_is_no_model_of_torch() -> None:
    assert BACKEND.accepts(nn.Linear(1, 1))
    assert not BACKEND.accepts(lambda x: x)


def test_a_packed_sequence_is_one_input() -> None:
    """Samples of 5, 4 and 2 steps: at each of these 11 a GRU multiplies with matrices of 3 * 4 x (8 + 4)."""
    packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(5, 3, 8), torch.tensor([5, 4, 2]))
    report = profile(nn.GRU(8, 4), packed, metrics=["macs"])
    assert report["macs"] == 11 * 12 * (8 + 4)
