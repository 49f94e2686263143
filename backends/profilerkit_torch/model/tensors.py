"""Classes of tensors, and tensors with values, with a graph, or alive."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from profilerkit.process.cached import once_for_each

from ..compat.tensors import TensorBase, is_view

__all__ = [
    "PLAIN_TYPES",
    "has_graph",
    "has_own_function",
    "has_unsized",
    "have_graphs",
    "is_wrapper_class",
    "list_tensors_alive",
    "list_with_values",
    "list_wrapped",
    "view_like",
]

#: Classes of tensors that are just their elements; tensors that pack or wrap others have classes of their own.
PLAIN_TYPES = (torch.Tensor, nn.Parameter)
#: What answers torch's functions for plain tensors, and for parameters.
_FUNCTIONS: tuple[Any, ...] = (
    vars(torch.Tensor)["__torch_function__"].__func__,
    vars(nn.Parameter)["__torch_function__"],
)


def list_with_values(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors with values that could be kept: not on the meta device, not lazy."""
    return [tensor for tensor in tensors if not (tensor.is_meta or isinstance(tensor, UninitializedTensorMixin))]


def list_tensors_alive() -> list[torch.Tensor]:
    """Return the tensors that the garbage collector has noted.

    There may be millions of objects of some thousands of types: no Python code runs for each of them.
    """
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, TensorBase)}
    return [*compress(objects, map(kinds.__contains__, map(type, objects)))]


def has_unsized(tensors: Iterable[torch.Tensor]) -> bool:
    """Return whether parameters or buffers of lazy modules, which have no size yet, are among tensors."""
    return any(issubclass(kind, UninitializedTensorMixin) for kind in set(map(type, tensors)))


def has_graph(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has a graph behind it; False for views that raise when asked, as of buckets of DDP."""
    try:
        return tensor.grad_fn is not None
    except RuntimeError:
        return False


def have_graphs(tensors: Sequence[torch.Tensor]) -> list[bool]:
    """Return for each tensor whether it has a graph behind it, see `has_graph`."""
    try:
        return [tensor.grad_fn is not None for tensor in tensors]
    except RuntimeError:  # of one of them
        return list(map(has_graph, tensors))


def has_own_function(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's class answers torch's functions itself, and leaves the operators to torch."""
    kind = type(tensor)
    if kind in PLAIN_TYPES:
        return False
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    return function not in _FUNCTIONS and not hasattr(kind, "__tensor_flatten__")


@once_for_each
def is_wrapper_class(kind: type) -> bool:
    """Return whether a class of tensors makes of each operator others, on tensors that it wraps; not so ``DTensor``."""
    return kind not in PLAIN_TYPES and hasattr(kind, "__tensor_flatten__") and not hasattr(kind, "to_local")


def list_wrapped(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the tensors that a wrapper is made of, of wrappers inside it theirs; of any other tensor none."""
    if not is_wrapper_class(type(tensor)):
        return []
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    parts = [getattr(tensor, name) for name in names]
    return [inner for part in parts for inner in list_wrapped(part) or [part]]


def view_like(tensor: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a view where the one that it stands for is a view, which a model may ask of its inputs."""
    return tensor.view_as(tensor) if is_view(original) else tensor
