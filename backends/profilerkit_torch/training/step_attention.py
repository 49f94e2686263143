"""Attention in a training step on meta tensors: by the kernel that runs on the model's device.

On meta tensors torch spells attention out, and keeps every score for the backward pass. A fused kernel keeps none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from profilerkit.process.restoring import restored

from ..trace.fused_attention import FusedAttention
from ..trace.higher_order import is_control_flow, run_higher_order
from .training_recorder import TrainingRecorder

__all__ = ["StepAttention"]

_onednn: Any = torch.backends.mkldnn


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Keep oneDNN from an LSTM on the CPU: its backward kernel returns gradients that the step does not need.

    So a step that has to be run on real tensors costs what it does on meta ones and on an accelerator.
    """
    with restored(partial(setattr, _onednn, "enabled", _onednn.enabled)):
        _onednn.enabled = False
        yield


class StepAttention(FusedAttention):
    """That of a training step, with LSTMs as on an accelerator; conditions and loops run openly."""

    def __init__(self, device: torch.device, recorder: TrainingRecorder) -> None:
        super().__init__(device)
        self._recorder = recorder

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run conditions and loops openly, an LSTM without oneDNN, any other function as in every pass."""
        kwargs = kwargs or {}
        if func is torch.lstm:
            with _without_onednn():
                return func(*args, **kwargs)
        if is_control_flow(func):
            with self:
                return run_higher_order(self._recorder, func, args, kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def _attend(self, query: torch.Tensor, key: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        mask = args[1] if len(args) > 1 else kwargs.get("attn_mask")
        if mask is None or mask.dtype is not torch.bool:
            return super()._attend(query, key, *args, **kwargs)
        scores = query.shape[:-1].numel() * key.shape[-2]
        with self._recorder.choose_scores(scores):
            return super()._attend(query, key, *args, **kwargs)
