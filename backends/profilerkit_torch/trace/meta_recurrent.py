"""What recurrent layers make of meta tensors: one operator for all layers, directions and steps.

Torch's own kernel for meta tensors takes each step apart into a dozen operators written in Python, a hundred
microseconds each: on a sequence of 32 steps through three layers that is two hundred times the run itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from profilerkit.costs import recurrent

__all__ = ["RECURRENT"]


def _weight_shapes(gates: int, features: int, hidden: int, out: int, with_biases: bool) -> list[tuple[int, ...]]:
    """Return the shapes of the weights of one layer in one direction, in the order in which torch takes them.

    ``out`` is the size of what a step hands on: ``hidden``, or the size of its projection.
    """
    rows = gates * hidden
    shapes: list[tuple[int, ...]] = [(rows, features), (rows, out)]
    if with_biases:
        shapes += [(rows,), (rows,)]
    return shapes if out == hidden else [*shapes, (out, hidden)]


def _fit(
    x: torch.Tensor, states: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], shapes: list[tuple[int, ...]]
) -> bool:
    """Return whether all are plain meta tensors of one dtype, and the weights have these shapes."""
    tensors = (x, *states, *weights)
    return len(weights) == len(shapes) and all(
        type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_meta and tensor.dtype is x.dtype
        for tensor in tensors
    ) and all(weight.shape == shape for weight, shape in zip(weights, shapes, strict=True))  # fmt: skip


def _outputs(
    gates: int,
    x: Any,
    states: Any,
    weights: Any,
    with_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, ...] | None:
    """Return the output and the last states of ``x``, (steps, samples, features) or with samples first."""
    directions = 2 if bidirectional else 1
    if x.dim() != 3 or 0 in x.shape or layers < 1 or any(state.dim() != 3 for state in states):
        return None
    samples, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    out, hidden = states[0].shape[2], states[-1].shape[2]
    if any(state.shape[:2] != (layers * directions, samples) for state in states):
        return None
    inner = [x.shape[2], *[out * directions] * (layers - 1)]
    of_layer = (_weight_shapes(gates, features, hidden, out, with_biases) for features in inner)
    shapes = [shape for item in of_layer for _ in range(directions) for shape in item]
    if not _fit(x, states, weights, shapes):
        return None
    output = torch.empty((steps, samples, out * directions), dtype=x.dtype, device=x.device)
    last = (torch.empty(tuple(state.shape), dtype=x.dtype, device=x.device) for state in states)
    return (output.transpose(0, 1) if batch_first else output, *last)


def _lstm(
    x: Any, hx: Any, weights: Any, with_biases: bool, layers: int, dropout: float, train: bool, two: bool, first: bool
) -> tuple[torch.Tensor, ...] | None:
    """The states of an LSTM are two: what its steps hand on, which may be projected, and its cells."""
    if len(hx) != 2:
        return None
    return _outputs(recurrent.GATES["lstm"], x, hx, weights, with_biases, layers, two, first)


def _of_one_state(kind: str) -> Callable[..., tuple[torch.Tensor, ...] | None]:
    """The others have one state."""
    gates = recurrent.GATES[kind]

    def outputs(
        x: Any,
        hx: Any,
        weights: Any,
        with_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        two: bool,
        first: bool,
    ) -> tuple[torch.Tensor, ...] | None:
        return _outputs(gates, x, (hx,), weights, with_biases, layers, two, first)

    return outputs


#: By operator: what it makes, called with its arguments; None for those that torch's own kernel must judge.
RECURRENT: dict[str, Callable[..., tuple[torch.Tensor, ...] | None]] = {
    "aten::lstm.input": _lstm,
    **{f"aten::{kind}.input": _of_one_state(kind) for kind in recurrent.GATES if kind != "lstm"},
}
