"""Values that are kept beside stand-ins."""

from __future__ import annotations

import torch

from profilerkit_torch.trace.known_values import KnownValues


def test_zeros_without_memory_get_some() -> None:
    """Gradients that are undefined are such zeros; torch's primitives, given these, end the process."""
    zeros = torch._efficientzerotensor((1, 2))
    assert zeros.data_ptr() == 0
    product = KnownValues()._computed(torch.ops.prims.mul.default, (zeros, torch.ones(1, 2)), {})
    assert product.tolist() == [[0.0, 0.0]]
