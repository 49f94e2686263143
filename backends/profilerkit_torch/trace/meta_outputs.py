"""Outputs of operators on meta tensors that need not run: torch's own kernels for them are slow, or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..compat import FakeTensor, schema_of
from .meta_layouts import attention_output
from .meta_recurrent import RECURRENT
from .meta_sizes import SIZES

__all__ = ["multiply_groups", "without_running"]

#: Element-wise operators of one tensor.
_ELEMENT_WISE = (
    *("relu", "relu6", "hardtanh", "leaky_relu", "elu"),
    *("sigmoid", "tanh", "exp", "silu", "gelu", "mish", "softplus", "hardsigmoid", "hardswish"),
)


def without_running(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes of meta tensors where its shape is known beforehand; None for any that must run."""
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not tensor.is_meta or not tensor.is_floating_point():
        return None
    schema = schema_of(func)
    if schema.name == "aten::_grouped_mm":
        return multiply_groups(func, args, kwargs)
    if schema.name == "aten::scaled_dot_product_attention":
        return attention_output(*args, **kwargs)
    name = f"{schema.name}.{schema.overload_name}"
    recurrent = RECURRENT.get(name)
    if recurrent is not None:
        return None if kwargs else recurrent(*args)
    sized = SIZES.get(name)
    if sized is not None:
        shape = sized(*args, **kwargs)
        return None if shape is None else torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    fits = _KEEPS_SHAPE.get(name)
    if fits is None or kwargs or not fits(args):
        return None
    if schema.is_mutable:
        return tensor
    if type(tensor) is torch.Tensor and tensor.is_contiguous():  # torch.empty_like is written in Python there, too
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return torch.empty_like(tensor)


def multiply_groups(func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
    """Return an output for a product of each group's rows with its own matrix, on shapes alone; else None.

    It is not run there: torch's meta kernel takes bfloat16 alone, its others take what the model has.
    """
    if schema_of(func).name != "aten::_grouped_mm" or not (args[0].is_meta or isinstance(args[0], FakeTensor)):
        return None
    return _make_grouped(*args, **kwargs)


def _make_grouped(
    a: torch.Tensor, b: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """Where both sides are matrices the groups lie along what is summed over, and each has a product of its own."""
    groups = offs.shape if a.dim() == b.dim() == 2 else a.shape[:-2] if b.dim() == 3 else ()
    return torch.empty(*groups, a.shape[-2], b.shape[-1], dtype=out_dtype or a.dtype, device=a.device)


def _same_as_first(args: Any) -> bool:
    """Two tensors of one shape, dtype and layout: nothing is broadcast and nothing promoted."""
    x, y = args[:2]
    return isinstance(y, torch.Tensor) and y.is_meta and _layout(x) == _layout(y)


def _layout(tensor: torch.Tensor) -> Any:
    return tensor.shape, tensor.stride(), tensor.dtype


def _normalises_channels(args: Any) -> bool:
    """A batch norm of a contiguous tensor with known statistics, whose weights have one element for each channel."""
    x, weights, training = args[0], args[1:5], args[5]
    whole = x.dim() > 1 and not training and x.is_contiguous()
    return whole and all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalises_last(args: Any) -> bool:
    """A layer norm over the last dimensions of a contiguous tensor, whose weights have their shape."""
    x, shape = args[0], torch.Size(args[1])
    fits = x.shape[x.dim() - len(shape) :] == shape and x.is_contiguous()
    return fits and all(weight is None or weight.shape == shape for weight in args[2:4])


#: Operators that keep their input's shape and dtype where a function accepts the arguments: torch's meta kernels
#: for them are written in Python and slow, and nothing about such arguments could fail.
_KEEPS_SHAPE: dict[str, Callable[[Any], bool]] = {
    **{f"aten::{name}{suffix}.": lambda args: True for name in _ELEMENT_WISE for suffix in ("", "_")},
    **{f"aten::{name}{suffix}.Tensor": _same_as_first for name in ("add", "sub", "mul") for suffix in ("", "_")},
    "aten::batch_norm.": _normalises_channels,
    "aten::layer_norm.": _normalises_last,
}
