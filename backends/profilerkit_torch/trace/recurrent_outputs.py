"""What recurrent layers make of stand-ins, without running them: one operator for all layers, directions and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from profilerkit.costs import recurrent

from ..compat.tensors import FakeTensor
from ..model.tensors import PLAIN_TYPES

__all__ = ["RECURRENT"]

_PLAIN_OR_FAKE = (*PLAIN_TYPES, FakeTensor)
#: How many states each kind of cell has.
_STATES = {kind: 2 if kind == "lstm" else 1 for kind in recurrent.GATES}


def _make_outputs(
    kind: str,
    x: Any,
    hx: Any,
    weights: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Return the output and the last states of ``x``, (steps, samples, features) or with samples first.

    None for arguments that torch's own kernel must judge. The states of an LSTM are two: what its steps hand on, which
    may be projected, and its cells. The other kinds have one.
    """
    states = hx if kind == "lstm" else (hx,)
    directions = 2 if bidirectional else 1
    if x.dim() != 3 or 0 in x.shape or num_layers < 1:
        return None
    samples, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    if len(states) != _STATES[kind] or not _are_states(states, num_layers * directions, samples):
        return None
    hidden, out = states[-1].shape[2], states[0].shape[2]
    shapes: list[tuple[int, ...]] = []
    for features in (x.shape[2], *[out * directions] * (num_layers - 1)):  # a layer takes what the one before it makes
        shapes += _list_weight_shapes(recurrent.GATES[kind], features, hidden, out, has_biases) * directions
    if [weight.shape for weight in weights] != shapes or not _have_one_dtype(x, *states, *weights):
        return None
    output = torch.empty((steps, samples, out * directions), dtype=x.dtype, device=x.device)
    last_states = (torch.empty(tuple(state.shape), dtype=x.dtype, device=x.device) for state in states)
    # Samples first is a view: torch computes with the steps first, and turns round what it has made.
    return (output.transpose(0, 1) if batch_first else output, *last_states)


def _are_states(states: Sequence[torch.Tensor], cells: int, samples: int) -> bool:
    """Return whether there is a state of each sample in each cell: there is a cell for each layer and direction."""
    return all(state.dim() == 3 and state.shape[:2] == (cells, samples) for state in states)


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
