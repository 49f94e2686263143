"""The signature of an operator's call: what its cost and the shapes of its outputs depend on."""

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
#: Types of other arguments that a key may have: an object of the user's would be kept alive.
_PLAIN_TYPES = frozenset(
    (
        *(int, float, complex, bool, str, type(None)),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    )
)


class Signature(Struct):
    """What is known of an operator's call before it runs, by one look at each of its arguments.

    Attributes:
        key: What its cost and output shapes depend on; None if they depend on more.
        makers: The operators that wrote last to its tensors, by the numbers of `LiveBytes`, with `INPUT` and `NOBODY`.
        has_suspects: Whether the origin of a tensor is not known.
        has_known_values: Whether a tensor is a stand-in whose values are known.
        has_unknown_values: Whether there is another tensor.
    """

    key: tuple[Any, ...] | None
    makers: set[int]
    has_suspects: bool = False
    has_known_values: bool = False
    has_unknown_values: bool = False


def read_signature(func: Any, args: Any, kwargs: Any, storages: Mapping[int, Any]) -> Signature:
    """Return the signature of an operator's call.

    A formula gets the shapes of tensors and nothing else. The shapes of sparse and nested tensors depend on values: an
    operator on such a tensor has no key, nor has one that is given an object. A quotient of integers has torch's
    default dtype, which a model may change while it runs. The memory of attention depends on its kernel, and of a
    linear layer on whether it is trained. ``storages`` are those of known origin, see `LiveBytes.by_storage`.
    """
    # Operators stay where they are, and their own hash is slow.
    facets: list[Any] = [id(func), torch.get_default_dtype()]
    if func is _ATTENTION:
        facets.append(list_kernel_conditions(tensors_among(args, kwargs)))
    elif func is _LINEAR:
        facets.append(args[1].requires_grad)
    signature = Signature(None, set())
    try:
        _read_values(args, facets, signature, storages)
        if kwargs:
            facets.append(tuple(kwargs))
            _read_values(kwargs.values(), facets, signature, storages)
    except (RuntimeError, NotImplementedError):  # of tensors that are not dense, and of objects
        return Signature(None, signature.makers, has_suspects=True)
    signature.key = tuple(facets)
    return signature


def _read_values(values: Iterable[Any], facets: list[Any], signature: Signature, storages: Mapping[int, Any]) -> None:
    """Add the facets of each argument to those of the call, and what is known of its tensors to the signature.

    The facets of a tensor are its shape, strides and dtype, and whether it is on the meta device; those of any other
    value its type and the value.
    """
    for value in values:
        kind = type(value)
        if kind in _DENSE_TYPES:
            # Sparse and nested tensors have no storage, or no shape.
            watched = storages.get(storage_address(value.untyped_storage()))
            if watched is None:
                signature.has_suspects = signature.has_unknown_values = True
            else:
                signature.makers.add(watched.maker)
                if watched.suspicion is not None:
                    signature.has_suspects = True
                if watched.values is None:
                    signature.has_unknown_values = True
                else:
                    signature.has_known_values = True
            facets += (value.shape, value.stride(), value.dtype, value.is_meta)
        elif isinstance(value, (list, tuple)):
            facets += (kind, len(value))
            _read_values(value, facets, signature, storages)
        elif kind in _PLAIN_TYPES:
            facets += (kind, value)
        else:
            raise NotImplementedError
