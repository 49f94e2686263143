"""Outputs of operators on stand-ins without running them: torch's meta kernels for them are slow, or refuse.

Many of these kernels are written in Python. The first one in a process imports torch's compiler and SymPy, which takes
seconds, and each takes up to milliseconds. The kernel of recurrent layers decomposes each time step into a dozen
operators: for 32 steps through three layers it takes two hundred times as long as the run itself.

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
    """Return the output of an operator on stand-ins if its shape is known beforehand; None if it must run."""
    tensor = args[0] if args else None
    if isinstance(tensor, (list, tuple)) and tensor:  # tensors that are joined
        tensor = tensor[0]
    if not isinstance(tensor, torch.Tensor) or not stands_in(tensor) or not tensor.is_floating_point():
        return None
    make = _find_maker(func)
    return None if make is None else make(*args, **kwargs)


@cache
def _find_maker(func: Any) -> Callable[..., Any] | None:
    """Return a function that makes the output of an operator from its arguments; None if the operator must run."""
    schema = read_schema(func)
    name = f"{schema.name}.{schema.overload_name}"
    if name in _MAKERS:
        return _MAKERS[name]
    if name in SIZES:
        return partial(_make_of_size, SIZES[name])
    if name in _KEEPS_SHAPE:
        return partial(_make_like_first, _KEEPS_SHAPE[name])
    if is_element_wise(func):
        return partial(_compute_elements, schema.is_mutable)
    return None


def _make_of_size(find_size: Callable[..., Any], first: Any, *args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Return a tensor of the size that is found for the arguments, if one is."""
    size = find_size(first, *args, **kwargs)
    like = first if isinstance(first, torch.Tensor) else first[0]
    return None if size is None else torch.empty(size, dtype=like.dtype, device=like.device)


def _make_like_first(keeps_shape: Callable[..., bool], *args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Return a tensor like the first argument, if the output of the operator is like it."""
    return _make_alike(args[0]) if not kwargs and keeps_shape(*args) else None


def _compute_elements(is_in_place: bool, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Return a tensor like the first argument, or that itself where the operator writes to it."""
    if not _are_operands(x, *args, *kwargs.values()):
        return None
    return x if is_in_place else _make_alike(x)


# Outputs that need more than their size -------------------------------------------------------------------------------


def _make_loss(x: torch.Tensor, target: torch.Tensor, reduction: int = 1, *_: Any, **__: Any) -> torch.Tensor | None:
    """Return a loss of an input and a target of one dtype; None where it is not reduced, or torch must judge it.

    It is one number in the memory of as many as the input has: its kernel makes the loss of each element, and shrinks
    that tensor.
    """
    if reduction == 0 or x.shape != target.shape or x.dtype is not target.dtype or x.device != target.device:
        return None
    return _make_alike(x).resize_(())


def _make_weighted_loss(
    x: torch.Tensor, target: torch.Tensor, weight: Any = None, reduction: int = 1
) -> torch.Tensor | None:
    return _make_loss(x, target, reduction)


def _fold(columns: torch.Tensor, *options: Any) -> torch.Tensor:
    """Return the image of columns, which is in the memory of as many numbers as these have, shrunk."""
    return _make_alike(columns).resize_(_COL2IM(columns, *options).shape)


def _make_alike(tensor: torch.Tensor) -> torch.Tensor:
    """Return the result of ``torch.empty_like``, whose implementation for meta tensors is slow Python code."""
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


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    enable_gqa: bool = False,
    **scale: Any,
) -> torch.Tensor | None:
    """Return the output of ``scaled_dot_product_attention``; None where its own kernel must judge the arguments."""
    if not _fit_in_attention(query, key, value, is_grouped=enable_gqa):
        return None
    scores = (*query.shape[:-1], key.shape[-2])
    if attn_mask is not None and (is_causal or not can_expand(attn_mask.shape, scores)):
        return None
    if query.stride(-1) != 1:  # its kernels do not take that: attention is spelled out
        return torch.empty(query.shape, dtype=query.dtype, device=query.device)
    return _make_alike(query)


def _fit_in_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_grouped: bool) -> bool:
    """Return whether keys and values are alike, and have the samples, heads and width that the queries have.

    Grouped, several heads of the queries have the same keys and values.
    """
    if any(tensor.dim() != 4 or tensor.dtype is not query.dtype for tensor in (query, key, value)):
        return False
    (samples, heads, _, width), (key_samples, key_heads, _, key_width) = query.shape, key.shape
    has_heads = heads == key_heads or (is_grouped and key_heads > 0 and heads % key_heads == 0)
    are_alike = key.shape == value.shape and key.is_meta and value.is_meta
    return has_heads and are_alike and (samples, width) == (key_samples, key_width)


