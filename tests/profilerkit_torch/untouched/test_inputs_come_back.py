"""What a model does to the tensors that it is given, or that the objects among its inputs hold, is undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny import Call
from torch import nn

from profilerkit import ModelInputs, profile


class Holder:
    """An input object for whose tensor nothing stands in."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def give_other_data(x: Any) -> None:
    x.data = x.data * 2


def need_gradients(x: Any) -> None:
    if x.is_floating_point():
        x.requires_grad_(True)


def change_shape(x: Any) -> None:
    x.unsqueeze_(0)


def mark(x: Any) -> None:
    x.mark = 1


def give_a_gradient(x: Any) -> None:
    if x.is_floating_point():
        x.grad = torch.ones_like(x.detach())


def write(x: Any) -> None:
    x.add_(1)


def facts_of(x: Any) -> tuple[Any, ...]:
    return x.is_meta, x.data_ptr(), x.tolist(), x.shape, x.stride(), x.requires_grad, x.grad, dict(x.__dict__)


@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize("wrap", [lambda x: x, Holder], ids=["tensor", "object"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("change", [give_other_data, need_gradients, change_shape, mark, give_a_gradient, write])
def test_the_tensors_of_the_inputs_come_back(
    change: Callable[[Any], None], dtype: torch.dtype, wrap: Callable[[torch.Tensor], Any], is_real: bool
) -> None:
    def run(model: Any, given: Any) -> Any:
        x = given if isinstance(given, torch.Tensor) else given.tensor
        change(x)
        if is_real:
            model.fc.weight.detach().numpy()
        return model.fc(x.float())

    x = torch.ones(3, 2, dtype=dtype)
    before = facts_of(x)
    for key in ("macs", "training_macs", "execution_time"):
        options: dict[str, Any] = {"num_iters": 2, "warmup": 0} if key == "execution_time" else {}
        report = profile(Call(run, fc=nn.Linear(2, 2)), ModelInputs(wrap(x)), metrics=[key], **options)
        assert report[key], key
        assert facts_of(x) == before, key
