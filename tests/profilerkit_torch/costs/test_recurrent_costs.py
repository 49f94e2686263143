"""Recurrent layers of any depth and direction against their closed formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny import Call, cost, ones, trace_complete
from torch import nn

Function = Callable[..., Any]

INDEX = torch.tensor([0, 2])


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
UNIT_FLOPS = {"RNN": 2, "GRU": 11, "LSTM": 13}


def recurrent_cost(
    kind: str, size: int, hidden: int, layers: int, directions: int, positions: int, proj: int = 0, bias: bool = True
) -> tuple[int, int]:
    gates, output = GATES[kind], proj or hidden
    macs = flops = 0
    for layer in range(layers):
        inputs = size if layer == 0 else output * directions
        one = gates * hidden * (inputs + output) + hidden * proj
        macs += directions * positions * one
        flops += directions * positions * (bias * 2 * gates * hidden + UNIT_FLOPS[kind] * hidden)
    return macs, 2 * macs + flops


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_recurrent(kind: str, layers: int, bidirectional: bool, batch_first: bool, bias: bool) -> None:
    layer = getattr(nn, kind)(4, 6, layers, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
    found = trace_complete(layer, ones(2, 7, 4))
    assert (found.macs, found.flops) == recurrent_cost(kind, 4, 6, layers, 1 + bidirectional, 14, bias=bias)


def test_lstm_by_hand() -> None:
    """Four gates of 6 units, 4 inputs and 6 states each, for 7 steps of 2 samples."""
    assert trace_complete(nn.LSTM(4, 6), ones(7, 2, 4)).macs == 4 * 6 * (4 + 6) * 7 * 2 == 3360


def test_lstm_operator_by_operator() -> None:
    """Seven steps cost seven times what one costs that is written out."""

    def step(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> Any:
        w, r, b = weights
        gates = F.linear(x, w, b) + F.linear(h, r, b)
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh()

    spelt = cost(step, ones(2, 4), ones(2, 6), ones(2, 6), ones(24, 4), ones(24, 6), ones(24))
    macs = 2 * 24 * (4 + 6)
    biases, sums, gates, states = 2 * 24 + 2 * 24, 2 * 24, 2 * 6 * 5, 2 * 6 * 4
    assert spelt == (macs, 2 * macs + biases + sums + gates + states) == (480, 960 + 96 + 48 + 60 + 48)
    found = trace_complete(nn.LSTM(4, 6), ones(7, 2, 4))
    assert (found.macs, found.flops) == (7 * spelt[0], 7 * spelt[1])


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_simple_recurrence_with_either_nonlinearity(nonlinearity: str) -> None:
    found = trace_complete(nn.RNN(4, 6, nonlinearity=nonlinearity), ones(7, 2, 4))
    assert (found.macs, found.flops) == recurrent_cost("RNN", 4, 6, 1, 1, 14)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstm_with_projections(bidirectional: bool) -> None:
    layer = nn.LSTM(4, 6, 2, proj_size=3, bidirectional=bidirectional)
    found = trace_complete(layer, ones(7, 2, 4))
    assert (found.macs, found.flops) == recurrent_cost("LSTM", 4, 6, 2, 1 + bidirectional, 14, proj=3)


@pytest.mark.parametrize("kind", GATES)
def test_packed_sequences_count_their_own_steps_alone(kind: str) -> None:
    def run(self: Any, x: torch.Tensor) -> Any:
        packed = nn.utils.rnn.pack_sequence([x[:5], x[:3], x[:1]])
        return self.layer(packed)[0].data

    found = trace_complete(Call(run, layer=getattr(nn, kind)(4, 6)), ones(5, 4))
    assert (found.macs, found.flops) == recurrent_cost(kind, 4, 6, 1, 1, 5 + 3 + 1)


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_cells_have_the_same_macs_as_one_step(kind: str) -> None:
    found = trace_complete(getattr(nn, f"{kind}Cell")(4, 6), ones(2, 4))
    assert found.macs == recurrent_cost(kind, 4, 6, 1, 1, 2)[0]
