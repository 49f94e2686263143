"""Exported programs, and Keras models on torch, declare what they are called with: no shape need be given."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.export import export

from profilerkit import profile


def test_keyword_inputs_and_dtypes_are_those_of_the_program(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
            return x * mask

    program = export(Masked(), (torch.randn(3, 4),), {"mask": torch.ones(3, 4, dtype=torch.int64)})
    found = profile(program, metrics=["flops"])
    assert (found["flops"], found.inputs) == (12, "ModelInputs(Tensor(3, 4), mask=Tensor(3, 4))")


def test_the_program_is_left_as_it_is() -> None:
    program = export(nn.Sequential(nn.Linear(4, 2)), (torch.randn(3, 4),), strict=False)
    before = dict(vars(program))
    profile(program, metrics=["macs"])
    assert vars(program).keys() == before.keys()
    assert all(vars(program)[name] is value for name, value in before.items())
