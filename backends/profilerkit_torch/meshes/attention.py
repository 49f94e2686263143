"""Attention on tensors that are spread over ranks: each rank has its own heads and samples, as on an accelerator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["spread_attention"]


def spread_attention() -> None:
    """Tell torch how the CPU's kernel of attention is spread: by samples and by heads, as the kernels of GPUs are.

    Without a rule it gathers all heads on every rank first, or refuses.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    placements = (Replicate(), Shard(0), Shard(1))  # samples are the first dimension, heads the second

    def spread_alike(results: int, tensors: int) -> Callable[..., list[Any]]:
        """Return a rule by which results and tensors, the first arguments, are spread alike."""
        return lambda *arguments, **named: [
            ([placement] * results, [placement] * tensors + [None] * (len(arguments) - tensors))
            for placement in placements
        ]

    aten: Any = torch.ops.aten
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu.default)(spread_alike(2, 3))
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)(spread_alike(3, 6))
