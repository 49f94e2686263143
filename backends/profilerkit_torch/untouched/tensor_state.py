"""The state of a tensor, and how it is restored: data, gradients, values and versions, attributes and hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from operator import attrgetter, methodcaller, not_
from typing import Any, NamedTuple

import torch

from profilerkit.process.containers import refill
from profilerkit.process.restoring import Step, call_each, for_each

from ..compat.autograd import set_version
from ..compat.modules import ACCUMULATION_HOOKS, GRADIENT_HOOKS
from ..compat.tensors import count_writes, is_view
from ..model.storages import has_storage, identify_elements
from ..model.stored_numbers import SPARSE_PARTS
from ..model.tensors import PLAIN_TYPES, have_graphs, list_with_values

__all__ = [
    "KeptValue",
    "KeptVersion",
    "list_versions",
    "note_marks",
    "note_sizes",
    "note_tensors",
    "restore_versions",
    "write_back",
    "write_back_alone",
]

_DETACH = methodcaller("detach_")


def note_tensors(aliases: Iterable[tuple[torch.Tensor, torch.Tensor]], leaves: Iterable[torch.Tensor]) -> list[Step]:
    """Note the data of tensors, and gradients and flags of leaves of the graph; return the steps that put them back.

    An alias is a tensor over the present data of another tensor, see `model.tensors.list_data_aliases`.
    """
    aliases = list(aliases)
    tensors = [tensor for tensor, _ in aliases]
    off_the_graph = [*compress(tensors, map(not_, have_graphs(tensors)))]
    gradients = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]
    return [
        partial(_take_off_the_graph, off_the_graph),
        partial(_restore_gradients, gradients),
        partial(_restore_data, aliases),
    ]


def _take_off_the_graph(leaves: Sequence[torch.Tensor]) -> None:
    """Take tensors off the graph that got on it: in a training step, by a write of a value that depends on a weight.

    Torch takes no view off its graph, but the base of the view.
    """
    for_each(_DETACH, [(leaf,) for leaf in compress(leaves, have_graphs(leaves)) if not is_view(leaf)])


def _restore_gradients(noted: Iterable[tuple[torch.Tensor, torch.Tensor | None, bool]]) -> None:
    changed = [
        (leaf, gradient, requires_grad)
        for leaf, gradient, requires_grad in noted
        if leaf.grad is not gradient or leaf.requires_grad != requires_grad
    ]
    for_each(_restore_gradient, changed)


def _restore_gradient(leaf: torch.Tensor, gradient: torch.Tensor | None, requires_grad: bool) -> None:
    if leaf.grad is not gradient:
        leaf.grad = gradient
    if leaf.requires_grad != requires_grad:
        leaf.requires_grad_(requires_grad)


def _restore_data(aliases: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Give tensors their data back where they were given others: ``tensor.data = ...``, ``tensor.set_(...)``."""
    changed = []
    for tensor, before in aliases:
        try:
            is_same = (  # with one address, they share one storage
                0 != tensor.data_ptr() == before.data_ptr()
                and tensor.shape == before.shape
                and tensor.stride() == before.stride()
            )
        except RuntimeError:  # sparse and other tensors without one storage or shape
            is_same = False
        if not is_same and identify_elements(tensor) != identify_elements(before):
            changed.append((tensor, before))
    for_each(_set_data, changed)


def _set_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()):
        tensor.data = data


def note_sizes(tensors: Iterable[torch.Tensor]) -> Step:
    """Note the sizes of storages; return a function that shrinks storages that have grown, as observers' do."""
    plain = [tensor for tensor in tensors if type(tensor) is torch.Tensor and tensor.layout is torch.strided]
    return partial(_restore_sizes, [(tensor, tensor.untyped_storage().nbytes()) for tensor in plain])


def _restore_sizes(sizes: Iterable[tuple[torch.Tensor, int]]) -> None:
    storages = [(tensor.untyped_storage(), size) for tensor, size in sizes]
    longer = [(storage, size) for storage, size in storages if storage.nbytes() > size and storage.resizable()]
    for_each(torch.UntypedStorage.resize_, longer)


# Values ---------------------------------------------------------------------------------------------------------------


class KeptValue(NamedTuple):
    """A tensor, and a copy of the values that it had."""

    tensor: torch.Tensor
    value: torch.Tensor


class KeptVersion(NamedTuple):
    """A tensor, and how often it had been written to."""

    tensor: torch.Tensor
    writes: int


def write_back(values: Iterable[KeptValue]) -> None:
    """Give each tensor the values that were kept of it, where they have changed."""
    call_each(partial(_write_back, kept) for kept in values)


def _write_back(kept: KeptValue) -> None:
    tensor, value = kept
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        if has_storage(tensor) and not _is_equal(tensor, value):
            _copy_to(tensor, value)


