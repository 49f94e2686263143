"""The signature of an operator's call: what its cost and the shapes of its outputs depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from ..compat.fake_tensors import FakeTensor
from ..compat.operators import find_operator
from ..compat.tensors import storage_address
from .attention_kernels import list_enabled_kernels

__all__ = ["Signature", "may_be_kept", "signature"]

_ATTENTION = find_operator("aten.scaled_dot_product_attention.default")
#: Of a tensor of another type nobody knows what its shape leaves out.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)
#: Types of what a key has of arguments that are no objects of the user's.
_PLAIN = frozenset(
    (
        *(int, float, complex, bool, str, type, type(None), tuple),
        *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)


class Signature(NamedTuple):
    """What is read of an operator's call before it runs.

    Attributes:
        key: What its cost and output shapes depend on; None where that is more than can be told.
        are_known: Whether the origin of all its tensors is known.
        makers: Which operators wrote last to its tensors: places as `LiveBytes` has them, those before the first too.
    """

    key: Any
    are_known: bool
    makers: set[int]


def signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> Signature:
    """Return the signature of an operator's call.

    A formula gets shapes, and of tensors nothing else. Those of sparse and nested tensors have what they store, which
    is for their values to say: an operator on such a tensor is never remembered. A quotient of integers has torch's
    default dtype, which a model may change while it runs, as it may change the kernels of attention. ``storages`` are
    those of known origin, see `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    if func is _ATTENTION:
        facets.append(list_enabled_kernels())
    makers: set[int] = set()
    try:
        are_known = _add_facets(args, facets, makers, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, makers, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return Signature(None, False, makers)
    return Signature(tuple(facets), are_known, makers)


def may_be_kept(func: Any, key: Any) -> bool:
    """Return whether what is known of an operator by a key may be kept for as long as the process lives.

    Another library may give its operators other kernels, and an object of the user's would be kept alive.
    """
    return key is not None and func.namespace == "aten" and _PLAIN.issuperset(map(type, key))


def _add_facets(values: Iterable[Any], facets: list[Any], makers: set[int], storages: Mapping[int, Any]) -> bool:
    """Add what a key has of each value, and who wrote to it; return whether the origin of all tensors is known.

    A key has the type of a value and the value itself, and of a tensor the shape and what else decides the outputs.
    """
    are_known = True
    for value in values:
        kind = type(value)
        if kind in _DENSE_TYPES:
            # Sparse and nested tensors have no storage, or no shape.
            entry = storages.get(storage_address(value.untyped_storage()))
            if entry is None or entry.suspicion is not None:
                are_known = False
            if entry is not None:
                makers.add(entry.maker)
            facets += (value.shape, value.stride(), value.dtype, value.is_meta)
        elif isinstance(value, (list, tuple)):
            facets += (kind, len(value))
            are_known &= _add_facets(value, facets, makers, storages)
        elif isinstance(value, torch.Tensor):
            raise NotImplementedError
        else:
            facets += (kind, value)
    return are_known
