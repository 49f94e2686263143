"""Recurrent layers: LSTM, GRU and RNN, one operator for one layer in one or both directions."""

from __future__ import annotations

import numpy as np

from profilerkit.costs import activation, elementwise, recurrent

from .registry import Cost, NodeCall, UnknownCostError, register_op_cost

__all__ = ["LENGTHS", "RECURRENT"]

#: The recurrent operators, by the names that formulas are registered for.
RECURRENT = ("LSTM", "GRU", "RNN", "com.microsoft::DynamicQuantizeLSTM")
#: The indices of their inputs; the lengths of the sequences are ``sequence_lens``, and an LSTM alone has peepholes.
_INPUT_WEIGHTS, _STATE_WEIGHTS, _BIASES, LENGTHS, _PEEPHOLES = 1, 2, 3, 4, 7
#: The kinds of layers that are counted, by the names of the activations of one direction.
_KINDS = {
    ("sigmoid", "tanh", "tanh"): "lstm",
    ("sigmoid", "tanh"): "gru",
    ("tanh",): "rnn_tanh",
    ("relu",): "rnn_relu",
}


@register_op_cost("LSTM")
def lstm(call: NodeCall) -> Cost:
    """Weights ``(directions, 4 * units, features)`` and ``(directions, 4 * units, units)``, biases of both.

    Peepholes are a product and an addition for each of three gates (Gers and Schmidhuber 2000). Of each sequence the
    steps up to its length count if ``sequence_lens`` is known; if not, all.
    """
    return _lstm(call, units=call.inputs[_STATE_WEIGHTS][2])


@register_op_cost("com.microsoft::DynamicQuantizeLSTM")
def lstm_on_integers(call: NodeCall) -> Cost:
    """As ``LSTM``, with weights ``(directions, features, 4 * units)`` and ``(directions, units, 4 * units)``."""
    return _lstm(call, units=call.inputs[_STATE_WEIGHTS][1])


def _lstm(call: NodeCall, units: int) -> Cost:
    cost = _layer(call, ["sigmoid", "tanh", "tanh"], units)
    if not call.has_input(_PEEPHOLES):
        return cost
    return cost.plus(elementwise.scale_and_shift(_positions(call) * call.inputs[_PEEPHOLES].numel))


@register_op_cost("GRU")
def gru(call: NodeCall) -> Cost:
    """Three gates, wherever the reset gate is applied."""
    return _layer(call, ["sigmoid", "tanh"], units=call.inputs[_STATE_WEIGHTS][2])


@register_op_cost("RNN")
def rnn(call: NodeCall) -> Cost:
    """One tanh or ReLU; each direction may have its own."""
    return _layer(call, ["tanh"], units=call.inputs[_STATE_WEIGHTS][2])


def _layer(call: NodeCall, usual: list[str], units: int) -> Cost:
    """Return the cost of a layer with so many units a direction, whose activations are the ``usual`` ones by default.

    With ``clip`` the argument of each activation is clamped.
    """
    weights = call.inputs[_INPUT_WEIGHTS].numel + call.inputs[_STATE_WEIGHTS].numel
    biases = call.inputs[_BIASES].numel if call.has_input(_BIASES) else 0
    positions, kinds, cost = _positions(call), _read_kinds(call, usual), Cost(0, 0)
    for kind in kinds:
        cost = cost.plus(recurrent.layers(kind, positions, weights // len(kinds), biases // len(kinds), units))
        if call.attribute("clip", 0):
            cost = cost.plus(activation.clamp(positions * units * recurrent.ACTIVATIONS[kind]))
    return cost


def _read_kinds(call: NodeCall, usual: list[str]) -> list[str]:
    """Return the kind of each direction by the names of its activations, in any case.

    onnxruntime ignores the case for an LSTM and a GRU, and takes only "Tanh" and "Relu" for an RNN. The standard's own
    default of an RNN has a name for each of two directions.
    """
    size, directions = len(usual), call.inputs[_STATE_WEIGHTS][0]
    needed = size * directions
    names = [str(name).lower() for name in call.attribute("activations", usual * directions)][:needed]
    kinds = [_KINDS.get(tuple(names[start : start + size]), "") for start in range(0, needed, size)]
    if len(names) < needed or "" in kinds:
        raise UnknownCostError
    return kinds


def _positions(call: NodeCall) -> int:
    """Return the steps of all samples, of an input of ``(steps, samples, features)`` or with the samples first."""
    steps, samples = call.inputs[0][:2]
    if call.attribute("layout", 0):
        steps, samples = samples, steps
    lengths = call.value(LENGTHS) if call.has_input(LENGTHS) else None
    return steps * samples if lengths is None else int(np.clip(lengths, 0, steps).sum())
