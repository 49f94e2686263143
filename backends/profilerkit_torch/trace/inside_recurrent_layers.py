"""The bytes inside recurrent layers on the CPU (``FullLayer`` and ``FullBidirectionalLayer`` in ``RNN.cpp``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..model.storages import count_stored_bytes
from .inside_operation import Operation

__all__ = ["RULES"]


_GRU_GATES = 3


def _count_in_recurrent_layer(gates: int, layer: Operation) -> int:
    """Return the bytes that an RNN or a GRU holds on the CPU beyond its result; `find_unknown_inside` names the others.

    All sizes are in states: what a step of one direction hands on for all samples. The gates of all steps are there to
    the end. Each step makes its own beside the states of the steps before, and new states; then all are joined.
    """
    if not layer.is_on("cpu"):
        return 0
    x = layer.x.transpose(0, 1) if layer.get("batch_first") else layer.x
    _, last_states = layer.result
    steps, cells, directions = x.shape[0], last_states.shape[0], 2 if layer.get("bidirectional") else 1
    new_states = 2 if gates == _GRU_GATES else 1
    most = products = steps * gates
    most += max(gates + new_states + steps - 1, 2 * steps)
    if directions == 2:
        # What the first direction made stays, by step and joined, and its gates until the others are there.
        products = 2 * steps + 2 * steps * gates
        most = max(2 * steps + most, steps * gates + 6 * steps)
    outputs = steps * directions
    if cells > directions:  # the last layer reads the output of the one before, beside the last states of all before
        most += outputs + cells - directions
    state_bytes = last_states.nbytes // cells
    copy_of_input = 0 if x.is_contiguous() else count_stored_bytes(x)  # for the products of the first layer
    most_bytes = max(most * state_bytes, products * state_bytes + copy_of_input, (outputs + 2 * cells) * state_bytes)
    return int(most_bytes - (outputs + cells) * state_bytes)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    partial(_count_in_recurrent_layer, 1): "rnn_tanh.input rnn_relu.input",
    partial(_count_in_recurrent_layer, _GRU_GATES): "gru.input",
}
