"""Recurrent layers: LSTM, GRU and RNN, one operator for one layer in one or both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from profilerkit.costs import elementwise, recurrent

from .registry import Cost, NodeCall, UnknownCostError, register_op_cost

#: The index of ``sequence_lens``.
_LENGTHS = 4
_USUAL = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh")}


@register_op_cost("LSTM")
def lstm(call: NodeCall) -> Cost:
    """Weights ``(directions, 4 * units, features)`` and ``(directions, 4 * units, units)``, biases of both.

    Peepholes are a product and an addition for each of three gates (Gers and Schmidhuber 2000). Of each sequence the
    steps up to its length count if ``sequence_lens`` is known; if not, all.
    """
    cost = _layer(call, "lstm")
    if not call.has_input(7):
        return cost
    return cost.plus(elementwise.scale_and_shift(_positions(call) * call.inputs[7].numel))


@register_op_cost("com.microsoft::DynamicQuantizeLSTM")
def lstm_on_integers(call: NodeCall) -> Cost:
    """Weights ``(directions, features, 4 * units)`` and ``(directions, units, 4 * units)``, of integers; biases."""
    weights, states = call.inputs[1], call.inputs[2]
    biases = call.inputs[3].numel if call.has_input(3) else 0
    return recurrent.layers("lstm", _positions(call), weights.numel + states.numel, biases, states[0] * states[1])


@register_op_cost("GRU")
def gru(call: NodeCall) -> Cost:
    """Three gates, wherever the reset gate is applied."""
    return _layer(call, "gru")


@register_op_cost("RNN")
def rnn(call: NodeCall) -> Cost:
    """One tanh or ReLU."""
    names = {str(name).lower() for name in call.attribute("activations", ["Tanh"])}
    kind = f"rnn_{names.pop()}" if len(names) == 1 else ""
    if kind not in recurrent.GATES:
        raise UnknownCostError
    return _layer(call, kind)


def _layer(call: NodeCall, kind: str) -> Cost:
    weights, states = call.inputs[1], call.inputs[2]
    usual: tuple[str, ...] = _USUAL.get(kind, ())
    chosen: Any = call.attribute("activations")
    if chosen is not None and usual and list(map(str, chosen)) != [*usual] * states[0]:
        raise UnknownCostError
    biases = call.inputs[3].numel if call.has_input(3) else 0
    units = states[0] * states[2]
    return recurrent.layers(kind, _positions(call), weights.numel + states.numel, biases, units)


def _positions(call: NodeCall) -> int:
    """Return the steps of all samples, of an input of ``(steps, samples, features)`` or with the samples first."""
    steps, samples = call.inputs[0][:2]
    if call.attribute("layout", 0):
        steps, samples = samples, steps
    lengths = call.value(_LENGTHS) if call.type in ("LSTM", "GRU", "RNN") and call.has_input(_LENGTHS) else None
    return steps * samples if lengths is None else int(np.clip(lengths, 0, steps).sum())
