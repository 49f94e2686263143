"""Inputs that the model may change, such as a cache of keys and values that grows with every call."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from profilerkit import ModelInputs
from profilerkit.process.containers import CONTAINERS, refill
from profilerkit.process.object_facts import copy_content
from profilerkit.process.restoring import Step, call_each, for_each, restored

from ..compat.modes import unseen_by_subclasses
from ..model.attributes import list_reachable, list_tensors
from ..model.storages import list_aliases, list_data_aliases
from ..model.tensors import has_graph, view_like
from .snapshots import note_slots, note_states
from .tensor_marks import note_marks
from .tensor_state import note_tensors

__all__ = ["InputObjects", "list_input_tensors", "on_device"]


def on_device(inputs: ModelInputs, device: torch.device, *, views: bool = True) -> ModelInputs:
    """Return the inputs on a device, as tensors whose gradients are not those of the user's own tensors.

    With ``views``, views stay views. A training step gets copies instead: a view that is written to would stay on the
    graph of the step.
    """
    copies: dict[int, torch.Tensor] = {}

    def move(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:  # an input given twice stays one tensor
            moved = leaf.to(device).detach()
            moved = view_like(moved, leaf) if views else moved
            copies[id(leaf)] = moved.requires_grad_() if leaf.requires_grad else moved
        return copies[id(leaf)]

    return inputs.map(move)


def list_input_tensors(inputs: ModelInputs) -> list[torch.Tensor]:
    """Return the tensors that are inputs themselves, and the tensors that objects among the inputs lead to."""
    leaves = list(inputs.leaves())
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return tensors + list_tensors(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor))


class InputObjects:
    """The objects among the inputs with their present contents, and the tensors among and in the inputs.

    Values of tensors are restored elsewhere: here tensors get data, shapes, gradients, flags and attributes back.
    """

    def __init__(self, inputs: ModelInputs) -> None:
        self.leaves: list[Any] = list(inputs.leaves())  #: the inputs themselves
        values = list(list_reachable([leaf for leaf in self.leaves if not isinstance(leaf, torch.Tensor)]))
        #: The tensors that objects among the inputs lead to.
        self.tensors: list[torch.Tensor] = [value for value in values if isinstance(value, torch.Tensor)]
        #: The tensors that are inputs themselves, and the tensors that objects lead to.
        self.all_tensors = [*(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)), *self.tensors]
        contents = [(value, copy_content(value)) for value in values if isinstance(value, CONTAINERS)]
        self._steps: list[Step] = [partial(for_each, refill, contents), *note_slots(values), *note_states(values)]
        with unseen_by_subclasses():
            #: The tensors with values, each with another one over the same data.
            self.aliases = list_aliases(self.all_tensors)
            leaves_of_graph = [tensor for tensor in self.all_tensors if not has_graph(tensor)]
            self._tensor_steps = [
                *note_tensors(list_data_aliases(self.aliases), leaves_of_graph),
                note_marks(self.all_tensors),
            ]

    def restore(self) -> None:
        """Restore the contents of the objects: quick, because it is timed with each run."""
        call_each(self._steps)

    def _restore_tensors(self) -> None:
        with unseen_by_subclasses():
            call_each(self._tensor_steps)

    def restore_at_end(self) -> restored:
        """Return a block that restores the objects and the tensors at the end, after errors too."""
        return restored(self.restore, self._restore_tensors, in_child=False)
