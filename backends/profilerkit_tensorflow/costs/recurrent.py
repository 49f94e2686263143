"""Recurrent layers that are one operator, as Keras runs them by cuDNN; of loops the operators of the body count."""

from __future__ import annotations

import numpy as np

from profilerkit.costs import recurrent

from .registry import Cost, OpCall, UnknownCostError, register_free, register_op_costs


@register_op_costs("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: OpCall) -> Cost:
    """One layer in one direction, with two biases for each gate, as cuDNN has them; others are not counted.

    Inputs: 0 the input ``(steps, batch, features)``; 1 the hidden state ``(1, batch, units)``; 4 the lengths of the
    sequences ``(batch,)``, of version 3 alone. Where its ``time_major`` is false, the batch is the first dimension.
    """
    features, units = call.inputs[0][-1], call.inputs[1][-1]
    cells = call.inputs[1][1 if call.attribute("time_major") is False else 0]
    if cells != 1 or call.attribute("num_proj") or call.attribute("input_mode") not in (None, "linear_input"):
        raise UnknownCostError
    kind = call.attribute("rnn_mode")
    gates = recurrent.GATES[kind]
    return recurrent.layers(
        kind,
        positions=_count_positions(call),
        matrix_elements=gates * units * (features + units),
        bias_elements=2 * gates * units,
        units=units,
    )


def _count_positions(call: OpCall) -> int:
    """Return the steps of all sequences: up to the length of each if that is known, otherwise with their padding."""
    first, second, _ = call.inputs[0]
    time_major = call.attribute("time_major")
    lengths = None if time_major is None else call.value(4)
    steps = second if time_major is False else first
    return int(first * second) if lengths is None else int(np.clip(lengths, 0, steps).sum())


@register_op_costs("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def cudnn_rnn_gradient(call: OpCall) -> Cost:
    """Twice the forward pass: once for the gradients of the inputs, once for the weights."""
    return cudnn_rnn(call).times(2)


register_free("CudnnRNNParamsSize", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
register_free("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
