"""Gradients of recurrent layers and cells that are one operator.

The gradient by the weights takes as many multiply-accumulates as the forward pass, and so does the one by inputs and
states. Of the latter, what the first layer's input or the first states would take is left out where nobody asks for it.
A bias takes the sum over steps and samples. The gates take, for each hidden unit, layer, direction, step and sample:

- LSTM: 5 sigmoids and tanhs, 6 products (of the output gate two, of the cell four), two gradients added: 13.
- GRU: 3 sigmoids and tanhs, 4 products, one negated, three gradients added: 11.
- RNN: 1 tanh (or ReLU), one gradient added: 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .registry import Cost, Shape, register_op_cost

#: Operations for each unit, by the number that torch gives the kind: RNN with ReLU, RNN with tanh, LSTM, GRU.
_UNIT_FLOPS = (2, 2, 13, 11)


def _elements(weights: Sequence[Shape], dimensions: int) -> int:
    return sum(weight.numel for weight in weights if len(weight) == dimensions)


def _gradient(weights: Sequence[Shape], positions: int, unwanted: int, by_weights: bool, gate_flops: int) -> Cost:
    """Return the cost of both gradients, less the multiply-accumulates of what is not asked for."""
    forward = _elements(weights, 2) * positions
    biases = _elements(weights, 1) * positions
    return Cost.of_macs(forward * (1 + by_weights) - unwanted, gate_flops + biases * by_weights)


@register_op_cost("aten::mkldnn_rnn_layer_backward")
def onednn_layer(
    x: Shape,
    w1: Shape,
    w2: Shape,
    w3: Shape,
    w4: Shape,
    hx: Any,
    cx: Any,
    y: Any,
    hy: Any,
    cy: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    reverse: Any,
    mode: int,
    units: int,
    layers: int,
    has_biases: bool,
    *_: Any,
    out: Any,
) -> Cost:
    """One layer in one direction: twice the forward pass, since this kernel returns every gradient always."""
    positions = Shape(x[:-1]).numel
    weights = (w1, w2, w3, w4) if has_biases else (w1, w2)
    return _gradient(weights, positions, 0, True, positions * units * _UNIT_FLOPS[mode])


@register_op_cost("aten::_cudnn_rnn_backward")
def cudnn(
    x: Shape,
    weights: Sequence[Shape],
    each: int,
    buffer: Any,
    hx: Shape,
    cx: Any,
    y: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    mode: int,
    units: int,
    projected: Any,
    layers: int,
    batch_first: Any,
    dropout: Any,
    train: Any,
    both_ways: bool,
    sizes: Any,
    dropout_state: Any,
    reserve: Any,
    wanted: Sequence[bool],
    *,
    out: Any,
) -> Cost:
    """All layers and directions; each has ``each`` weights, the input's and the state's matrix first."""
    return _stack(x, weights, each, hx, mode, units, 1 + both_ways, wanted)


@register_op_cost("aten::miopen_rnn_backward")
def miopen(
    x: Shape,
    weights: Sequence[Shape],
    each: int,
    buffer: Any,
    hx: Shape,
    cx: Any,
    y: Any,
    dy: Any,
    dhy: Any,
    dcy: Any,
    mode: int,
    units: int,
    layers: int,
    batch_first: Any,
    dropout: Any,
    train: Any,
    both_ways: bool,
    sizes: Any,
    dropout_state: Any,
    reserve: Any,
    wanted: Sequence[bool],
    *,
    out: Any,
) -> Cost:
    """As `cudnn`."""
    return _stack(x, weights, each, hx, mode, units, 1 + both_ways, wanted)


def _stack(
    x: Shape, weights: Sequence[Shape], each: int, hx: Shape, mode: int, units: int, ways: int, wanted: Sequence[bool]
) -> Cost:
    by_input, by_state, _, by_weights = wanted
    positions, batch = Shape(x[:-1]).numel, hx[1]
    unwanted = 0 if by_input else _elements(weights[: ways * each : each], 2) * positions
    unwanted += 0 if by_state else _elements(weights[1::each], 2) * batch
    cells = len(weights) // each
    return _gradient(weights, positions, unwanted, by_weights, positions * cells * units * _UNIT_FLOPS[mode])


@register_op_cost("aten::lstm_mps_backward")
def metal(
    dy: Any,
    dhy: Any,
    dcy: Any,
    z: Any,
    states: Any,
    x: Shape,
    outputs: Any,
    hx: Sequence[Shape],
    weights: Sequence[Shape],
    *_: Any,
    out: Any,
) -> Cost:
    """All layers and directions of an LSTM: twice the forward pass, since it returns every gradient always."""
    positions = Shape(x[:-1]).numel
    cells, units = hx[1][0], hx[1][-1]
    return _gradient(weights, positions, 0, True, positions * cells * units * _UNIT_FLOPS[2])


@register_op_cost("aten::_thnn_fused_lstm_cell_backward_impl")
def lstm_cell(dhy: Any, dcy: Any, cx: Shape, cy: Any, gates: Shape, has_bias: bool, *, out: Any) -> Cost:
    """``dh * tanh(c)``, ``dh * o``, four products of dc, and 5 sigmoids and tanhs; one more where dc came in too.

    The bias takes the sum of the gates' gradients.
    """
    return Cost(0, cx.numel * (11 + (dcy is not None)) + gates.numel * has_bias)


@register_op_cost("aten::_thnn_fused_gru_cell_backward")
def gru_cell(dhy: Shape, gates: Any, has_bias: bool, *, out: Any) -> Cost:
    """Four products, a negation and an addition, and 3 sigmoids and tanhs: 9; each of two biases takes three sums."""
    return Cost(0, dhy.numel * (9 + 6 * has_bias))
