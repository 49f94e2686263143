"""Corrections of torch's meta kernels: real kernels return another layout, or fewer tensors, or refuse two dtypes.

Convolutions, norms and paddings keep channels last. The path of a model that asks ``x.is_contiguous()`` depends on it.

A gradient of a norm that is not needed is not returned. On the CPU, neither are the statistics of a frozen batch norm,
nor the bag of each row if an embedding only sums rows (``aten/src/ATen/native/EmbeddingBag.cpp``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..compat.operators import find_operator, read_schema
from .operator_facts import OperatorCall

__all__ = ["find_channels_last", "lay_out_as_kernels", "leave_out", "require_one_dtype"]

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def lay_out_as_kernels(func: Any, args: Any, result: Any) -> Any:
    """Return the output of an operator on stand-ins in the layout of its real kernels."""
    find_layout = _LAYOUTS.get(read_schema(func).name)
    if find_layout is None or not args or not isinstance(args[0], torch.Tensor):
        return result
    layout = find_layout(args)
    if isinstance(result, torch.Tensor):
        return _lay_out(result, layout)
    first, *others = result
    laid_out = _lay_out(first, layout)
    return result if laid_out is first else type(result)((laid_out, *others))


def _lay_out(tensor: torch.Tensor, layout: torch.memory_format | None) -> torch.Tensor:
    """Return a tensor without values in a layout; as it is where it has that, or where there is none."""
    if layout is None or tensor.is_contiguous(memory_format=layout):
        return tensor
    return torch.empty_like(tensor, memory_format=layout)


# The layout of an operator's (first) output by its arguments; None where torch's meta kernel is right ----------------


def _keep_layout(args: Any) -> torch.memory_format | None:
    """Return the output layout of a kernel that writes contiguous or channels-last, like its first tensor."""
    tensor = args[0]
    return None if tensor.is_contiguous() else find_channels_last(tensor) or torch.contiguous_format


def _lay_out_convolution(args: Any) -> torch.memory_format | None:
    """Return channels last where the images or the weights are."""
    tensor, weight = args[:2]
    if tensor.dim() != weight.dim() or (tensor.is_contiguous() and weight.is_contiguous()):
        return None
    return find_channels_last(tensor) or find_channels_last(weight)


def find_channels_last(tensor: torch.Tensor) -> torch.memory_format | None:
    """Return the layout with channels last if a tensor has it, as torch's kernels tell."""
    layout = _FORMATS.get(tensor.dim())
    return layout if layout is not None and _is_channels_last(tensor.shape, tensor.stride()) else None


def _is_channels_last(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether strides grow from the channels over the last dimension to the first, as torch decides it.

    That is ``is_channels_last_strides_2d`` in ``c10/core/MemoryFormat.h``.
    """
    if strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dim] == 0 or strides[dim] < least:
            return False
        if dim == 0 and least == strides[1]:  # of (samples, 1, 1, 1) both layouts are alike: torch takes the other
            return False
        least = strides[dim] * sizes[dim]
    return True


_CONVOLUTIONS = (
    *("conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d"),
    *("convolution", "_convolution"),
)
_KEEPERS = (
    *("group_norm", "native_group_norm", "batch_norm", "native_batch_norm"),
    *("reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d"),
    *("channel_shuffle", "native_channel_shuffle", "pixel_shuffle"),
)
_LAYOUTS: dict[str, Callable[[Any], torch.memory_format | None]] = {
    **{f"aten::{name}": _lay_out_convolution for name in _CONVOLUTIONS},
    **{f"aten::{name}": _keep_layout for name in _KEEPERS},
    **dict.fromkeys(("aten::roll", "aten::pad"), lambda args: find_channels_last(args[0])),
    "aten::max_pool1d": lambda args: torch.contiguous_format,
}


# Operands that a kernel refuses ---------------------------------------------------------------------------------------


_PRODUCTS = frozenset(
    find_operator(f"aten.{name}")
    for name in (
        *("linear.default", "mm.default", "mv.default", "addmm.default", "convolution.default", "_convolution.default"),
        *(f"conv{dimensions}d.{form}" for dimensions in (1, 2, 3) for form in ("default", "padding")),
        *("conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"),
    )
)


def require_one_dtype(call: OperatorCall) -> None:
    """Raise `RuntimeError` for a product of tensors of several dtypes, as the kernels of all devices do."""
    if call.func not in _PRODUCTS:
        return
    dtypes = sorted({str(tensor.dtype) for tensor in call.tensors})
    if len(dtypes) > 1:
        raise RuntimeError(f"{call.func}: its tensors must have the same dtype, but got {' and '.join(dtypes)}")


# Outputs that a kernel does not return --------------------------------------------------------------------------------


#: The place of the mask that says which gradients are asked for, by the operator.
_MASKS = {
    find_operator("aten.native_batch_norm_backward.default"): 9,
    find_operator("aten.native_group_norm_backward.default"): 9,
    find_operator("aten.native_layer_norm_backward.default"): 7,
    find_operator("aten._fused_rms_norm_backward.default"): 5,
}
_BATCH_NORM = find_operator("aten.native_batch_norm.default")
_BAGS = (find_operator("aten._embedding_bag.default"), find_operator("aten._embedding_bag_forward_only.default"))
#: Dtypes of which a kernel of its own sums up the rows.
_SUMMED = (torch.float32, torch.float16, torch.bfloat16)
#: How the rows of a bag become one.
_SUM, _MAX = 0, 2


def leave_out(func: Any, args: Any, result: Any, device: torch.device | None) -> Any:
    """Return the outputs of an operator on stand-ins without those that its kernel on a device does not return."""
    if func in _MASKS:
        mask = args[_MASKS[func]]
        return tuple(tensor if is_asked else None for tensor, is_asked in zip(result, mask, strict=True))
    if device is None or device.type != "cpu":
        return result
    if func is _BATCH_NORM and not args[5]:
        output, *statistics = result
        return (output, *(tensor.new_empty(0) for tensor in statistics))
    return _leave_out_of_bags(result, *args) if func in _BAGS else result


def _leave_out_of_bags(result: Any, weight: torch.Tensor, *rest: Any) -> Any:
    """Return the sums of bags, the bag of each row, the sizes of bags, and the places of the largest elements.

    The rest are indices, offsets, whether to scale, the mode, whether gradients are sparse, weights of rows, whether
    the offsets have the last, and the index of padding.
    """
    output, bags, sizes, places = result
    mode, padding_index = rest[3] if len(rest) > 3 else _SUM, rest[7] if len(rest) > 7 else -1
    is_plain_sum = mode == _SUM and padding_index < 0 and weight.dtype in _SUMMED
    if is_plain_sum and output.stride(1) == weight.stride(1) == 1:
        bags = bags.new_empty(0)
    return output, bags, sizes, places if mode == _MAX else bags.new_empty(output.shape[0])
