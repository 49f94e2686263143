"""The values of tensors, and how often these were written to: both are put back as they were."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import torch

from profilerkit.process.restoring import call_each

from ..compat.autograd import set_version
from ..compat.tensors import count_writes, has_shared_elements
from ..model.stored_bytes import SPARSE_PARTS
from ..model.tensors import has_storage, list_with_values

__all__ = ["KeptValue", "KeptVersion", "list_versions", "restore_versions", "write_back", "write_back_alone"]


class KeptValue(NamedTuple):
    """A tensor, and a copy of the values that it had."""

    tensor: torch.Tensor
    value: torch.Tensor


class KeptVersion(NamedTuple):
    """A tensor, and how often it had been written to."""

    tensor: torch.Tensor
    writes: int


# Values ---------------------------------------------------------------------------------------------------------------


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
    """Copy values to a tensor; where torch refuses to, because elements share their memory, into its storage."""
    if tensor.layout is not torch.strided or tensor.is_nested or not has_shared_elements(tensor):
        tensor.copy_(value)
        return
    length = tensor.untyped_storage().nbytes() // tensor.element_size()
    storage = tensor.as_strided((length,), (1,), 0)
    storage[_list_places(tensor).flatten()] = value.flatten()


def _list_places(tensor: torch.Tensor) -> torch.Tensor:
    """Return where in its storage each element lies, in the shape of the tensor: ``offset + sum(index * stride)``."""
    places = torch.full(tensor.shape, int(tensor.storage_offset()), dtype=torch.int64, device=tensor.device)
    for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = torch.arange(size, device=tensor.device) * stride
        places += steps.reshape(-1, *[1] * (tensor.dim() - dimension - 1))
    return places


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
    """Return whether what methods of these names return is equal for both."""
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
