"""Recurrent layers that a calibration measures, and those whose gradients it measures."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.backends import cudnn

from ..compat.operators import find_operator
from .operands import Described, Operands, random

__all__ = ["describe_inputs", "describe_layers", "describe_layers_for_gradients", "run_gru", "run_lstm"]

#: Puts the weights of a recurrent layer into one piece of memory.
_FLATTEN: Any = find_operator("aten._cudnn_rnn_flatten_weight.default")


class _Size(NamedTuple):
    """The sizes of a layer and of its inputs; ``width`` is that of its outputs."""

    batch: int
    steps: int
    features: int
    width: int


_SIZES = (
    _Size(1, 8, 16, 32),
    _Size(1, 32, 64, 64),
    _Size(8, 32, 64, 64),
    _Size(16, 8, 64, 64),
    _Size(4, 48, 96, 96),
    _Size(8, 16, 128, 256),
    _Size(32, 16, 64, 128),
    _Size(1, 64, 256, 256),
)
#: What fills an accelerator as well.
_LARGE_SIZES = (
    *_SIZES,
    _Size(256, 16, 64, 64),
    _Size(64, 48, 96, 96),
    _Size(64, 24, 128, 256),
    _Size(32, 128, 1024, 1024),
)
#: The gates of a cell.
_LSTM_GATES, _GRU_GATES = 4, 3


def describe_layers(is_large: bool) -> Described:
    """Yield recurrent layers, each a name, a function and its inputs; the large ones are for accelerators."""
    for size in _LARGE_SIZES if is_large else _SIZES:
        yield f"lstm {size.batch} x {size.steps}", run_lstm, describe_inputs(_LSTM_GATES, *size)
        yield f"gru {size.batch} x {size.steps}", run_gru, describe_inputs(_GRU_GATES, *size)


def describe_layers_for_gradients(is_large: bool) -> Described:
    """Yield recurrent layers whose gradients are measured: a name, the function of the forward pass, and its inputs."""
    for name, function, inputs in describe_layers(is_large):
        yield f"gradient of {name}", function, inputs


def describe_inputs(gates: int, batch: int, steps: int, features: int, width: int) -> Operands:
    """Return the inputs, the first states and the weights of an LSTM (4 gates) or a GRU (3)."""
    rows = gates * width
    states = tuple(random(1, batch, width) for _ in range(2 if gates == _LSTM_GATES else 1))
    weights = random(rows, features), random(rows, width), random(rows), random(rows)
    return (random(batch, steps, features), *states, *weights)


def run_lstm(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of an LSTM over inputs that begin with the batch; where gradients are on, in training mode."""
    _lay_out_for_cudnn("LSTM", x, weights)
    return torch.lstm(x, (h, c), weights, *_make_options())


def run_gru(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> Any:
    """Run a layer of a GRU over inputs that begin with the batch; where gradients are on, in training mode."""
    _lay_out_for_cudnn("GRU", x, weights)
    return torch.gru(x, h, weights, *_make_options())


def _make_options() -> tuple[bool, int, float, bool, bool, bool]:
    """Return what torch's recurrent operators take after the weights."""
    has_biases, layers, dropout, is_bidirectional, is_batch_first = True, 1, 0.0, False, True
    return has_biases, layers, dropout, torch.is_grad_enabled(), is_bidirectional, is_batch_first


def _lay_out_for_cudnn(kind: str, x: torch.Tensor, weights: tuple[torch.Tensor, ...]) -> None:
    """Put a layer's weights into one piece of memory, as torch's own layers have them for cuDNN.

    Otherwise every call copies them. Weights that are there already, since an earlier call, stay.
    """
    has_memory = type(x) is torch.Tensor  # in a trace it is another class
    if not has_memory or not x.is_cuda or not cudnn.is_acceptable(x):
        return
    if len({weight.untyped_storage().data_ptr() for weight in weights}) > 1:
        with torch.no_grad():
            mode, width = cudnn.rnn.get_cudnn_mode(kind), weights[1].shape[1]
            projection, layers, is_batch_first, is_bidirectional = 0, 1, True, False
            _FLATTEN(
                list(weights),
                len(weights),
                x.shape[-1],
                mode,
                width,
                projection,
                layers,
                is_batch_first,
                is_bidirectional,
            )