def _multiply_groups(
    a: torch.Tensor, b: torch.Tensor, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> torch.Tensor:
    """Return the output of one product for each group, or of a product with another matrix for each group of rows.

    The operator is not run: torch's meta kernel accepts only bfloat16, its other kernels accept other dtypes too.
    """
    groups: tuple[int, ...] = ()
    if a.dim() == b.dim() == 2:  # the groups lie along the summed dimension
        groups = offs.shape
    elif b.dim() == 3:
        groups = a.shape[:-2]
    return torch.empty(*groups, a.shape[-2], b.shape[-1], dtype=out_dtype or a.dtype, device=a.device)


_COL2IM = find_operator("aten.col2im.default")
#: Functions that make the output, by operator.
_MAKERS: dict[str, Callable[..., Any]] = {
    "aten::_grouped_mm.": _multiply_groups,
    "aten::scaled_dot_product_attention.": _attend,
    "aten::col2im.": _fold,
    **{f"aten::{name}.": _make_loss for name in ("mse_loss", "smooth_l1_loss", "soft_margin_loss")},
    "aten::binary_cross_entropy.": _make_weighted_loss,
    **RECURRENT,
}


# Outputs like the first tensor: for these operators no arguments can be wrong -----------------------------------------


_POINTWISE = find_tag("pointwise")
#: Element-wise operators without that tag, in each or in older releases.
_UNTAGGED = frozenset(("hardswish", "leaky_relu", "_prelu_kernel"))
#: Operators whose result has another dtype or layout than their first operand, or that take no floats there.
_OF_ANOTHER_DTYPE = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
        *("float_power", "polar", "complex", "where", "mvlgamma"),
    )
)
#: Types of operands that are no tensors, and do not change a dtype of floats.
_NUMBERS = (int, float, bool, str, type(None))


def is_element_wise(func: Any) -> bool:
    """Return whether an operator of torch's makes of an element of each operand one of the same dtype."""
    schema = read_schema(func)
    name = str(schema.name).partition("::")[2].removesuffix("_")
    returns = [str(returned.type) for returned in schema.returns]
    is_tagged = (_POINTWISE in func.tags or name in _UNTAGGED) and not name.startswith("__")  # which shift integers
    has_new_output = returns == ["Tensor"] and not any(argument.is_out for argument in schema.arguments)
    return func.namespace == "aten" and is_tagged and has_new_output and name not in _OF_ANOTHER_DTYPE


def _are_operands(x: torch.Tensor, *others: Any) -> bool:
    """Return whether the others are numbers, or tensors that are laid out like the first, or broadcast to it."""
    return all(
        type(value) in _NUMBERS or (isinstance(value, torch.Tensor) and _is_operand(value, x)) for value in others
    )


def _is_operand(tensor: torch.Tensor, x: torch.Tensor) -> bool:
    if tensor.dtype not in (x.dtype, torch.bool) or tensor.device != x.device:
        return False
    if tensor.shape == x.shape and tensor.stride() == x.stride():
        return True
    return x.is_contiguous() and can_expand(tensor.shape, x.shape)


def _has_dimension(x: torch.Tensor, dim: int, *dtype: Any) -> bool:
    """Return whether a softmax, to no other dtype, is over a dimension of a contiguous tensor."""
    return not dtype and -x.dim() <= dim < x.dim() and x.is_contiguous()


def _normalizes_channels(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *_: Any) -> bool:
    """Return whether a batch norm is of a contiguous tensor, with statistics, and an element for each channel."""
    return not training and x.is_contiguous() and _have_channels(x, weight, bias, mean, var)


def _normalizes_groups(x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, *_: Any) -> bool:
    """Return whether a group norm is of a contiguous tensor, and weights have an element for each channel."""
    is_divided = 0 not in x.shape and groups > 0 and x.is_contiguous()
    return is_divided and _have_channels(x, weight, bias) and x.shape[1] % groups == 0


def _have_channels(x: torch.Tensor, *weights: torch.Tensor | None) -> bool:
    """Return whether there are channels, and weights have an element for each."""
    return x.dim() > 1 and all(weight is None or weight.shape == x.shape[1:2] for weight in weights)


def _normalizes_last(x: torch.Tensor, shape: Any, weight: Any = None, bias: Any = None, *_: Any) -> bool:
    """Return whether a layer norm is over the last dimensions of a contiguous tensor, and weights have their shape."""
    last = x.shape[x.dim() - len(shape) :]
    has_shape = all(weight is None or weight.shape == last for weight in (weight, bias))
    return has_shape and tuple(shape) == last and x.is_contiguous()


def _normalizes_by_squares(x: torch.Tensor, shape: Any, weight: Any = None, *_: Any) -> bool:
    """Return whether an RMS norm is over the last dimensions of a contiguous tensor, and its weight is like them."""
    return _normalizes_last(x, shape, weight) and (weight is None or weight.dtype is x.dtype)


_KEEPS_SHAPE: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("aten::softmax.int", "aten::log_softmax.int"), _has_dimension),
    "aten::batch_norm.": _normalizes_channels,
    "aten::group_norm.": _normalizes_groups,
    "aten::layer_norm.": _normalizes_last,
    "aten::rms_norm.": _normalizes_by_squares,
}
