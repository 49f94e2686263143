"""From a batch, a shape or a callable to the tensors a torch model is called with."""

from __future__ import annotations

import torch
from tiny import BACKEND
from torch import nn

from profilerkit_torch import TorchDataLoader


def test_the_dataset_of_a_native_loader_can_be_asked_for() -> None:
    dataset = torch.utils.data.TensorDataset(torch.zeros(5, 3), torch.zeros(5))
    loader = TorchDataLoader(torch.utils.data.DataLoader(dataset, batch_size=2))
    assert (len(loader.dataset), len(loader), loader.batch_size) == (5, 3, 2)


def test_a_function_is_no_model_of_torch() -> None:
    assert BACKEND.accepts(nn.Linear(1, 1))
    assert not BACKEND.accepts(lambda x: x)
