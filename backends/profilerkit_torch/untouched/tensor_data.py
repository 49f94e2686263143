"""The data of tensors, their sizes, gradients and flags: how they are put back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import methodcaller

import torch

from profilerkit.process.restoring import Step, for_each

from ..compat.tensors import is_view
from ..model.tensors import has_graph, identify_elements

__all__ = ["note_sizes", "note_tensors"]

_DETACH = methodcaller("detach_")


def note_tensors(aliases: Iterable[tuple[torch.Tensor, torch.Tensor]], leaves: Iterable[torch.Tensor]) -> list[Step]:
    """Note the data of tensors, and gradients and flags of leaves of the graph; return the steps that put them back.

    An alias is what the data of its tensor are now, see `model.tensors.may_be_data`.
    """
    aliases = list(aliases)
    off_the_graph = [tensor for tensor, _ in aliases if not has_graph(tensor)]
    gradients = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]
    return [
        partial(_take_off_the_graph, off_the_graph),
        partial(_restore_gradients, gradients),
        partial(_restore_data, aliases),
    ]


def _take_off_the_graph(leaves: Iterable[torch.Tensor]) -> None:
    """Let tensors need no gradient that came to need one: in a training step, by a write of what depends on a weight.

    Torch takes no view off its graph, but the base of the view.
    """
    for_each(_DETACH, [(leaf,) for leaf in leaves if has_graph(leaf) and not is_view(leaf)])


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
    for_each(_set_data, [(tensor, before) for tensor, before in aliases if not _has_same_elements(tensor, before)])


def _set_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()):
        tensor.data = data


def _has_same_elements(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether a tensor still has the elements of its alias: with one address they share one storage."""
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # sparse and other tensors without one storage
        address = 0
    if address and address == before.data_ptr():
        return tensor.is_nested or (tensor.shape == before.shape and tensor.stride() == before.stride())
    return bool(identify_elements(tensor) == identify_elements(before))


def note_sizes(tensors: Iterable[torch.Tensor]) -> Step:
    """Note the sizes of storages; return what undoes that the model makes some longer (observers of values do)."""
    plain = [tensor for tensor in tensors if type(tensor) is torch.Tensor and tensor.layout is torch.strided]
    return partial(_restore_sizes, [(tensor, tensor.untyped_storage().nbytes()) for tensor in plain])


def _restore_sizes(sizes: Iterable[tuple[torch.Tensor, int]]) -> None:
    storages = [(tensor.untyped_storage(), size) for tensor, size in sizes]
    longer = [(storage, size) for storage, size in storages if storage.nbytes() > size and storage.resizable()]
    for_each(torch.UntypedStorage.resize_, longer)
