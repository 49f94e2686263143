"""Outputs of operators on stand-ins that need not run: torch's kernels for them are slow, or refuse.

Many are written in Python. The first that runs in a process imports torch's compiler and SymPy for it, which takes
seconds, and each takes up to milliseconds; the kernel of recurrent layers takes each step apart into a dozen of them:
on a sequence of 32 steps through three layers that is two hundred times the run itself.

Each function here returns None for arguments that differ from its description: those go to torch's kernel, which may
refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from ..compat.operators import find_operator, find_tag, read_schema
from ..compat.tensors import stands_in
from .output_sizes import SIZES, can_expand
from .recurrent_outputs import RECURRENT

__all__ = ["is_element_wise", "without_running"]


def without_running(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes of stand-ins where its shape is known beforehand; None for any that must run."""
    tensor = args[0] if args else None
    if isinstance(tensor, (list, tuple)) and tensor:  # tensors that are joined
        tensor = tensor[0]
    if not isinstance(tensor, torch.Tensor) or not stands_in(tensor) or not tensor.is_floating_point():
        return None
    schema = read_schema(func)
    name = f"{schema.name}.{schema.overload_name}"
    if name in _MAKERS:
        return _MAKERS[name](*args, **kwargs)
    if name in SIZES:
        shape = SIZES[name](*args, **kwargs)
        return None if shape is None else torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    if name in _KEEPS_SHAPE:
        is_like_first = not kwargs and _KEEPS_SHAPE[name](args)
    else:
        is_like_first = is_element_wise(func) and _are_operands(*args, *kwargs.values())
    if not is_like_first:
        return None
    return tensor if schema.is_mutable else _make_alike(tensor)


# What is made otherwise than by its size alone ------------------------------------------------------------------------


def _make_loss(
    position: int, x: torch.Tensor, target: torch.Tensor, *others: Any, **options: Any
) -> torch.Tensor | None:
    """Return a loss of an input and a target of one dtype; None where it is not reduced, or torch must judge it.

    It is one number in the memory of as many as the input has: its kernel makes the loss of each element, and shrinks
    that tensor. ``position`` is where it is told how to reduce these.
    """
    reduction = options["reduction"] if "reduction" in options else (x, target, *others, *[1] * position)[position]
    if reduction == 0 or x.shape != target.shape or x.dtype is not target.dtype or x.device != target.device:
        return None
    return _make_alike(x).resize_(())


def _fold(columns: torch.Tensor, *options: Any) -> torch.Tensor:
    """Return the image of columns, which is in the memory of as many numbers as these have, shrunk."""
    return _make_alike(columns).resize_(_COL2IM(columns, *options).shape)


def _make_alike(tensor: torch.Tensor) -> torch.Tensor:
    """Return what ``torch.empty_like`` does, which is written in Python for such tensors, too."""
    if type(tensor) is not torch.Tensor or 0 in tensor.stride():
        return torch.empty_like(tensor)
    strides = tensor.stride() if tensor.is_contiguous() else _order_strides(tensor)
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)


def _order_strides(tensor: torch.Tensor) -> Sequence[int]:
    """Return the strides of a tensor without gaps whose dimensions lie in memory in the same order."""
    strides, next_stride = [1] * tensor.dim(), 1
    for _, size, dim in sorted(zip(tensor.stride(), tensor.shape, range(tensor.dim()), strict=True)):
        strides[dim] = next_stride
        next_stride *= size
    return strides


