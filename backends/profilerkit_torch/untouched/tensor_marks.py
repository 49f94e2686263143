"""The attributes that Python code has given to tensors, and their hooks for gradients, and how both are restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeAlias

import torch

from profilerkit.process.containers import refill
from profilerkit.process.restoring import for_each

from ..compat.modules import ACCUMULATION_HOOKS, GRADIENT_HOOKS
from ..model.tensors import PLAIN_TYPES

__all__ = ["note_marks"]

_HOOKS = (*GRADIENT_HOOKS, *ACCUMULATION_HOOKS)
_read_all = attrgetter("__dict__", *_HOOKS)
#: The state of a tensor without attributes and hooks; a tensor that had hooks has an empty mapping for them.
_BARE: Any = ({}, *[None] * len(_HOOKS)) if _HOOKS else {}


#: For each kind of hooks the attribute that has them, its value, and a copy of its content.
_Hooks: TypeAlias = list[tuple[str, Any, dict[Any, Any]]]
#: Of a tensor without any hooks.
_NO_HOOKS: _Hooks = [(name, None, {}) for name in _HOOKS]


def note_marks(tensors: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Note the attributes and hooks of tensors, and return a function that restores them.

    A pass may add some, and so does ``torch.compile``. The tensors inside a wrapper tensor are restored too.
    """
    tensors = _add_inner_tensors(tensors)
    noted = [_note(tensor) for tensor in tensors if _read_all(tensor) != _BARE]
    bare = [tensor for tensor in tensors if _read_all(tensor) == _BARE]  # nearly all: to note nothing saves time

    def restore() -> None:
        new: list[tuple[Any, dict[str, Any], _Hooks]] = [
            (tensor, {}, _NO_HOOKS) for tensor in bare if _read_all(tensor) != _BARE
        ]
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


def _note(tensor: Any) -> tuple[Any, dict[str, Any], _Hooks]:
    """Return a tensor with its attributes and its hooks, as `_restore` takes them."""
    hooks = [(name, getattr(tensor, name), dict(getattr(tensor, name) or {})) for name in _HOOKS]
    return tensor, dict(tensor.__dict__), hooks


def _restore(tensor: Any, attributes: dict[str, Any], hooks: _Hooks) -> None:
    """Give a tensor its attributes and its mappings of hooks back, with their content."""
    refill(tensor.__dict__, attributes)
    for name, mapping, content in hooks:
        current = getattr(tensor, name)
        if current is not mapping:
            if current is not None:
                current.clear()  # autograd has the mapping itself, and may go on calling the hooks in it
            setattr(tensor, name, mapping)
        if mapping is not None:
            refill(mapping, content)
