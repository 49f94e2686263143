"""The data of tensors, their sizes, gradients and flags: how they are put back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import torch

from profilerkit.process.restoring import Step, call_each, for_each

from ..compat.tensors import is_view
from ..model.tensors import identify_elements

__all__ = ["note_sizes", "note_tensors"]


def note_tensors(twins: Iterable[tuple[torch.Tensor, torch.Tensor]], leaves: Iterable[torch.Tensor]) -> list[Step]:
    """Note the data of tensors, and gradients and flags of leaves of the graph; return the steps that put them back.

    A twin is what the data of its tensor are now, see `model.tensors.is_twin`.
    """
    twins = list(twins)
    off_the_graph = [partial(_take_off_the_graph, tensor) for tensor, _ in twins if _is_off_the_graph(tensor)]
    gradients = [(leaf, leaf.grad, leaf.requires_grad) for leaf in leaves]
    return [
        partial(call_each, off_the_graph),
        partial(for_each, _restore_gradient, gradients),
        partial(for_each, _restore_data, twins),
    ]


def _is_off_the_graph(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has no graph behind it; some views (of DDP's buckets) raise when asked."""
    try:
        return tensor.grad_fn is None
    except RuntimeError:
        return False


def _take_off_the_graph(leaf: torch.Tensor) -> None:
    """Let a tensor need no gradient that came to need one: in a training step, by a write of what depends on a weight.

    Torch takes no view off its graph, but the base of the view.
    """
    if leaf.grad_fn is not None and not is_view(leaf):
        leaf.detach_()


def _restore_gradient(parameter: torch.Tensor, gradient: torch.Tensor | None, requires_grad: bool) -> None:
    if parameter.grad is not gradient:
        parameter.grad = gradient
    if parameter.requires_grad != requires_grad:
        parameter.requires_grad_(requires_grad)


def _restore_data(tensor: torch.Tensor, before: torch.Tensor) -> None:
    """Give a tensor its data back; ``before`` is a twin of what it was, see `model.tensors.is_twin`."""
    if not _has_same_elements(tensor, before):  # given other data: tensor.data = ..., tensor.set_(...)
        with torch.inference_mode(tensor.is_inference()):
            tensor.data = before


def _has_same_elements(tensor: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether a tensor still has the elements of its twin: with one address they share one storage."""
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
    return partial(for_each, _restore_size, [(tensor, tensor.untyped_storage().nbytes()) for tensor in plain])


def _restore_size(tensor: torch.Tensor, size: int) -> None:
    storage = tensor.untyped_storage()
    if storage.nbytes() > size and storage.resizable():
        storage.resize_(size)
