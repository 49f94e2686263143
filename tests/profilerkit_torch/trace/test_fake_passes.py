"""A pass on fake tensors, which follows where meta tensors lack an operator, has the numbers of one on meta tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import BACKEND, Call, ones
from torch import nn
from torch.nn import functional as F

from profilerkit import ModelInputs, ModelTrace
from profilerkit_torch.trace import tracing

X = ones(4, 8)
LOSSES = (F.mse_loss, F.smooth_l1_loss, F.soft_margin_loss, F.binary_cross_entropy)
MODELS = {
    **{loss.__name__: (Call(lambda self, x, loss=loss: loss(x, torch.zeros_like(x))), X) for loss in LOSSES},
    "attention": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), ones(2, 4, 8)),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU()), ones(2, 3, 8, 8)),
    "columns to image": (Call(lambda self, x: F.fold(x, (4, 4), 2)), ones(2, 8, 9)),
    "recurrent": (nn.LSTM(8, 4, 2, bidirectional=True), ones(5, 2, 8)),
}


def trace_both_ways(model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield the numbers by meta tensors and by fake ones, forward and of a training step."""
    for way in (tracing._on_meta, tracing._on_fake):
        monkeypatch.setattr(tracing, "_on_meta", way)
        traces = (BACKEND.trace(model, ModelInputs(x)), BACKEND.trace_training(model, ModelInputs(x)))
        yield [*map(read_numbers, traces)]


def read_numbers(trace: ModelTrace) -> Any:
    assert trace.failure is None
    assert not any("real run" in note for note in trace.notes)
    return trace.macs, trace.flops, trace.memory.peak_bytes(), trace.uncounted


@pytest.mark.parametrize("name", MODELS)
def test_numbers_are_those_of_meta_tensors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_meta, on_fake = trace_both_ways(*MODELS[name], monkeypatch)
    assert on_fake == on_meta


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_a_number_in_the_memory_of_many(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input, target and the loss, whose memory is that of each element; of two of them these are in other memory."""
    (on_meta, _), (on_fake, _) = trace_both_ways(*MODELS[loss.__name__], monkeypatch)
    tensors = 4 if loss in (F.mse_loss, F.smooth_l1_loss) else 3
    assert on_meta[2] == on_fake[2] == tensors * 32 * 4


def test_one_hot_numbers_are_those_of_a_device() -> None:
    """Autocast has the pass be on fake tensors, where torch would compare each number with each of 4 classes.

    At the peak there are the input, its integers, the rest of them by 4, and the one-hot numbers.
    """

    def run(self: Any, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            number = x[0].sum() * 1
        return torch.nn.functional.one_hot(x.long() % 4, 4), number

    model, x = Call(run), ModelInputs(torch.ones(64, 64))
    found = BACKEND.trace(model, x)
    assert found.method == "fake tensors"
    assert [operator.operator for operator in found.operators][-1] == "aten.scatter_.value"
    assert found.memory.peak_bytes() == BACKEND.measure_memory(model, x) == 64 * 64 * (4 + 8 + 4 * 8) + 4
