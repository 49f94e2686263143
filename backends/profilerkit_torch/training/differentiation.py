"""The backward pass of a counted step: the loss that it begins from, and the gradients that the weights get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from profilerkit.count_text import list_some
from profilerkit.process.restoring import call_each, restored

from ..compat.modes import disable_dispatch_modes
from ..model.storages import list_parts
from ..model.tensors import has_graph
from ..running.training_steps import make_ones
from ..trace.live_bytes import LiveBytes

__all__ = ["follow_gradients", "make_loss", "note_unused"]


class _SumOfOutputs(torch.autograd.Function):
    """Stands for the sum of the outputs as a loss: gives each output a gradient of ones, as a tensor of its size."""

    @staticmethod
    def forward(ctx: Any, *outputs: torch.Tensor) -> torch.Tensor:
        ctx.outputs = outputs
        dense = [*list_parts(outputs[0]), outputs[0]][0]
        return dense.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return tuple(map(make_ones, ctx.outputs))


def make_loss(outputs: Iterable[torch.Tensor], live: LiveBytes) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of outputs as a loss, and the gradient of this loss: no work, and no bytes alive."""
    with disable_dispatch_modes():
        loss = _SumOfOutputs.apply(*outputs)  # type: ignore[no-untyped-call]
        start = torch.empty_like(loss)
    for tensor in (loss, start):
        live.add(tensor, 0)
    return loss, start


@contextmanager
def follow_gradients(parameters: Iterable[torch.Tensor], call: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Call a function with each parameter, inside, as soon as its gradient is there."""
    stops: list[Callable[[], None]] = []
    with restored(partial(call_each, stops), in_child=False):
        for parameter in parameters:
            if parameter.requires_grad and not has_graph(parameter):
                stops.append(parameter.register_post_accumulate_grad_hook(call).remove)
        yield


def note_unused(unused: Sequence[str]) -> list[str]:
    """Return a note that names the weights that got no gradient in the backward pass; none if all have one."""
    if not unused:
        return []
    return [f"no output depends on these trainable weights, which get no gradient: {list_some(unused, 5)}"]
