"""Outputs of operators on tensors without values that need not run: torch's kernels for them are slow, or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..compat.operators import read_schema
from .asked_calls import stands_in
from .meta_layouts import make_attention_output
from .meta_recurrent import RECURRENT
from .meta_sizes import SIZES

__all__ = ["without_running"]


def without_running(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes of stand-ins where its shape is known beforehand; None for any that must run."""
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not stands_in(tensor) or not tensor.is_floating_point():
        return None
    schema = read_schema(func)
    if schema.name == "aten::_grouped_mm":
        return _multiply_groups(*args, **kwargs)
    if schema.name == "aten::scaled_dot_product_attention":
        return make_attention_output(*args, **kwargs)
    name = f"{schema.name}.{schema.overload_name}"
    if name in RECURRENT:
        return None if kwargs else RECURRENT[name](*args)
    if name in _LOSSES:
        return _make_loss(_LOSSES[name], *args, **kwargs)
    if name == "aten::col2im.":  # its output is the memory of as many numbers as the columns have, shrunk
        return _make_alike(tensor).resize_(func(*args, **kwargs).shape)
    if name in SIZES:
        shape = SIZES[name](*args, **kwargs)
        return None if shape is None else torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    if name in _KEEPS_SHAPE and not kwargs and _KEEPS_SHAPE[name](args):
        return tensor if schema.is_mutable else _make_alike(tensor)
    return None


#: Losses that are one number in the memory of as many as the input has, by where they are told how to reduce these:
#: their kernels make the loss of each element, and shrink that tensor.
_LOSSES = {
    "aten::mse_loss.": 2,
    "aten::smooth_l1_loss.": 2,
    "aten::soft_margin_loss.": 2,
    "aten::binary_cross_entropy.": 3,
}


def _make_loss(
    position: int, x: torch.Tensor, target: torch.Tensor, *others: Any, **options: Any
) -> torch.Tensor | None:
    """Return a loss of an input and a target of one dtype; None where it is not reduced, or torch must judge it."""
    reduction = options["reduction"] if "reduction" in options else (x, target, *others, *[1] * position)[position]
    if reduction == 0 or x.shape != target.shape or x.dtype is not target.dtype or x.device != target.device:
        return None
    return _make_alike(x).resize_(())


def _make_alike(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) is torch.Tensor and tensor.is_contiguous():  # torch.empty_like is written in Python there, too
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return torch.empty_like(tensor)


def _multiply_groups(
    a: torch.Tensor, b: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """Return the output of a product for each group, or of one with a matrix for each group of its rows.

    It is not run: torch's kernel for stand-ins takes bfloat16 alone, its others take what the model has.
    """
    groups: tuple[int, ...] = ()
    if a.dim() == b.dim() == 2:  # the groups lie along what is summed over
        groups = offs.shape
    elif b.dim() == 3:
        groups = a.shape[:-2]
    return torch.empty(*groups, a.shape[-2], b.shape[-1], dtype=out_dtype or a.dtype, device=a.device)


# Operators that keep their input's shape and dtype where a function accepts the arguments: torch's meta kernels for
# them are written in Python and slow, and nothing about such arguments could fail.


def _has_two_alike(args: Any) -> bool:
    """Return whether two tensors have one shape, dtype and layout: nothing is broadcast and nothing promoted."""
    x, y = args[:2]
    if not isinstance(y, torch.Tensor) or x.device != y.device:
        return False
    return bool(x.shape == y.shape and x.stride() == y.stride() and x.dtype == y.dtype)


def _normalizes_channels(args: Any) -> bool:
    """Return whether a batch norm is of a contiguous tensor, with statistics, and an element for each channel."""
    x, *weights, is_training = args[:6]
    if x.dim() < 2 or is_training or not x.is_contiguous():
        return False
    return all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalizes_last(args: Any) -> bool:
    """Return whether a layer norm is over the last dimensions of a contiguous tensor, and weights have their shape."""
    x, shape, *weights = args[:4]
    shape = torch.Size(shape)
    if x.shape[x.dim() - len(shape) :] != shape or not x.is_contiguous():
        return False
    return all(weight is None or weight.shape == shape for weight in weights)


_ELEMENT_WISE = (
    *("relu", "relu6", "hardtanh", "leaky_relu", "elu"),
    *("sigmoid", "tanh", "exp", "silu", "gelu", "mish", "softplus", "hardsigmoid", "hardswish"),
)
_KEEPS_SHAPE: dict[str, Callable[[Any], bool]] = {
    **{f"aten::{name}{suffix}.": lambda args: True for name in _ELEMENT_WISE for suffix in ("", "_")},
    **{f"aten::{name}{suffix}.Tensor": _has_two_alike for name in ("add", "sub", "mul") for suffix in ("", "_")},
    "aten::batch_norm.": _normalizes_channels,
    "aten::layer_norm.": _normalizes_last,
}
