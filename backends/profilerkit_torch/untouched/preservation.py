"""Handing the user's model back exactly as it came, and the process around it, without copying the model.

`preserve` notes every module's attributes, flags and class, every parameter's gradient, and the process' state, and
puts back what changed. Inside it, `substitute` lets other tensors stand in for the model's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from profilerkit import ModelChangedWarning
from profilerkit.arguments.structures import map_leaves
from profilerkit.process.contents import list_slots
from profilerkit.process.locks import Lock
from profilerkit.process.restoring import Step, for_each, restored

from ..compat import count_writes, is_view, replace_tensors
from ..model.inventory import Inventory
from ..model.keras_layers import substitute_variables
from ..model.tensors import has_storage, has_values, identify_elements
from .caller_context import apart, restorer_of_modes
from .marks import restorer_of_marks
from .process_state import restorers_of_process
from .snapshots import ClassSnapshot, ModuleSnapshot, SlotsSnapshot, copy_container, own_classes, refill
from .write_guard import list_versions, restore_versions, write_back

__all__ = ["one_at_a_time", "preserve", "restorers_of_tensors", "substitute", "watch_parameters"]


@contextmanager
def preserve(model: nn.Module, *, tensor_values: bool = False, inventory: Inventory | None = None) -> Iterator[None]:
    """Put back whatever changes of the model's structure and of the process' state, after errors too.

    With ``tensor_values`` buffers and tensors in other attributes are copied beforehand and get their values and
    versions back as well, so that a graph that the caller holds stays usable; parameters are without their gradients
    inside; and a change of a parameter's values, which nothing could undo, is warned of. ``inventory`` is what the
    model holds, where the caller has it already. One model is profiled at a time in a process: another thread waits
    here. The caller's modes are off inside, see `caller_context`.
    """
    with apart(), one_at_a_time:
        inventory = inventory or Inventory(model)
        steps, in_child = _steps(inventory, tensor_values)
        with restored(*steps, in_child=in_child), watch_parameters(inventory, tensor_values):
            if tensor_values:
                _without_gradients(inventory)
            yield


def _with_values(inventory: Inventory) -> list[torch.Tensor]:
    """Return the buffers, and the tensors in other attributes, that have values."""
    return [item for item in (*inventory.buffers, *inventory.attributes) if has_values(item) and has_storage(item)]


#: Held while the model or the process is changed: of two in turn, each would put back the other's state.
one_at_a_time = Lock()


def _is_off_the_graph(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has no graph behind it; some views (of DDP's buckets) raise when asked."""
    try:
        return tensor.grad_fn is None
    except RuntimeError:
        return False


def _without_gradients(inventory: Inventory) -> None:
    """Take the gradients off the parameters: a pass that computes gradients itself would add to them in place."""
    for parameter in inventory.parameters:
        if parameter.grad is not None:
            parameter.grad = None


def _steps(inventory: Inventory, tensor_values: bool) -> tuple[list[Step], Step]:
    """Return the steps that put the model and the process back as they are now, and what does so in a forked child."""
    snapshots: list[Any] = [
        *map(ModuleSnapshot, inventory.modules, inventory.further_attributes),
        *map(ClassSnapshot, own_classes(inventory.modules, inventory.further_attributes)),
    ]
    slotted = (*inventory.modules, *inventory.objects)
    slots = {kind: names for kind in set(map(type, slotted)) if (names := list_slots(kind))}
    if slots:
        snapshots += [SlotsSnapshot(slot, slots[type(slot)]) for slot in slotted if type(slot) in slots]
    kept = _with_values(inventory)
    sizes = [(tensor, tensor.untyped_storage().nbytes()) for tensor in kept if _has_plain_storage(tensor)]
    contents = [(container, copy_container(container)) for container in inventory.containers]
    of_process, restore_settings = restorers_of_process()
    of_model: list[Step] = [
        partial(for_each, _restore, [(snapshot,) for snapshot in snapshots]),
        *restorers_of_tensors(inventory.twins, inventory.parameters),
        partial(for_each, _restore_size, sizes),
        partial(for_each, refill, contents),
    ]
    steps: list[Step] = [restorer_of_modes(), *of_model, *of_process]
    if tensor_values:
        # through aliases: a model may give a tensor another shape, which it has back only later
        steps.insert(1, partial(write_back, [(tensor.data, tensor.detach().clone()) for tensor in kept]))
        steps.append(partial(restore_versions, list_versions(kept)))  # when nothing is written to any more
    steps.append(restorer_of_marks(inventory.tensors))

    def in_child() -> None:
        for step in (*of_model, restore_settings):
            step()

    return steps, in_child