def make_attention_output(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """Return the output of ``scaled_dot_product_attention``; None where its own kernel must judge the arguments."""
    if any(tensor.dim() != 4 for tensor in (query, key, value)) or not (key.is_meta and value.is_meta):
        return None
    batch, heads, queries, width = query.shape
    key_batch, key_heads, keys, key_width = key.shape
    has_fitting_heads = heads == key_heads or (enable_gqa and heads % key_heads == 0)
    if (batch, width) != (key_batch, key_width) or key.shape != value.shape or not has_fitting_heads:
        return None
    if not query.dtype == key.dtype == value.dtype:
        return None
    if attn_mask is not None and (is_causal or not can_expand(attn_mask.shape, (batch, heads, queries, keys))):
        return None
    if query.stride(-1) != 1:  # its kernels do not take that: attention is spelled out
        return torch.empty(query.shape, dtype=query.dtype, device=query.device)
    return _make_alike(query)


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


_COL2IM = find_operator("aten.col2im.default")
#: By operator: what it makes, called with its arguments.
_MAKERS: dict[str, Callable[..., Any]] = {
    "aten::_grouped_mm.": _multiply_groups,
    "aten::scaled_dot_product_attention.": make_attention_output,
    "aten::col2im.": _fold,
    **{f"aten::{name}.": partial(_make_loss, 2) for name in ("mse_loss", "smooth_l1_loss", "soft_margin_loss")},
    "aten::binary_cross_entropy.": partial(_make_loss, 3),
    **RECURRENT,
}


# What is like the first tensor: nothing about such arguments could fail ----------------------------------------------


_POINTWISE = find_tag("pointwise")
#: Element-wise operators without that tag, in each or in older releases.
_UNTAGGED = frozenset(("hardswish", "leaky_relu", "_prelu_kernel"))
#: Those whose result has another dtype or layout than their first operand, or that take no floats there.
_OF_ANOTHER_DTYPE = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
        *("float_power", "polar", "complex", "where", "mvlgamma"),
    )
)
#: Types of operands that are no tensors, and do not change a dtype of floats.
_NUMBERS = (int, float, bool, str, type(None))


@cache
def is_element_wise(func: Any) -> bool:
    """Return whether an operator of torch's makes of an element of each operand one of the same dtype."""
    schema = read_schema(func)
    name = str(schema.name).partition("::")[2].removesuffix("_")
    returns = [str(returned.type) for returned in schema.returns]
    is_tagged = (_POINTWISE in func.tags or name in _UNTAGGED) and not name.startswith("__")  # which shift integers
    return func.namespace == "aten" and is_tagged and returns == ["Tensor"] and name not in _OF_ANOTHER_DTYPE


def _are_operands(x: torch.Tensor, *others: Any) -> bool:
    """Return whether the others are numbers, or tensors that are laid out like the first, or broadcast to it."""
    tensors = [value for value in others if isinstance(value, torch.Tensor)]
    if not all(isinstance(value, torch.Tensor) or type(value) in _NUMBERS for value in others):
        return False
    if any(tensor.dtype not in (x.dtype, torch.bool) or tensor.device != x.device for tensor in tensors):
        return False
    if all(tensor.shape == x.shape and tensor.stride() == x.stride() for tensor in tensors):
        return True
    return x.is_contiguous() and all(can_expand(tensor.shape, x.shape) for tensor in tensors)


def _has_dimension(args: Any) -> bool:
    """Return whether a softmax, to no other dtype, is over a dimension of a contiguous tensor."""
    x, *options = args
    return len(options) == 1 and -x.dim() <= options[0] < x.dim() and x.is_contiguous()


def _normalizes_channels(args: Any) -> bool:
    """Return whether a batch norm is of a contiguous tensor, with statistics, and an element for each channel."""
    x, *weights, is_training = args[:6]
    if x.dim() < 2 or is_training or not x.is_contiguous():
        return False
    return all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalizes_groups(args: Any) -> bool:
    """Return whether a group norm is of a contiguous tensor, and weights have an element for each channel."""
    x, groups, *weights = args[:4]
    if x.dim() < 2 or 0 in x.shape or groups < 1 or x.shape[1] % groups or not x.is_contiguous():
        return False
    return all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalizes_last(args: Any) -> bool:
    """Return whether a layer norm is over the last dimensions of a contiguous tensor, and weights have their shape."""
    x, shape, *weights = args[:4]
    shape = torch.Size(shape)
    if x.shape[x.dim() - len(shape) :] != shape or not x.is_contiguous():
        return False
    return all(weight is None or weight.shape == shape for weight in weights)


def _normalizes_by_squares(args: Any) -> bool:
    """Return whether an RMS norm is over the last dimensions of a contiguous tensor, and its weight is like them."""
    x, shape, *options = args
    weight = options[0] if options else None
    return _normalizes_last((x, shape, weight)) and (weight is None or weight.dtype is x.dtype)


_KEEPS_SHAPE: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("aten::softmax.int", "aten::log_softmax.int"), _has_dimension),
    "aten::batch_norm.": _normalizes_channels,
    "aten::group_norm.": _normalizes_groups,
    "aten::layer_norm.": _normalizes_last,
    "aten::rms_norm.": _normalizes_by_squares,
}