def write_back_alone(values: Iterable[KeptValue]) -> None:
    """Write values back in a forked child, where torch's other threads would be waited for and do not exist.

    Tensors on a GPU are left: a forked child cannot use it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    write_back(kept for kept in values if kept.tensor.device.type == "cpu")
    torch.set_num_threads(threads)


def _copy_to(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy values to a tensor; of an expanded tensor, which torch refuses to write, to the stored elements."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if size > 1 and stride == 0:
                tensor, value = tensor.narrow(dimension, 0, 1), value.narrow(dimension, 0, 1)
    tensor.copy_(value)


def _is_equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether a tensor has these values; False where they cannot be compared."""
    if tensor.layout in SPARSE_PARTS:  # to copy to one would give it other storage, with nothing having changed
        return _has_equal_parts(tensor, value, SPARSE_PARTS[tensor.layout])
    if tensor.is_nested and tensor.layout is torch.strided:  # it has no shape, its samples do
        return all(map(torch.equal, tensor.unbind(), value.unbind()))
    try:
        return torch.equal(tensor, value)
    except RuntimeError:  # some that are packed cannot be compared
        return False


def _has_equal_parts(tensor: torch.Tensor, value: torch.Tensor, parts: Iterable[str]) -> bool:
    """Return whether methods of these names return equal tensors for both."""
    pairs = [(getattr(tensor, part)(), getattr(value, part)()) for part in parts]
    return tensor.shape == value.shape and all(torch.equal(one, other) for one, other in pairs)


# How often tensors were written to ------------------------------------------------------------------------------------


def list_versions(tensors: Iterable[torch.Tensor]) -> list[KeptVersion]:
    """Return how often each tensor was written to; inference tensors do not count that, and are left out."""
    counting = (tensor for tensor in list_with_values(tensors) if not tensor.is_inference())
    return [KeptVersion(tensor, count_writes(tensor)) for tensor in counting]


def restore_versions(versions: Iterable[KeptVersion]) -> None:
    """Set the counts of writes back, for tensors that have their values again.

    Otherwise autograd would refuse the backward pass of a graph that the caller made before and that needs the values.
    """
    for tensor, writes in versions:
        if count_writes(tensor) != writes:
            set_version(tensor, writes)


# Attributes of Python's, and hooks for gradients ----------------------------------------------------------------------


_HOOKS = (*GRADIENT_HOOKS, *ACCUMULATION_HOOKS)
_read_all = attrgetter("__dict__", *_HOOKS)
#: The state of a tensor without attributes and hooks; a tensor that had hooks has an empty mapping for them.
_BARE: Any = ({}, *[None] * len(_HOOKS)) if _HOOKS else {}


class _Hooks(NamedTuple):
    """The hooks of one kind that a tensor had.

    Attributes:
        name: The tensor's attribute that has them.
        mapping: The value of that attribute: a mapping that autograd may have too, or None.
        content: A copy of what was in the mapping.
    """

    name: str
    mapping: Any
    content: dict[Any, Any]


#: The hooks of a tensor without any hooks.
_NO_HOOKS = [_Hooks(name, None, {}) for name in _HOOKS]


class _Marks(NamedTuple):
    """The attributes and hooks that a tensor had."""

    tensor: Any
    attributes: dict[str, Any]
    hooks: list[_Hooks]


def note_marks(tensors: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Note the attributes and hooks of tensors, and return a function that restores them.

    A pass may add some, and so does ``torch.compile``. The tensors inside a wrapper tensor are restored too.
    """
    tensors = _add_inner_tensors(tensors)
    noted = [_note(tensor) for tensor in tensors if _read_all(tensor) != _BARE]
    bare = [tensor for tensor in tensors if _read_all(tensor) == _BARE]  # nearly all: to note nothing saves time

    def restore() -> None:
        new = [_Marks(tensor, {}, _NO_HOOKS) for tensor in bare if _read_all(tensor) != _BARE]
        for_each(_restore, [*noted, *new])

    return restore


def _add_inner_tensors(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return tensors, with the tensors that each wrapper tensor is made of."""
    tensors = list(tensors)
    for tensor in tensors:  # added tensors are visited too
        if type(tensor) not in PLAIN_TYPES and hasattr(tensor, "__tensor_flatten__"):
            names, _ = tensor.__tensor_flatten__()
            inner = [getattr(tensor, name) for name in names]
            tensors += [part for part in inner if isinstance(part, torch.Tensor)]
    return tensors


def _note(tensor: Any) -> _Marks:
    hooks = [_Hooks(name, getattr(tensor, name), dict(getattr(tensor, name) or {})) for name in _HOOKS]
    return _Marks(tensor, dict(tensor.__dict__), hooks)


def _restore(tensor: Any, attributes: dict[str, Any], hooks: Iterable[_Hooks]) -> None:
    refill(tensor.__dict__, attributes)
    for hooks_of_kind in hooks:
        _restore_hooks(tensor, hooks_of_kind)


def _restore_hooks(tensor: Any, hooks: _Hooks) -> None:
    """Give a tensor its mapping of hooks back, with its content; empty a mapping that took its place."""
    current = getattr(tensor, hooks.name)
    if current is not hooks.mapping:
        if current is not None:
            current.clear()  # autograd has the mapping itself, and may go on calling the hooks in it
        setattr(tensor, hooks.name, hooks.mapping)
    if hooks.mapping is not None:
        refill(hooks.mapping, hooks.content)
