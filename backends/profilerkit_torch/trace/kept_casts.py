"""Casts of weights that autocast keeps after a pass: they are not left behind by the model."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..compat.modes import is_any_autocast_enabled
from ..compat.operators import find_operator
from .live_bytes import LiveBytes

__all__ = ["KeptCasts"]

_TO_COPY = find_operator("aten._to_copy.default")


class KeptCasts:
    """Notes the casts of weights that stay after a pass; their graphs hold the weights.

    In a block of autocast torch keeps the cast of each weight until the block ends. If the caller has begun the block,
    such casts are alive after a pass, and must not be reported as tensors that the model has left behind.

    Args:
        live: The storages that are alive.
        has_stand_ins: Whether tensors without values stand in for the weights. Weights that stay must not keep the
            gradients that the pass has computed.
    """

    def __init__(self, live: LiveBytes, has_stand_ins: bool) -> None:
        #: Whether the pass is in such a block of the caller's.
        self.are_kept: bool = is_any_autocast_enabled() and torch.is_autocast_cache_enabled()
        self._live = live
        self._has_stand_ins = has_stand_ins
        self._weights: list[weakref.ref[torch.Tensor]] = []

    def note(self, func: Any, args: Any, result: Any) -> None:
        """Note the result of an operator if it is the cast of a weight."""
        if func is not _TO_COPY or not (args[0].requires_grad and args[0].is_leaf):
            return
        self._live.mark_as_kept(result)
        self._live.mark_as_kept(args[0])
        if self._has_stand_ins:
            self._weights.append(weakref.ref(args[0]))

    def forget_gradients(self) -> None:
        """Take the gradients off the stand-ins for weights that are kept."""
        for reference in self._weights:
            weight = reference()
            if weight is not None:
                weight.grad = None
