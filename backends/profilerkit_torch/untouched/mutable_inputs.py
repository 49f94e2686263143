"""What the model is given and may change: a cache of keys and values, say, that grows with every call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from profilerkit import ModelInputs

from ..model.modules import CONTAINERS, reached, slots_of
from .snapshots import SlotsSnapshot, copied, refill

__all__ = ["GivenObjects", "on_device"]


def on_device(inputs: ModelInputs, device: torch.device) -> ModelInputs:
    """Return the inputs on a device; what a model does to gradients of these does not reach the user's own tensors."""
    known: dict[int, torch.Tensor] = {}

    def placed(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in known:  # an input given twice stays one tensor
            moved = leaf.to(device).detach()
            known[id(leaf)] = moved.requires_grad_() if leaf.requires_grad else moved
        return known[id(leaf)]

    return inputs.map(placed)


class GivenObjects:
    """The objects among the inputs, with what their attributes hold now; plain tensors are looked after elsewhere."""

    def __init__(self, inputs: ModelInputs) -> None:
        objects = [leaf for leaf in inputs.leaves() if not isinstance(leaf, torch.Tensor)]
        held = list(reached(objects))
        #: The tensors that they lead to: inputs like any.
        self.tensors = [value for value in held if isinstance(value, torch.Tensor)]
        self._contents = [(value, copied(value)) for value in held if isinstance(value, CONTAINERS)]
        self._slots = [SlotsSnapshot(value, slots) for value in held if (slots := slots_of(type(value)))]

    def restore(self) -> None:
        """Give the objects back what they held."""
        for container, content in self._contents:
            refill(container, content)
        for slots in self._slots:
            slots.restore()

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Restore at the end, after errors too."""
        try:
            yield
        finally:
            self.restore()
