"""Exported programs, and Keras models on torch, declare what they are called with: no shape need be given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export

from profilerkit import profile

NOTE = "the inputs were made from the model's own declaration of them: "


def linear(batch: Any) -> Any:
    shapes = None if batch is None else ({0: batch},)
    return export(nn.Sequential(nn.Linear(4, 2)), (torch.randn(3, 4),), dynamic_shapes=shapes)


def test_a_program_for_batches_of_any_size_is_counted_for_one_sample_or_as_many_as_requested() -> None:
    program = linear(Dim("batch"))
    found = profile(program, metrics=["macs", "execution_time"], max_seconds=0.05)
    assert (found["macs"], found.batch_size) == (8, 1)
    assert found["execution_time"].median > 0
    assert f"{NOTE}ModelInputs(Tensor(1, 4))" in found.notes
    assert profile(program, metrics=["macs"], batch_size=8)["macs"] == 64


def test_a_program_for_one_batch_size_is_counted_for_that_alone() -> None:
    program = linear(None)
    assert profile(program, metrics=["macs"])["macs"] == 24
    assert profile(program, metrics=["macs"], batch_size=3)["macs"] == 24
    (message,) = profile(program, metrics=["macs"], batch_size=8).status("macs").missing
    assert message == (
        "the model declares its input 'input' with the shape (3, 4), for a batch of 3 alone: batch_size=8 does not "
        "fit; give batch_size=3 or none, or build the model for batches of any size"
    )


def test_keyword_inputs_and_dtypes_are_those_of_the_program(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
            return x * mask

    program = export(Masked(), (torch.randn(3, 4),), {"mask": torch.ones(3, 4, dtype=torch.int64)})
    found = profile(program, metrics=["flops"])
    assert (found["flops"], found.inputs) == (12, "ModelInputs(Tensor(3, 4), mask=Tensor(3, 4))")


def test_other_sizes_that_are_open_must_be_given() -> None:
    shapes = ({0: Dim("batch"), 1: Dim("steps")},)
    program = export(nn.Sequential(nn.Linear(4, 2)), (torch.randn(3, 5, 4),), dynamic_shapes=shapes)
    (message,) = profile(program, metrics=["macs"]).status("macs").missing
    assert "with the shape (None, None, 4), which leaves dimension 1 open; give all sizes but the batch's: " in message
    assert "input_shape=(16, 4), or" in message
    assert profile(program, input_shape=(16, 4), metrics=["macs"])["macs"] == 128


def test_a_module_declares_nothing() -> None:
    (message,) = profile(nn.Linear(4, 2), metrics=["macs"]).status("macs").missing
    assert message.startswith("there is nothing to run the model with; give inputs=x")


def test_the_program_is_left_as_it_is() -> None:
    program = linear(None)
    before = dict(vars(program))
    profile(program, metrics=["macs"])
    assert vars(program).keys() == before.keys()
    assert all(vars(program)[name] is value for name, value in before.items())
