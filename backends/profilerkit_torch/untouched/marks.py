"""What is written on the model's tensors themselves: attributes of Python's, and hooks for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch

from profilerkit.process.restoring import call_each

from ..compat.modules import ACCUMULATION_HOOKS, GRADIENT_HOOKS
from .snapshots import refill

__all__ = ["note_marks"]

_HOOKS = (*GRADIENT_HOOKS, *ACCUMULATION_HOOKS)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Hooks(NamedTuple):
    """The hooks of one kind that a tensor had.

    Attributes:
        name: The tensor's attribute that has them.
        mapping: The value of that attribute: a mapping that autograd may have too, or None.
        content: A copy of what was in the mapping.
    """

    name: str
    mapping: Any
    content: dict[Any, Any]


#: What a tensor without any hooks has.
_NO_HOOKS = [_Hooks(name, None, {}) for name in _HOOKS]


class _Marks(NamedTuple):
    """The attributes and hooks that a tensor had."""

    tensor: Any
    attributes: dict[str, Any]
    hooks: list[_Hooks]


def note_marks(tensors: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Note the attributes and hooks of tensors, and return what puts them back.

    A pass may add some, and so does ``torch.compile``. Those of the tensors inside a wrapper tensor are put back too.
    """
    bare: list[torch.Tensor] = []  # nearly all: to note nothing of them saves time
    noted: list[_Marks] = []
    for tensor in _add_inner_tensors(tensors):
        if _has_marks(tensor):
            noted.append(_read_marks(tensor))
        else:
            bare.append(tensor)

    def restore() -> None:
        new = [_Marks(tensor, {}, _NO_HOOKS) for tensor in bare if _has_marks(tensor)]
        call_each(partial(_restore, marks) for marks in (*noted, *new))

    return restore


def _add_inner_tensors(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield tensors, and those that each wrapper tensor is made of."""
    for tensor in tensors:
        yield tensor
        if type(tensor) not in _PLAIN and hasattr(tensor, "__tensor_flatten__"):
            names, _ = tensor.__tensor_flatten__()
            inner = [getattr(tensor, name) for name in names]
            yield from _add_inner_tensors(part for part in inner if isinstance(part, torch.Tensor))


def _has_marks(tensor: Any) -> bool:
    """Return whether a tensor has an attribute or a hook; one that had hooks has an empty mapping for them."""
    return bool(tensor.__dict__) or any(getattr(tensor, name) is not None for name in _HOOKS)


def _read_marks(tensor: Any) -> _Marks:
    hooks = [_Hooks(name, getattr(tensor, name), dict(getattr(tensor, name) or {})) for name in _HOOKS]
    return _Marks(tensor, dict(tensor.__dict__), hooks)


def _restore(marks: _Marks) -> None:
    refill(marks.tensor.__dict__, marks.attributes)
    for hooks in marks.hooks:
        _restore_hooks(marks.tensor, hooks)


def _restore_hooks(tensor: Any, hooks: _Hooks) -> None:
    """Give a tensor the mapping of hooks that it had, with what was in it, and empty one that took its place."""
    current = getattr(tensor, hooks.name)
    if current is not hooks.mapping:
        if current is not None:
            current.clear()  # autograd has the mapping itself, and may go on calling what it holds
        setattr(tensor, hooks.name, hooks.mapping)
    if hooks.mapping is not None:
        refill(hooks.mapping, hooks.content)