def restorers_of_tensors(
    twins: Iterable[tuple[torch.Tensor, torch.Tensor]], leaves: Iterable[torch.Tensor]
) -> list[Step]:
    """Return the steps that give tensors their data back, and leaves of the graph their gradients and flags.

    A twin is what the data of its tensor are now, see `model.tensors.is_twin`.
    """
    twins = list(twins)
    off_the_graph = [(tensor,) for tensor, _ in twins if _is_off_the_graph(tensor)]
    gradients = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]
    return [
        partial(for_each, _take_off_the_graph, off_the_graph),
        partial(for_each, _restore_gradient, gradients),
        partial(for_each, _restore_data, twins),
    ]


def _restore(snapshot: Any) -> None:
    snapshot.restore()


def _restore_gradient(parameter: torch.Tensor, gradient: torch.Tensor | None, requires_grad: bool) -> None:
    if parameter.grad is not gradient:
        parameter.grad = gradient
    if parameter.requires_grad != requires_grad:
        parameter.requires_grad_(requires_grad)


def _take_off_the_graph(leaf: torch.Tensor) -> None:
    """Let a tensor need no gradient that came to need one: in a training step, by a write of what depends on a weight.

    Torch takes no view off its graph, but the base of the view.
    """
    if leaf.grad_fn is not None and not is_view(leaf):
        leaf.detach_()


def _restore_data(tensor: torch.Tensor, before: torch.Tensor) -> None:
    """Give a tensor its data back; ``before`` is a twin of what it was, see `model.tensors.is_twin`."""
    if not _same_elements(tensor, before):  # given other data: tensor.data = ..., tensor.set_(...)
        with torch.inference_mode(tensor.is_inference()):
            tensor.data = before


def _has_plain_storage(tensor: torch.Tensor) -> bool:
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided


def _restore_size(tensor: torch.Tensor, size: int) -> None:
    """Give the storage of a tensor its size back, where the model has made it longer (observers of values do)."""
    storage = tensor.untyped_storage()
    if storage.nbytes() > size and storage.resizable():
        storage.resize_(size)


def _same_elements(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether a tensor still has the elements of its alias: with one address they share one storage."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # sparse and other tensors without one storage
        address = 0
    if address and address == before.data_ptr():
        return tensor.is_nested or (tensor.shape == before.shape and tensor.stride() == before.stride())
    return bool(identify_elements(tensor) == identify_elements(before))


@contextmanager
def watch_parameters(
    inventory: Inventory, enabled: bool = True, watched: Callable[[torch.Tensor], bool] = lambda tensor: True
) -> Iterator[None]:
    """Warn of parameters whose values were changed in place, which nothing can undo."""
    owned = inventory.owned_parameters if enabled else ()
    versions = [
        (parameter, count_writes(parameter[2]))
        for parameter in owned
        if not parameter[2].is_inference() and watched(parameter[2])
    ]
    try:
        yield
    finally:
        written = [parameter for parameter, version in versions if count_writes(parameter[2]) != version]
        if written:
            changed = [f"{path}.{name}" if path else name for path, name in inventory.find_paths(written)]
            warnings.warn(
                f"the code that was run changed the parameters {', '.join(changed[:5])} in place; profilerkit cannot "
                "undo that, the code should not do it",
                ModelChangedWarning,
                stacklevel=6,
            )


def substitute(
    model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor], inventory: Inventory | None = None
) -> dict[int, torch.Tensor]:
    """Replace every tensor that the model's modules hold by ``convert(tensor)``; use inside `preserve`.

    That is parameters, buffers and plain attributes, also where they sit in a list, tuple or dict attribute (as the
    flat weights of recurrent modules do). A tensor that is held twice gets one substitute. Returns them by the
    ``id`` of the tensors that they replace.
    """
    stand_ins: dict[int, torch.Tensor] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in stand_ins:
            stand_ins[id(value)] = convert(value)
        return stand_ins[id(value)]

    inventory = inventory or Inventory(model)
    for module, attributes in zip(inventory.modules, inventory.further_attributes, strict=True):
        if isinstance(module, torch.jit.ScriptModule):
            raise TypeError("a scripted module keeps its weights where nothing can stand in for them")
        _substitute_in(module, attributes, stand_in)
        if inventory.holds_keras:
            substitute_variables(module, stand_in)
    return stand_ins


def _substitute_in(module: nn.Module, attributes: dict[str, Any], stand_in: Callable[[Any], Any]) -> None:
    replace_tensors(module, stand_in)
    for name, value in attributes.items():
        if _holds_tensors(value):
            module.__dict__[name] = map_leaves(value, stand_in)


def _holds_tensors(value: Any) -> bool:
    if type(value) in (list, tuple, dict):
        items = value.values() if type(value) is dict else value
        return any(isinstance(item, torch.Tensor) for item in items)
    return isinstance(value, torch.Tensor)
