"""Functions of torch that a traced training step replaces, so that its cost is the same as on a real device.

On meta tensors torch composes attention of operators, and keeps all scores for the backward pass; a fused kernel keeps
none. Conditions and loops give no gradients to weights that their functions find in the model: see `is_control_flow`.
An LSTM on the CPU has a kernel of oneDNN, whose backward pass makes gradients that the step does not need. While a mode
is active, a linear layer that is no single product adds its bias in a new tensor, and not in place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn import functional

from ..compat.recording import find_transform_level
from ..trace.fused_attention import FusedAttention
from ..trace.higher_order import is_control_flow, run_higher_order
from .recurrent_layers import RECURRENT_FUNCTIONS, run_recurrent, without_onednn
from .training_recorder import TrainingRecorder

__all__ = ["StepFunctions"]

_onednn: Any = torch.backends.mkldnn


class StepFunctions(FusedAttention):
    """While it is active, attention over meta tensors runs by the kernel of the device, as in `FusedAttention`.

    An LSTM runs without oneDNN, also in a step on real tensors; conditions and loops run as their operators.
    """

    def __init__(self, device: torch.device, recorder: TrainingRecorder, *, takes_layers_apart: bool = False) -> None:
        super().__init__(device)
        self._recorder = recorder
        self._takes_layers_apart = takes_layers_apart

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function in the way of a step, if it has one; otherwise as `FusedAttention` does."""
        kwargs = kwargs or {}
        if func in RECURRENT_FUNCTIONS:
            return self._run_recurrent(func, args, kwargs)
        if func is functional.linear and find_transform_level() is None:
            return _run_linear(*args, **kwargs)
        if is_control_flow(func):
            with self:  # torch takes a mode off while it handles a function: attention in a branch is handled too
                return run_higher_order(self._recorder, func, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def _run_recurrent(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run recurrent layers, each as one operator if its cost is known; else the CPU keeps more than is counted."""
        kind, is_whole = RECURRENT_FUNCTIONS[func], not (kwargs or self._takes_layers_apart)
        has_other_kernel = kind == "lstm" and _has_onednn_kernel(*args[:2])
        with without_onednn() if kind == "lstm" else nullcontext():
            result = run_recurrent(self._recorder, kind, *args) if is_whole else None
            if self._device.type == "cpu" and (result is None or has_other_kernel):
                self._recorder.unsized[f"the workspace of {kind}"] += 1
            return func(*args, **kwargs) if result is None else result

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Run attention; a mask of booleans chooses scores, and costs nothing, although torch adds it as numbers."""
        is_boolean = attn_mask is not None and attn_mask.dtype is torch.bool
        scores = query.shape[:-1].numel() * key.shape[-2]
        with self._recorder.leave_out_mask(scores) if is_boolean else nullcontext():
            return super()._attend(query, key, value, attn_mask, *args, **kwargs)


def _run_linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Run a linear layer; it is one product with its bias unless its rows lie apart in memory."""
    if bias is None or input.dim() == 2 or input.is_contiguous():
        return functional.linear(input, weight, bias)
    output = functional.linear(input, weight)
    return output.add_(bias.to(output.dtype))


def _has_onednn_kernel(x: torch.Tensor, states: Any) -> bool:
    """Return whether a step on the CPU runs an LSTM by oneDNN, which keeps more for the backward pass, and copies.

    Packed samples come with their sizes in the place of the states, and projected states are not as wide as the cells.
    """
    if not (_onednn.enabled and _onednn.is_available()) or isinstance(states, torch.Tensor):
        return False
    hidden, cells = states
    return x.dtype in (torch.float32, torch.bfloat16) and hidden.shape == cells.shape
