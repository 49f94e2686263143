"""Results that kernels do not return, where torch's kernels for meta tensors do: memory that no run has.

A gradient of a norm that nobody asked for. On the CPU the statistics of a frozen batch norm, and the bag of each row
where an embedding only sums rows up (``aten/src/ATen/native/EmbeddingBag.cpp``).
"""

from __future__ import annotations

from typing import Any

import torch

from ..compat.operators import find_operator

__all__ = ["leave_out"]

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
    """Return what an operator made without values, as its kernel on a device returns it."""
    if func in _MASKS:
        mask = args[_MASKS[func]]
        return tuple(tensor if is_asked else None for tensor, is_asked in zip(result, mask, strict=True))
    if device is None or device.type != "cpu":
        return result
    if func is _BATCH_NORM and not args[5]:
        output, *statistics = result
        return (output, *(tensor.new_empty(0) for tensor in statistics))
    return _leave_out_of_bags(result, *args) if func in _BAGS else result


def _leave_out_of_bags(
    result: Any,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_by_frequency: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    row_weights: Any = None,
    includes_last: bool = False,
    padding_index: int = -1,
) -> Any:
    """Return the sums of bags, the bag of each row, the sizes of bags, and the places of the largest elements."""
    output, bags, sizes, places = result
    is_plain_sum = mode == _SUM and padding_index < 0 and weight.dtype in _SUMMED
    if is_plain_sum and output.stride(1) == weight.stride(1) == 1:
        bags = bags.new_empty(0)
    return output, bags, sizes, places if mode == _MAX else bags.new_empty(output.shape[0])
