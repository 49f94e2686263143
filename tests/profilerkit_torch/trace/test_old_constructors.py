"""Tensors by the constructors of old code: a model that asks them is counted as it runs, or a note says how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fuzz_oracle import count_run
from torch import nn

from profilerkit import ModelInputs
from profilerkit_torch import TorchBackend

_torch: Any = torch
#: Each is true in a run on the CPU.
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "Tensor": lambda x: torch.Tensor(2, 3).device == x.device,
    "Tensor of numbers": lambda x: (torch.Tensor([1.0] * 8) * x).is_cpu,
    "Tensor with values": lambda x: torch.Tensor([1, 2]).tolist() == [1, 2],
    "Tensor filled": lambda x: float(torch.Tensor(2, 3).fill_(1).sum()) == 6,
    "Tensor of a tensor": lambda x: torch.Tensor(x).shape == x.shape,
    "Tensor of a size": lambda x: torch.Tensor(x.size()).shape == x.shape,
    "FloatTensor of a storage": lambda x: _torch.FloatTensor(_torch.FloatStorage(3)).numel() == 3,
    "FloatTensor by its name": lambda x: float(getattr(torch, x.type().split(".")[-1])([1, 2]).sum()) == 3,
    "a mask": lambda x: x[_torch.BoolTensor([True, False, True, True])].shape[0] == 3,
    "sparse": lambda x: (
        float(_torch.sparse_coo_tensor(_torch.LongTensor([[0, 1], [0, 1]]), [1.0, 2.0]).to_dense().sum()) == 3
    ),
    "new of numbers": lambda x: float(x.new([1, 2]).sum()) == 3,
    "a type by its name": lambda x: float(torch.arange(3, device=x.device).type("torch.FloatTensor").sum()) == 3,
    "new filled": lambda x: bool((x.new(2, 3).fill_(2) == 2).all()),
    "new of its data": lambda x: x.data.new(3).zero_().sum().item() == 0,
    "new resized": lambda x: x.new().resize_as_(x).zero_().sum().item() == 0,
    "new set": lambda x: x.new().set_(x).shape == x.shape,
    "a Variable": lambda x: torch.autograd.Variable(x.data.new(3).zero_()).sum().item() == 0,
    "from_numpy": lambda x: int(torch.from_numpy(np.arange(3)).to(x.device).sum()) == 3,
    "from_numpy times a tensor": lambda x: (torch.from_numpy(np.ones(8, "float32")) * x).is_cpu,
    "from_numpy of its type": lambda x: float(torch.from_numpy(np.ones(8)).type_as(x).sum()) == 8,
    "from_numpy to a tensor": lambda x: float(torch.from_numpy(np.ones(8)).to(x).sum()) == 8,
    "frombuffer": lambda x: int(torch.frombuffer(bytearray(b"\1\2"), dtype=torch.uint8).sum()) == 3,
    "a GPU's type, which is not here": lambda x: _fails(lambda: _torch.cuda.FloatTensor(3)),
    "a conversion to it": lambda x: _fails(lambda: x.type("torch.cuda.FloatTensor")),
}


def _fails(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (TypeError, RuntimeError, AssertionError):
        return True
    return torch.cuda.is_available()


class Branching(nn.Module):
    def __init__(self, question: Callable[[Any], Any]) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(8, 8), nn.Linear(8, 16)
        self.question = question

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = (self.wide if self.question(x) else self.narrow)(x)
        return result


@pytest.mark.filterwarnings("ignore")  # some are old enough for warnings
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_model_is_counted_as_it_runs(name: str) -> None:
    model, x = Branching(QUESTIONS[name]).eval(), torch.randn(4, 8)
    assert count_run(model, (x,)).macs == 4 * 8 * 16
    for trace in (TorchBackend().trace(model, ModelInputs(x)), TorchBackend().trace_training(model, ModelInputs(x))):
        assert trace.failure is None
        assert sum(op.macs for op in trace.operators if op.phase == "forward") == 4 * 8 * 16
    trace = TorchBackend().trace(model, ModelInputs(x))
    assert any("real run" in note for note in trace.notes) == (trace.method == "a real run")
