"""What the model is given and may change: a cache of keys and values, say, that grows with every call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from profilerkit import ModelInputs

from .modules import CONTAINERS, reached
from .preservation import copied, refill

__all__ = ["GivenObjects"]


class GivenObjects:
    """The objects among the inputs, with what their attributes hold now; plain tensors are looked after elsewhere."""

    def __init__(self, inputs: ModelInputs) -> None:
        objects = [leaf for leaf in inputs.leaves() if not isinstance(leaf, torch.Tensor)]
        held = list(reached(objects))
        #: The tensors that they lead to: inputs like any.
        self.tensors = [value for value in held if isinstance(value, torch.Tensor)]
        self._contents = [(value, copied(value)) for value in held if isinstance(value, CONTAINERS)]

    def restore(self) -> None:
        """Give the objects back what they held."""
        for container, content in self._contents:
            refill(container, content)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Restore at the end, after errors too."""
        try:
            yield
        finally:
            self.restore()
