"""The bytes inside convolutions (``Convolution.cpp``, ``ConvolutionMM2d.cpp``, ``NaiveDilatedConvolution.cpp``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from ..compat.operators import choose_convolution_kernel
from .inside_operation import Operation, count_copy_of_images
from .operator_facts import tensors_in

__all__ = ["RULES"]


def _count_in_convolution(convolution: Operation, is_transposed: bool = False) -> int:
    """Return the bytes of the copies of images whose numbers lie apart, and of the images that the CPU unfolds."""
    if convolution.x.is_mkldnn or convolution.x.is_complex():
        return 0
    gradient = convolution.get("dy")
    copied = count_copy_of_images(convolution.x) + (0 if gradient is None else count_copy_of_images(gradient))
    return copied + _count_without_library(convolution, is_transposed)


def _count_without_library(convolution: Operation, is_transposed: bool) -> int:
    """Return the bytes inside a convolution that the CPU runs as a product, because oneDNN has no kernel for it.

    Such are small single images, volumes, numbers in double precision: oneDNN's workspaces are in no trace. Complex
    numbers have real convolutions, which `find_unknown_inside` names.
    """
    if not convolution.is_on("cpu"):
        return 0
    x, weight = convolution.x, convolution.arguments["weight"]
    batch = x if x.dim() == weight.dim() else x[None]
    kernel = _find_kernel(convolution, batch, convolution.get("transposed", is_transposed))
    if not kernel.startswith("Slow"):
        return 0
    unfolded = _count_unfolded(convolution, kernel, batch)
    groups: int = convolution.get("groups", 1)
    if kernel == "Slow3d":
        return unfolded * groups
    if groups == 1:
        return unfolded
    # One group after the other makes its part of the results from its part of the images, and the parts are joined.
    read = [images for images in (batch, convolution.get("dy")) if images is not None and len(batch) > 1]
    results: int = sum(tensor.nbytes for tensor in tensors_in(convolution.result))
    return max(unfolded + sum(images.nbytes for images in read) // groups, results)


def _find_kernel(convolution: Operation, batch: torch.Tensor, is_transposed: bool) -> str:
    """Return the kernel of a convolution: "Slow3d"."""
    weight, groups = convolution.arguments["weight"], convolution.get("groups", 1)
    sizes = weight.shape[2:]
    stride, dilation = (_repeat(convolution.get(name, 1), sizes) for name in ("stride", "dilation"))
    padding = convolution.get("padding", 0)  # or "same" or "valid", where any that is wide enough does
    wide = [size * distance for size, distance in zip(sizes, dilation, strict=True)]
    paddings = wide if isinstance(padding, str) else _repeat(padding, sizes)
    return choose_convolution_kernel(batch, weight, stride, paddings, dilation, is_transposed, groups)


def _reads_in_place(convolution: Operation, kernel: str) -> bool:
    """Return whether images are read where they are: each output has one position of its input, and all of it."""
    sizes = convolution.arguments["weight"].shape[2:]
    padding = convolution.get("padding", 0)
    is_moved = not isinstance(padding, str) and any(_repeat(padding, sizes))
    if sizes.numel() != 1 or is_moved or set(_repeat(convolution.get("stride", 1), sizes)) != {1}:
        return False
    is_forward = convolution.get("dy") is None
    if kernel == "Slow3d":  # the gradient of its input is made of unfolded numbers
        return convolution.get("groups", 1) == 1 and (is_forward or convolution.result[0] is None)
    return kernel == "Slow2d" or (kernel in ("SlowTranspose2d", "SlowTranspose3d") and not is_forward)


def _count_unfolded(convolution: Operation, kernel: str, batch: torch.Tensor) -> int:
    """Return the bytes of the images that are unfolded at once for one group: for each position, all that it reads.

    A position is one of the output; in a transposed convolution one of the input, with all that is made of it.
    """
    weight, gradient = convolution.arguments["weight"], convolution.get("dy")
    is_forward, is_transposed = gradient is None, "Transpose" in kernel
    images = batch if is_transposed else convolution.result if is_forward else gradient
    image = 0 if _reads_in_place(convolution, kernel) else images.numel() // max(1, len(batch) * len(weight))
    are_all = kernel in ("Slow2d", "Slow3d") or (kernel == "SlowTranspose2d" and is_forward)
    unfolded = int(image * weight[0].numel() * batch.element_size()) * (len(batch) if are_all else 1)
    if kernel == "SlowTranspose3d" and is_forward:  # its output begins as large as its input
        return max(unfolded, batch.nbytes // int(convolution.get("groups", 1)))
    return unfolded


def _repeat(setting: int | Sequence[int], kernel: torch.Size) -> list[int]:
    """Return a setting for each dimension of a kernel: one number stands for all."""
    numbers = [setting] if isinstance(setting, int) else [*setting]
    return numbers * len(kernel) if len(numbers) == 1 else numbers


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_convolution: """
        conv1d.default conv2d.default conv3d.default conv1d.padding conv2d.padding conv3d.padding convolution.default
        convolution_backward.default
    """,
    partial(_count_in_convolution, is_transposed=True): """
        conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input
    """,
}
