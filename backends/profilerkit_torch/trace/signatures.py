"""Signatures: what an operator's call is before it runs, and by which a plan of it is found again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from msgspec import Struct
from torch import nn

from ..compat.operators import find_operator
from ..compat.tensors import FakeTensor, storage_address
from .attention_kernels import list_kernel_conditions
from .operator_facts import tensors_among

__all__ = ["Signature", "read_signature"]

_ATTENTION = find_operator("aten.scaled_dot_product_attention.default")
_LINEAR = find_operator("aten.linear.default")
#: Types of tensors whose shape, strides and dtype tell everything that a formula reads.
_DENSE_TYPES = (torch.Tensor, nn.Parameter, FakeTensor)


class Signature(Struct, frozen=True):
    """The facts of an operator's call before it runs.

    Attributes:
        key: Everything that its cost and output shapes depend on; None if they depend on more.
        are_known: Whether the origin of all its tensors is known.
        makers: The operators that wrote last to its tensors, by the numbers of `LiveBytes`, with `INPUT` and `NOBODY`.
    """

    key: Any
    are_known: bool
    makers: set[int]


def read_signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> Signature:
    """Return the signature of an operator's call.

    A formula gets the shapes of tensors and nothing else. The shapes of sparse and nested tensors depend on values: an
    operator on such a tensor is never remembered. A quotient of integers has torch's default dtype, which a model may
    change while it runs. The memory of attention depends on its kernel, and of a linear layer on whether it is trained.
    ``storages`` are the storages of known origin, see `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    if func is _ATTENTION:
        facets.append(list_kernel_conditions(tensors_among(args, kwargs)))
    elif func is _LINEAR:
        facets.append(args[1].requires_grad)
    makers: set[int] = set()
    try:
        are_known = _add_facets(args, facets, makers, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            are_known &= _add_facets(kwargs.values(), facets, makers, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense
        return Signature(None, False, makers)
    return Signature(tuple(facets), are_known, makers)


def _add_facets(values: Iterable[Any], facets: list[Any], makers: set[int], storages: Mapping[int, Any]) -> bool:
    """Add the facets of each value to a key, and its last writer; return whether the origin of all tensors is known.

    The facets of a tensor are its shape, strides, dtype and device; those of any other value its type and the value.
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
