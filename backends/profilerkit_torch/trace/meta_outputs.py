"""Outputs of operators on stand-ins that need not run: torch's kernels for them are slow, or refuse.

Many are written in Python. The first that runs in a process imports torch's compiler and SymPy for it, which takes
seconds, and each takes up to milliseconds; the kernel of recurrent layers takes each step apart into a dozen of them:
on a sequence of 32 steps through three layers that is two hundred times the run itself.

Each function here returns None for arguments that differ from its description: those go to torch's kernel, which may
refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from profilerkit.costs import recurrent

from ..compat.operators import read_schema
from ..compat.tensors import FakeTensor, stands_in
from ..model.tensors import PLAIN_TYPES

__all__ = ["RECURRENT", "SIZES", "without_running"]


def without_running(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator makes of stand-ins where its shape is known beforehand; None for any that must run."""
    tensor = args[0] if args else None
    if isinstance(tensor, (list, tuple)) and tensor:  # tensors that are joined
        tensor = tensor[0]
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
    if attn_mask is not None and (is_causal or not _can_expand(attn_mask.shape, (batch, heads, queries, keys))):
        return None
    if query.stride(-1) != 1:  # its kernels do not take that: attention is spelled out
        return torch.empty(query.shape, dtype=query.dtype, device=query.device)
    return _make_alike(query)


