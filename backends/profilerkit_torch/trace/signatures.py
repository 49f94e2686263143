"""The signature of an operator's call: what its cost and the shapes of its outputs depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ..compat.tensors import FakeTensor, storage_address

__all__ = ["signature"]

#: Of a tensor of another type nobody knows what its shape leaves out.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)


def signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> tuple[Any, bool]:
    """Return what an operator's cost and output shapes depend on, and whether all its tensors are known.

    The first is None where it is more than can be told. A formula gets shapes, and of tensors nothing else. Those of
    sparse and nested tensors have what they store, which is for their values to say: an operator on such a tensor is
    never remembered. A quotient of integers has torch's default dtype, which a model may change while it runs.
    ``storages`` are those of known origin, see `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    try:
        are_known = _add_facets(args, facets, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return None, False
    return tuple(facets), are_known


def _add_facets(values: Iterable[Any], facets: list[Any], storages: Mapping[int, Any]) -> bool:
    """Add each value: its type and itself, of a tensor its shape, which is no type, and more."""
    are_known = True
    for value in values:
        kind = type(value)
        if kind in _DENSE_TYPES:
            # Sparse and nested tensors have no storage, or no shape.
            entry = storages.get(storage_address(value.untyped_storage()))
            if entry is None or entry.suspicion is not None:
                are_known = False
            facets += (value.shape, value.stride(), value.dtype, value.is_meta)
        elif isinstance(value, (list, tuple)):
            facets += (kind, len(value))
            are_known &= _add_facets(value, facets, storages)
        elif isinstance(value, torch.Tensor):
            raise NotImplementedError
        else:
            facets += (kind, value)
    return are_known
