"""Recurrent layers: LSTM, GRU and RNN, one operator for one layer in one or both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from profilerkit.costs import activation, elementwise, recurrent

from .registry import Cost, NodeCall, UnknownCostError, register_op_cost

__all__ = ["LENGTHS", "RECURRENT"]

#: The recurrent operators, by the names that formulas are registered for.
RECURRENT = ("LSTM", "GRU", "RNN", "com.microsoft::DynamicQuantizeLSTM")
#: The index of their input ``sequence_lens``, the lengths of the sequences, and of the peepholes of an LSTM.
LENGTHS, _PEEPHOLES = 4, 7
_USUAL = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh")}


@register_op_cost("LSTM")
def lstm(call: NodeCall) -> Cost:
    """Weights ``(directions, 4 * units, features)`` and ``(directions, 4 * units, units)``, biases of both.

    Peepholes are a product and an addition for each of three gates (Gers and Schmidhuber 2000). Of each sequence the
    steps up to its length count if ``sequence_lens`` is known; if not, all.
    """
    return _lstm(call, units=call.inputs[2][2])


@register_op_cost("com.microsoft::DynamicQuantizeLSTM")
def lstm_on_integers(call: NodeCall) -> Cost:
    """As ``LSTM``, with weights ``(directions, features, 4 * units)`` and ``(directions, units, 4 * units)``."""
    return _lstm(call, units=call.inputs[2][1])


def _lstm(call: NodeCall, units: int) -> Cost:
    cost = _layer(call, "lstm", units)
    if not call.has_input(_PEEPHOLES):
        return cost
    return cost.plus(elementwise.scale_and_shift(_positions(call) * call.inputs[_PEEPHOLES].numel))


@register_op_cost("GRU")
def gru(call: NodeCall) -> Cost:
    """Three gates, wherever the reset gate is applied."""
    return _layer(call, "gru", units=call.inputs[2][2])


@register_op_cost("RNN")
def rnn(call: NodeCall) -> Cost:
    """One tanh or ReLU."""
    names = {str(name).lower() for name in call.attribute("activations", ["Tanh"])}
    kind = f"rnn_{names.pop()}" if len(names) == 1 else ""
    if kind not in recurrent.GATES:
        raise UnknownCostError
    return _layer(call, kind, units=call.inputs[2][2])


def _layer(call: NodeCall, kind: str, units: int) -> Cost:
    """Return the cost of a layer with so many units a direction; its activations must be the usual ones.

    With ``clip`` the argument of each activation is clamped.
    """
    weights, states = call.inputs[1], call.inputs[2]
    directions = states[0]
    chosen: Any = call.attribute("activations")
    if chosen is not None and kind in _USUAL and list(map(str, chosen)) != [*_USUAL[kind]] * directions:
        raise UnknownCostError
    biases = call.inputs[3].numel if call.has_input(3) else 0
    positions = _positions(call)
    cost = recurrent.layers(kind, positions, weights.numel + states.numel, biases, directions * units)
    if not call.attribute("clip", 0):
        return cost
    return cost.plus(activation.clamp(positions * directions * units * recurrent.ACTIVATIONS[kind]))


def _positions(call: NodeCall) -> int:
    """Return the steps of all samples, of an input of ``(steps, samples, features)`` or with the samples first."""
    steps, samples = call.inputs[0][:2]
    if call.attribute("layout", 0):
        steps, samples = samples, steps
    lengths = call.value(LENGTHS) if call.has_input(LENGTHS) else None
    return steps * samples if lengths is None else int(np.clip(lengths, 0, steps).sum())
