"""The bytes inside softmax, attention, which has one, and activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from .attention_kernels import count_spelled_out_bytes
from .inside_operation import Operation, count_copy, count_copy_on_cpu

__all__ = ["RULES"]


def _count_in_attention(attention: Operation) -> int:
    """Return the bytes of a mask of booleans as numbers, made before a kernel is chosen, and those without a kernel.

    It is ``convert_boolean_attn_mask`` in ``transformers/attention.cpp``.
    """
    mask, query = attention.get("attn_mask"), attention.get("query")
    is_boolean = mask is not None and mask.dtype is torch.bool
    converted = int(mask.numel() * query.element_size()) if is_boolean else 0  # an expanded one is made in full
    return converted + count_spelled_out_bytes(
        attention.device,
        (query, attention.get("key"), attention.get("value")),
        mask,
        attention.get("dropout_p", 0.0),
        is_causal=attention.get("is_causal", False),
        is_grouped=attention.get("enable_gqa", False),
    )


def _count_in_attention_gradient(gradient: Operation) -> int:
    """Return the bytes of the products of the output and its gradient (``transformers/cuda/attention_backward.cu``)."""
    dy: torch.Tensor = gradient.arguments["dy"]
    return dy.nbytes if dy.dtype is torch.float32 else 0


def _count_copy_of_attention_gradient(gradient: Operation) -> int:
    """Return the bytes of a copy of the output's gradient, unless the heads of each row are side by side.

    It is ``flash_attention_backward_kernel_impl`` in ``cpu/FlashAttentionKernel.cpp``.
    """
    dy: torch.Tensor = gradient.arguments["dy"]
    return 0 if dy.transpose(1, 2).is_contiguous() else dy.nbytes


def _count_in_softmax(softmax: Operation) -> int:
    """Return the bytes of the input in the dtype of the output, or of its copy without gaps (``SoftMax.cpp``)."""
    x, dtype = softmax.x, softmax.get("dtype")
    if dtype in (None, x.dtype):
        return count_copy(softmax.x)
    is_in_kernel = softmax.is_on("cuda") and (x.dtype, dtype) == (torch.float16, torch.float32)
    return 0 if is_in_kernel else x.numel() * dtype.itemsize


def _count_in_safe_softmax(softmax: Operation) -> int:
    """Return the bytes of a softmax, or then of whether each score is minus infinity, all of a row are, and that."""
    scores = softmax.x
    dim: int = softmax.arguments["dim"]
    if scores.is_nested:
        return 0
    truths = scores.numel() + scores.numel() // max(1, scores.shape[dim]) + scores.element_size()
    return max(_count_in_softmax(softmax), truths)


def _count_copy_of_input(operation: Operation) -> int:
    """Return the bytes of the copy of an input with gaps between its numbers."""
    return count_copy(operation.x)


def _count_in_softmax_gradient(softmax: Operation) -> int:
    """Return the bytes of the products of the output and its gradient (``cuda/SoftMax.cu``); the CPU copies this."""
    if softmax.is_on("cpu"):
        return count_copy(softmax.arguments["dy"])
    gradient, output = softmax.arguments["dy"], softmax.arguments["output"]
    itemsize = max(gradient.element_size(), output.element_size())
    return int(gradient.numel() * itemsize) if softmax.is_on("cuda") else 0


def _count_in_gelu_gradient(gradient: Operation) -> int:
    """Return the bytes of the output's gradient, and of the result, in the layout of the input, which oneDNN needs."""
    x, dy = gradient.x, gradient.arguments["dy"]
    is_onednn = torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled
    takes_it = x.dtype is torch.float32 and x.is_contiguous() and gradient.get("approximate", "none") == "none"
    if not (gradient.is_on("cpu") and is_onednn and takes_it):
        return 0
    return sum(x.nbytes for tensor in (dy, gradient.result) if not tensor.is_contiguous())


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_attention: "scaled_dot_product_attention.default",
    _count_in_attention_gradient: "_scaled_dot_product_efficient_attention_backward.default",
    _count_copy_of_attention_gradient: "_scaled_dot_product_flash_attention_for_cpu_backward.default",
    _count_in_softmax: "softmax.int log_softmax.int",
    _count_in_safe_softmax: "_safe_softmax.default",
    _count_copy_of_input: "_softmax.default _log_softmax.default",
    _count_in_softmax_gradient: "_softmax_backward_data.default",
    _count_in_gelu_gradient: "gelu_backward.default",
    partial(count_copy_on_cpu, count_copy, "x"): "log_sigmoid.default log_sigmoid_forward.default",
    partial(count_copy_on_cpu, count_copy, "dy"): "_log_softmax_backward_data.default",
}
