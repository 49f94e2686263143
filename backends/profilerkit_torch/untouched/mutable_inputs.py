"""Inputs that the model may change, such as a cache of keys and values that grows with every call."""

from __future__ import annotations

import torch

from profilerkit import ModelInputs
from profilerkit.process.contents import slots_of
from profilerkit.process.restoring import for_each, restored

from ..model.modules import CONTAINERS, reachable
from ..model.tensors import view_like
from .snapshots import SlotsSnapshot, copied, refill

__all__ = ["InputObjects", "on_device"]


def on_device(inputs: ModelInputs, device: torch.device, *, views: bool = True) -> ModelInputs:
    """Return the inputs on a device; what a model does to gradients of these does not reach the user's own tensors.

    Views stay views with ``views``. A step of training has them as tensors of their own: a view that is written to
    stays on the graph of that step.
    """
    copies: dict[int, torch.Tensor] = {}

    def placed(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:  # an input given twice stays one tensor
            moved = leaf.to(device).detach()
            moved = view_like(moved, leaf) if views else moved
            copies[id(leaf)] = moved.requires_grad_() if leaf.requires_grad else moved
        return copies[id(leaf)]

    return inputs.map(placed)


class InputObjects:
    """The objects among the inputs, with what their attributes hold now; plain tensors are restored elsewhere."""

    def __init__(self, inputs: ModelInputs) -> None:
        objects = [leaf for leaf in inputs.leaves() if not isinstance(leaf, torch.Tensor)]
        values = list(reachable(objects))
        #: The tensors that they lead to: inputs like any.
        self.tensors = [value for value in values if isinstance(value, torch.Tensor)]
        self._contents = [(value, copied(value)) for value in values if isinstance(value, CONTAINERS)]
        self._slots = [SlotsSnapshot(value, slots) for value in values if (slots := slots_of(type(value)))]

    def restore(self) -> None:
        """Put back what the objects held."""
        for_each(refill, self._contents)
        for_each(SlotsSnapshot.restore, [(slots,) for slots in self._slots])

    def restoring(self) -> restored:
        """Return a block that restores them at the end, after errors too."""
        return restored(self.restore, in_child=False)
