"""Functions of torch that a training step runs in a way of its own, so that it costs what it does on any device.

On meta tensors torch spells attention out, and keeps every score for the backward pass; a fused kernel keeps none.
Conditions and loops give no gradients to weights that their functions find in the model: see `is_control_flow`. An LSTM
on the CPU has a kernel of oneDNN's, whose backward pass makes gradients that the step does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from profilerkit.process.restoring import restored

from ..trace.fused_attention import FusedAttention
from ..trace.higher_order import is_control_flow, run_higher_order
from .training_recorder import TrainingRecorder

__all__ = ["StepFunctions"]

_onednn: Any = torch.backends.mkldnn


class StepFunctions(FusedAttention):
    """While it is active, attention over meta tensors runs by the kernel of the device, as in `FusedAttention`.

    An LSTM runs without oneDNN, also in a step on real tensors; conditions and loops are taken apart into what they do.
    """

    def __init__(self, device: torch.device, recorder: TrainingRecorder) -> None:
        super().__init__(device)
        self._recorder = recorder

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function in the way of a step, if it has one; otherwise as `FusedAttention` does."""
        kwargs = kwargs or {}
        if func is torch.lstm:
            with _without_onednn():
                return func(*args, **kwargs)
        if is_control_flow(func):
            with self:  # torch takes a mode off while it handles a function: attention in a branch is handled too
                return run_higher_order(self._recorder, func, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

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


@contextmanager
def _without_onednn() -> Iterator[None]:
    with restored(partial(setattr, _onednn, "enabled", _onednn.enabled)):
        _onednn.enabled = False
        yield
