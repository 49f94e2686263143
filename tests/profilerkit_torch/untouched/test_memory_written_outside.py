"""A model may write to memory of its own or of its inputs where no operator of torch's shows it: it comes back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import profile


def write_by_address(tensor: torch.Tensor) -> None:
    numbers = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    numbers[0] += 1


WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda tensor: np.add(tensor.numpy(), 1, out=tensor.numpy()),
    "numpy of a row": lambda tensor: np.add(tensor[0].numpy(), 1, out=tensor[0].numpy()),
    "asarray": lambda tensor: np.asarray(tensor).fill(7),
    "address": write_by_address,
    "apply_": lambda tensor: tensor.apply_(lambda number: number + 1),
    "map_": lambda tensor: tensor.map_(tensor, lambda number, other: number + other + 1),
}
PARTS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "parameter": lambda model, x: model.fc.weight.detach(),
    "buffer": lambda model, x: model.table,
    "attribute": lambda model, x: model.cache,
    "input": lambda model, x: x.detach(),
}


def require_all_back(way: str, part: str, metric: str, **arguments: Any) -> None:
    """Require that a profile of a model that writes somewhere leaves all values as they were."""

    def write(self: Any, x: torch.Tensor) -> Any:
        WAYS[way](PARTS[part](self, x))
        return self.fc(x) + self.table + self.cache

    table, cache = nn.Buffer(torch.zeros(4, 8)), torch.zeros(4, 8)
    x = torch.ones(4, 8)
    model: Any = Call(write, fc=nn.Linear(8, 8), table=table, cache=cache)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert profile(model, x, metrics=[metric], **arguments).status(metric).value is not None
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(model.cache, torch.zeros(4, 8))
    assert torch.equal(x, torch.ones(4, 8))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_counted_pass_writes_comes_back(way: str, part: str) -> None:
    require_all_back(way, part, "macs")


@pytest.mark.parametrize("part", PARTS)
def test_what_a_counted_step_writes_comes_back(part: str) -> None:
    require_all_back("numpy", part, "training_macs")


@pytest.mark.parametrize("part", [part for part in PARTS if part != "parameter"])
@pytest.mark.parametrize("way", ["numpy", "apply_"])
def test_what_timed_passes_write_beside_the_weights_comes_back(way: str, part: str) -> None:
    require_all_back(way, part, "execution_time", num_iters=2, warmup=0)


@pytest.mark.parametrize("metric", ["macs", "execution_time"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_a_pass_writes_to_a_nested_input_comes_back(metric: str) -> None:
    """It has no shape to compare or to copy by: its samples have."""

    def write(self: Any, x: torch.Tensor) -> torch.Tensor:
        for sample in x.unbind():
            np.add(sample.numpy(), 1, out=sample.numpy())
        return x + x

    samples = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(5, 4)])
    report = profile(Call(write), samples, metrics=[metric])
    assert report.status(metric).value is not None
    assert [float(sample.sum()) for sample in samples.unbind()] == [12, 20]
