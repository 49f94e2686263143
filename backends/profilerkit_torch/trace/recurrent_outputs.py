"""What recurrent layers make of stand-ins, without running them: one operator for all layers, directions and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from profilerkit.costs import recurrent

from ..compat.tensors import FakeTensor
from ..model.tensors import PLAIN_TYPES

__all__ = ["RECURRENT"]

_PLAIN_OR_FAKE = (*PLAIN_TYPES, FakeTensor)


class _Arguments(NamedTuple):
    """The arguments of an operator for recurrent layers, in its order.

    Attributes:
        x: (steps, samples, features), or with the samples first.
        states: Those of an LSTM are two: what its steps hand on, which may be projected, and its cells. The other kinds
            have one tensor.
    """

    x: torch.Tensor
    states: Any
    weights: Sequence[torch.Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _make_outputs(kind: str, *values: Any) -> tuple[torch.Tensor, ...] | None:
    """Return the output and the last states; None for arguments that torch's own kernel must judge."""
    arguments = _Arguments(*values)
    x = arguments.x
    states = arguments.states if kind == "lstm" else (arguments.states,)
    if x.dim() != 3 or 0 in x.shape or arguments.num_layers < 1 or len(states) != (2 if kind == "lstm" else 1):
        return None
    samples, steps = x.shape[:2] if arguments.batch_first else (x.shape[1], x.shape[0])
    directions = 2 if arguments.bidirectional else 1
    cells = arguments.num_layers * directions
    if any(state.dim() != 3 or state.shape[:2] != (cells, samples) for state in states):
        return None
    if not _are_weights(kind, arguments, states) or not _have_one_dtype(x, *states, *arguments.weights):
        return None
    output = torch.empty((steps, samples, states[0].shape[2] * directions), dtype=x.dtype, device=x.device)
    last_states = (torch.empty(tuple(state.shape), dtype=x.dtype, device=x.device) for state in states)
    # Samples first is a view: torch computes with the steps first, and turns round what it has made.
    return (output.transpose(0, 1) if arguments.batch_first else output, *last_states)


def _are_weights(kind: str, arguments: _Arguments, states: Sequence[torch.Tensor]) -> bool:
    """Return whether the weights have the shapes that fit the input and the states."""
    hidden, out = states[-1].shape[2], states[0].shape[2]
    directions = 2 if arguments.bidirectional else 1
    shapes: list[tuple[int, ...]] = []
    for layer in range(arguments.num_layers):  # each takes what the one before it makes
        features = out * directions if layer else arguments.x.shape[2]
        shapes += _list_weight_shapes(recurrent.GATES[kind], features, hidden, out, arguments.has_biases) * directions
    return [weight.shape for weight in arguments.weights] == shapes


def _list_weight_shapes(gates: int, features: int, hidden: int, out: int, has_biases: bool) -> list[tuple[int, ...]]:
    """Return the shapes of the weights of one layer in one direction, in the order in which torch takes them.

    ``out`` is the size of what a step hands on: ``hidden``, or the size of its projection.
    """
    rows = gates * hidden
    biases = [(rows,), (rows,)] if has_biases else []
    return [(rows, features), (rows, out), *biases, *([(out, hidden)] if out != hidden else [])]


def _have_one_dtype(first: torch.Tensor, *others: torch.Tensor) -> bool:
    """Return whether all are plain or fake tensors on one device and of one dtype."""
    return all(
        type(tensor) in _PLAIN_OR_FAKE and tensor.device == first.device and tensor.dtype is first.dtype
        for tensor in (first, *others)
    )


#: By operator: what it makes, called with its arguments; None for those that torch's own kernel must judge.
RECURRENT: dict[str, Callable[..., tuple[torch.Tensor, ...] | None]] = {
    f"aten::{kind}.input": partial(_make_outputs, kind) for kind in recurrent.GATES
}
