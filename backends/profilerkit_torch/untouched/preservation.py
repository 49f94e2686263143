"""Restoring the user's model, and the process around it, exactly, without copying the model.

`preserve` notes every module's attributes, flags and class, every parameter's gradient, and the state of the process,
and restores everything that changed. Inside it, `substitute` replaces the model's tensors by others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.arguments.structures import map_leaves
from profilerkit.process.containers import refill
from profilerkit.process.locks import Lock
from profilerkit.process.object_facts import copy_content
from profilerkit.process.restoring import Step, call_each, for_each, restored
from profilerkit.process.user_lines import find_stack_level

from ..compat.modules import replace_tensors
from ..compat.tensors import count_writes
from ..model.inventory import Inventory
from ..model.keras_layers import substitute_variables
from ..model.storages import has_storage
from ..model.tensors import list_with_values
from .caller_context import apart, note_modes
from .process_state import note_process
from .snapshots import list_class_tensors, list_own_classes, note_class, note_modules, note_slots, note_states
from .tensor_marks import note_marks
from .tensor_state import keep_values, list_versions, note_sizes, note_tensors, restore_versions, write_back

__all__ = ["one_at_a_time", "preserve", "substitute", "watch_parameters"]

#: Held while the model or the process is changed: of two in turn, each would put back the other's state.
one_at_a_time: Lock = Lock()


@contextmanager
def preserve(model: nn.Module, *, tensor_values: bool = False, inventory: Inventory | None = None) -> Iterator[None]:
    """Restore the structure of the model and the state of the process at the end of the block, after errors too.

    With ``tensor_values``, buffers and tensors in other attributes are copied before, and get their values and versions
    back, so that a graph of the caller stays usable; parameters have no gradients inside; and a change of a parameter's
    values, which cannot be undone, causes a warning. ``inventory`` is the inventory of the model if the caller has it
    already. One model is profiled at a time in a process: another thread waits here. The caller's modes are off inside,
    see `caller_context`.
    """
    with apart(), one_at_a_time.block():
        inventory = inventory or Inventory(model)
        steps, step_in_child = _note_all(inventory, tensor_values=tensor_values)
        watched = watch_parameters(inventory) if tensor_values else nullcontext()
        with restored(*steps, in_child=step_in_child), watched:
            # A pass that computes gradients itself would add to them in place.
            for parameter in inventory.parameters if tensor_values else ():
                if parameter.grad is not None:
                    parameter.grad = None
            yield


def _note_all(inventory: Inventory, *, tensor_values: bool) -> tuple[list[Step], Step]:
    """Note the model and the process as they are; return the steps that put both back, and the one for a forked child.

    Their order matters. The modes come first, so that no mode of the model sees the other steps. Values are written
    through aliases, before the tensors themselves get their data back. Versions count every write, so they come last.
    """
    tensors = (*inventory.buffers, *inventory.attributes, *list_class_tensors(inventory))
    kept = [*filter(has_storage, list_with_values(tensors))]
    of_model = _note_model(inventory, kept)
    of_process, settings_in_child = note_process()
    steps: list[Step] = [note_modes()]
    if tensor_values:
        steps.append(partial(write_back, keep_values(kept)))
    steps += [*of_model, *of_process]
    if tensor_values:
        steps.append(partial(restore_versions, list_versions(kept)))
    steps.append(note_marks(inventory.tensors))

    def restore_in_child() -> None:
        for step in (*of_model, settings_in_child):
            step()

    return steps, restore_in_child


def _note_model(inventory: Inventory, kept: Iterable[torch.Tensor]) -> list[Step]:
    """Note the structure of a model, and the sizes of tensors with values; return the steps that put both back."""
    structure: list[Step] = [
        *note_modules(inventory),
        *map(note_class, list_own_classes(inventory, with_attributes=True)),
        *note_slots((*inventory.modules, *inventory.objects, *inventory.containers)),
    ]
    contents = [(container, copy_content(container)) for container in inventory.containers]
    return [
        partial(call_each, structure),
        partial(call_each, note_states(inventory.objects)),
        *note_tensors(inventory.data_aliases, inventory.parameters),
        note_sizes(kept),
        partial(for_each, refill, contents),
    ]


@contextmanager
def watch_parameters(
    inventory: Inventory, is_watched: Callable[[torch.Tensor], bool] = lambda tensor: True
) -> Iterator[None]:
    """Warn of parameters whose values were changed in place, which nothing can undo."""
    versions = [
        (parameter, count_writes(parameter.tensor))
        for parameter in inventory.parameter_places
        if not parameter.tensor.is_inference() and is_watched(parameter.tensor)
    ]
    try:
        yield
    finally:
        written = [parameter for parameter, version in versions if count_writes(parameter.tensor) != version]
        if written:
            names = [f"{path}.{name}" if path else name for path, name in inventory.find_paths(written[:5])]
            warnings.warn(
                f"the code that was run changed the parameters {', '.join(names)} in place; profilerkit cannot undo "
                "that, the code should not do it",
                ModelChangedWarning,
                stacklevel=find_stack_level(),
            )


# Other tensors in the places of a model's own: on another device, without values, or of another graph -----------------


def substitute(
    model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor], inventory: Inventory | None = None
) -> dict[int, torch.Tensor]:
    """Replace every tensor that the model's modules hold by ``convert(tensor)``, inside `preserve`, which undoes it.

    That is parameters, buffers and plain attributes, also directly in a list, tuple or dict attribute (as the flat
    weights of recurrent modules are). A tensor that is held twice gets one substitute. Returns the substitutes by the
    ``id`` of the tensors that they replace.
    """
    inventory = inventory or Inventory(model)
    if inventory.scripts:
        raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
    direct = (*inventory.direct_parameters, *inventory.direct_buffers)
    substitutes = {id(tensor): convert(tensor) for tensor in direct}

    def replace(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in substitutes:
            substitutes[id(value)] = convert(value)
        return substitutes[id(value)]

    replace_tensors(inventory.modules, substitutes)
    if inventory.holds_keras:
        substitute_variables(inventory.modules, replace)
    for module, attributes in inventory.further_attributes:
        for name, value in attributes.items():
            if _holds_tensors(value):
                module.__dict__[name] = map_leaves(value, replace)
    return substitutes


def _holds_tensors(value: Any) -> bool:
    """Return whether a value is a tensor, or a plain container with a tensor directly in it."""
    items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else (value,)
    return any(isinstance(item, torch.Tensor) for item in items)
