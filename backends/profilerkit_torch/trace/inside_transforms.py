"""The bytes inside Fourier transforms (``SpectralOps.cpp``) and the parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..model.storages import count_stored_bytes
from .inside_operation import Operation, is_one_dimension

__all__ = ["RULES"]


def _count_in_complex_parts(operation: Operation) -> int:
    """Return the bytes of the CPU's complex result, of which the output is the real part."""
    return count_stored_bytes(operation.x) if operation.is_on("cpu") and operation.x.is_complex() else 0


def _count_in_transform(transform: Operation) -> int:
    """Return the bytes of a copy: MKL takes all dimensions that it does not transform as one, if strides allow it."""
    if not transform.is_on("cpu") or not torch.backends.mkl.is_available():
        return 0
    x = transform.x
    if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
        return x.numel() * x.element_size()  # it takes nothing that is repeated
    transformed = {dim % x.dim() for dim in transform.arguments["dim"]}
    batch = [(x.stride(dim), x.shape[dim]) for dim in range(x.dim()) if dim not in transformed and x.shape[dim] > 1]
    return 0 if is_one_dimension(sorted(batch, reverse=True)) else count_stored_bytes(x)


#: The operators of each rule.
RULES: dict[Callable[[Operation], int], str] = {
    _count_in_complex_parts: "abs.default angle.default",
    _count_in_transform: "_fft_c2c.default _fft_r2c.default _fft_c2r.default",
}