def _can_expand(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether a tensor of a shape can be expanded to another shape."""
    missing = len(target) - len(shape)
    return missing >= 0 and all(size in (1, goal) for size, goal in zip(shape, target[missing:], strict=True))


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


def _keeps_first(args: Any) -> bool:
    """Return whether the result is like the first operand: the second is a number, is alike, or is broadcast to it."""
    x, y = args[:2]
    if not isinstance(y, torch.Tensor):
        return type(y) in (int, float) and x.is_contiguous()
    if x.shape == y.shape and x.stride() == y.stride() and x.dtype == y.dtype and x.device == y.device:
        return True
    return _are_plain(x, y) and x.is_contiguous() and y.dim() > 0 and _can_expand(y.shape, x.shape)


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


_ELEMENT_WISE = (
    *("relu", "relu6", "hardtanh", "leaky_relu", "elu", "silu", "gelu", "mish", "softplus", "hardsigmoid", "hardswish"),
    *("sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "reciprocal", "neg", "abs", "sin", "cos", "erf"),
)
_KEEPS_SHAPE: dict[str, Callable[[Any], bool]] = {
    **{f"aten::{name}{suffix}.": lambda args: True for name in _ELEMENT_WISE for suffix in ("", "_")},
    **{f"aten::{name}{suffix}.Tensor": _keeps_first for name in ("add", "sub", "mul", "div") for suffix in ("", "_")},
    "aten::pow.Tensor_Scalar": _keeps_first,
    **dict.fromkeys(("aten::softmax.int", "aten::log_softmax.int"), _has_dimension),
    "aten::batch_norm.": _normalizes_channels,
    "aten::group_norm.": _normalizes_groups,
    "aten::layer_norm.": _normalizes_last,
}


# Sizes of what products, convolutions, reductions and others make of meta tensors -------------------------------------


def _are_plain(first: torch.Tensor, *others: Any) -> bool:
    """Return whether all are plain tensors on the meta device and of one dtype; None is left out."""
    return all(
        type(tensor) in PLAIN_TYPES and tensor.is_meta and tensor.dtype is first.dtype
        for tensor in (first, *others)
        if tensor is not None
    )


def _are_alike(*tensors: Any) -> bool:
    """Return whether all are contiguous, too."""
    return _are_plain(*tensors) and all(tensor.is_contiguous() for tensor in tensors if tensor is not None)


def _size_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Sequence[int] | None:
    """Return the size of rows of ``x`` times the transposed weight."""
    if not _are_plain(x, weight, bias) or x.dim() < 2 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        return None
    features = weight.shape[0]
    if bias is not None and bias.shape != (features,):
        return None
    return (*x.shape[:-1], features)


def _size_addmm(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, **scales: Any) -> Sequence[int] | None:
    """Return the size of a product of two matrices and a row that is added to each of its rows."""
    if scales or not _are_alike(bias, x, weight) or x.dim() != 2 or weight.dim() != 2:
        return None
    if x.shape[1] != weight.shape[0] or bias.shape != weight.shape[1:]:
        return None
    return x.shape[0], weight.shape[1]


def _size_product(a: torch.Tensor, b: torch.Tensor) -> Sequence[int] | None:
    """Return the size of a product of two matrices, or of each two of a batch."""
    if not _are_plain(a, b) or a.dim() != b.dim() or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return None
    return (*a.shape[:-1], b.shape[-1])


def _size_joined(tensors: Sequence[torch.Tensor], dim: int = 0) -> Sequence[int] | None:
    """Return the size of tensors that are joined along a dimension, in which alone they differ."""
    first = tensors[0]
    has_layout = first.dim() > 3 and not _are_alike(*tensors)  # of images the output may have that of the inputs
    if has_layout or not _are_plain(*tensors) or not -first.dim() <= dim < first.dim():
        return None
    dim %= first.dim()
    others = {(*tensor.shape[:dim], -1, *tensor.shape[dim + 1 :]) for tensor in tensors}
    return (
        None if len(others) > 1 else (*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1 :])
    )


def _size_embedding(weight: torch.Tensor, indices: torch.Tensor, *_: Any) -> Sequence[int] | None:
    """Return the size of a row of the weight for each index."""
    is_index = indices.is_meta and indices.dtype in (torch.int64, torch.int32)
    return (*indices.shape, weight.shape[1]) if is_index and _are_plain(weight) and weight.dim() == 2 else None


def _size_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Sequence[int] | None:
    """Return the size of a convolution of a batch: (samples, channels, windows along each dimension of an image)."""
    dims = x.dim() - 2
    if not _are_alike(x, weight, bias) or weight.dim() != x.dim() or dims < 1 or 0 in (*x.shape, *weight.shape):
        return None
    samples, in_channels = x.shape[:2]
    channels, in_channels_of_group = weight.shape[:2]
    if groups < 1 or in_channels != in_channels_of_group * groups or channels % groups:
        return None
    if bias is not None and bias.shape != (channels,):
        return None
    strides, paddings, dilations = (_repeat(argument, dims) for argument in (stride, padding, dilation))
    if not len(strides) == len(paddings) == len(dilations) == dims:
        return None
    if min((*strides, *dilations)) < 1 or min(paddings) < 0:
        return None
    windows = list(map(_count_windows, x.shape[2:], weight.shape[2:], strides, paddings, dilations))
    return (samples, channels, *windows) if min(windows) > 0 else None


def _repeat(argument: Sequence[int], dims: int) -> Sequence[int]:
    """Return an argument for each dimension: a single number is that of all."""
    return tuple(argument) * dims if len(argument) == 1 else argument


def _count_windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many windows a kernel has along a dimension of an image."""
    window = dilation * (kernel - 1) + 1
    return (size + 2 * padding - window) // stride + 1


def _size_max_pooling(
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    is_ceiled: bool = False,
) -> Sequence[int] | None:
    """Return the size of the largest elements of all windows of a batch of images."""
    if is_ceiled or x.dim() != 4 or 0 in x.shape or not _are_alike(x):
        return None
    kernels, strides, paddings, dilations = (
        _repeat(value, 2) for value in (kernel, stride or kernel, padding, dilation)
    )
    if min((*kernels, *strides, *dilations)) < 1 or any(
        2 * pad > size for pad, size in zip(paddings, kernels, strict=True)
    ):
        return None
    windows = list(map(_count_windows, x.shape[2:], kernels, strides, paddings, dilations))
    return (*x.shape[:2], *windows) if min(windows) > 0 else None


def _size_reduced(x: torch.Tensor, dims: Any, keepdim: bool = False, **options: Any) -> Sequence[int] | None:
    """Return the size of means or sums over some dimensions."""
    if options or not dims or not _are_alike(x) or not all(-x.dim() <= dim < x.dim() for dim in dims):
        return None
    reduced = {dim % x.dim() for dim in dims}
    if len(reduced) < len(dims):  # torch refuses a dimension that is given twice
        return None
    if keepdim:
        return [1 if dim in reduced else size for dim, size in enumerate(x.shape)]
    return [size for dim, size in enumerate(x.shape) if dim not in reduced]


def _size_adaptive_pooling(x: torch.Tensor, size: Sequence[int]) -> Sequence[int] | None:
    """Return the size of means over as many windows of an image as there are output elements."""
    if not _are_alike(x) or x.dim() not in (3, 4) or 0 in x.shape or len(size) != 2 or min(size) < 1:
        return None
    return (*x.shape[:-2], *size)


#: By operator: the size of its output, called with its arguments.
SIZES: dict[str, Callable[..., Sequence[int] | None]] = {
    "aten::linear.": _size_linear,
    "aten::addmm.": _size_addmm,
    **dict.fromkeys(("aten::mm.", "aten::bmm."), _size_product),
    "aten::cat.": _size_joined,
    "aten::embedding.": _size_embedding,
    **dict.fromkeys(("aten::mean.dim", "aten::sum.dim_IntList"), _size_reduced),
    "aten::max_pool2d.": _size_max_pooling,
    "aten::adaptive_avg_pool2d.": _size_adaptive_pooling,
    **{f"aten::conv{dims}d.": _size_convolution for dims in (1, 2, 3)},
}


# What recurrent layers make: one operator for all layers, directions and steps ----------------------------------------


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
    if kind == "lstm" and len(states) != 2:
        return None
    if x.dim() != 3 or 0 in x.shape or num_layers < 1 or any(state.dim() != 3 for state in states):
        return None
    first, second, features = x.shape
    samples, steps = (first, second) if batch_first else (second, first)
    directions = 2 if bidirectional else 1
    if any(state.shape[:2] != (num_layers * directions, samples) for state in states):
        return None
    out, hidden = states[0].shape[2], states[-1].shape[2]
    shapes: list[tuple[int, ...]] = []
    for _ in range(num_layers):
        shapes += _list_weight_shapes(recurrent.GATES[kind], features, hidden, out, has_biases) * directions
        features = out * directions  # the next layer takes what this one makes
    if not _have_one_dtype((x, *states, *weights)) or [weight.shape for weight in weights] != shapes:
        return None
    output = torch.empty((steps, samples, out * directions), dtype=x.dtype, device=x.device)
    last_states = (torch.empty(tuple(state.shape), dtype=x.dtype, device=x.device) for state in states)
    # Samples first is a view: torch computes with the steps first, and turns round what it has made.
    return (output.transpose(0, 1) if batch_first else output, *last_states)


def _list_weight_shapes(gates: int, features: int, hidden: int, out: int, has_biases: bool) -> list[tuple[int, ...]]:
    """Return the shapes of the weights of one layer in one direction, in the order in which torch takes them.

    ``out`` is the size of what a step hands on: ``hidden``, or the size of its projection.
    """
    rows = gates * hidden
    shapes: list[tuple[int, ...]] = [(rows, features), (rows, out)]
    if has_biases:
        shapes += [(rows,), (rows,)]
    if out != hidden:
        shapes.append((out, hidden))
    return shapes


def _have_one_dtype(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether all are plain or fake tensors on one device and of one dtype."""
    first = tensors[0]
    return all(
        type(tensor) in _PLAIN_OR_FAKE and tensor.device == first.device and tensor.dtype is first.dtype
        for tensor in tensors
    )


_PLAIN_OR_FAKE = (*PLAIN_TYPES, FakeTensor)
#: By operator: what it makes, called with its arguments; None for those that torch's own kernel must judge.
RECURRENT: dict[str, Callable[..., tuple[torch.Tensor, ...] | None]] = {
    f"aten::{kind}.input": partial(_make_outputs, kind) for kind in recurrent.GATES
}
