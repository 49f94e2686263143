"""The state of a tensor, and how it is restored: data, gradients, values and versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from operator import methodcaller, not_
from typing import NamedTuple

import torch

from profilerkit.process.restoring import Step, call_each, for_each

from ..compat.autograd import set_version
from ..compat.tensors import count_writes, is_view
from ..model.storages import COMPRESSED, has_storage, identify_elements, list_parts, read_form
from ..model.tensors import PLAIN_TYPES, have_graphs, list_with_values

__all__ = [
    "KeptValue",
    "KeptVersion",
    "keep_values",
    "list_versions",
    "note_sizes",
    "note_tensors",
    "restore_versions",
    "write_back",
    "write_back_alone",
]

_DETACH = methodcaller("detach_")
#: Integers of so many bytes.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def note_tensors(aliases: Iterable[tuple[torch.Tensor, torch.Tensor]], leaves: Iterable[torch.Tensor]) -> list[Step]:
    """Note the data of tensors, and gradients and flags of leaves of the graph; return the steps that put them back.

    An alias is a tensor over the present data of another tensor, see `model.storages.list_data_aliases`.
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
    """Give tensors their data back where they were given others: ``tensor.data = ...``, ``tensor.set_(...)``.

    The same bytes as numbers of another form are other data.
    """
    changed = []
    for tensor, before in aliases:
        try:
            is_same = (  # with one address, they share one storage
                0 != tensor.data_ptr() == before.data_ptr()
                and tensor.shape == before.shape
                and tensor.stride() == before.stride()
                and read_form(tensor) == read_form(before)
            )
        except RuntimeError:  # sparse and other tensors without one storage or shape
            is_same = False
        if not is_same and identify_elements(tensor) != identify_elements(before):
            changed.append((tensor, before))
    for_each(_set_data, changed)


def _set_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        if tensor.layout in COMPRESSED:  # it has lost its numbers alone: torch gives it no other parts
            tensor.resize_as_sparse_(data).copy_(data)
        else:
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


def keep_values(tensors: Iterable[torch.Tensor]) -> list[KeptValue]:
    """Copy the values of tensors; of a sparse tensor those that it is stored as, which torch changes in place."""
    stored = [part for tensor in tensors for part in list_parts(tensor) or [tensor]]
    return [KeptValue(tensor.data, tensor.detach().clone()) for tensor in stored]


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
    try:
        write_back(kept for kept in values if kept.tensor.device.type == "cpu")
    finally:
        torch.set_num_threads(threads)


def _copy_to(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy values to a tensor; of an expanded tensor, which torch refuses to write, to the stored elements."""
    if tensor.layout is torch.strided and not tensor.is_nested:
        for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
            if size > 1 and stride == 0:
                tensor, value = tensor.narrow(dimension, 0, 1), value.narrow(dimension, 0, 1)
    tensor.copy_(value)


def _is_equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether a tensor has these values, to the sign of zero; False where they cannot be compared."""
    if tensor.is_nested:  # torch compares no nested ones, but their samples
        return all(map(_is_equal, tensor.unbind(), value.unbind()))
    try:
        if type(tensor) in PLAIN_TYPES:
            if tensor.is_complex():
                tensor, value = torch.view_as_real(tensor), torch.view_as_real(value)
            if tensor.is_floating_point():  # 0.0 equals -0.0, but has other bits
                bits = _BITS[tensor.element_size()]
                tensor, value = tensor.view(bits), value.view(bits)
        return torch.equal(tensor, value)
    except RuntimeError:  # some that are packed cannot be compared
        return False


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
