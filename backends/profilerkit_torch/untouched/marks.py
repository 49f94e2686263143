"""What is written on the model's tensors themselves: attributes of Python's, and hooks for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from profilerkit.process.restoring import for_each

from ..compat.modules import ACCUMULATION_HOOKS, GRADIENT_HOOKS
from .snapshots import refill

__all__ = ["restorer_of_marks"]

_HOOKS = (*GRADIENT_HOOKS, *ACCUMULATION_HOOKS)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Hooks(NamedTuple):
    """The hooks of one kind: under which name a tensor has them, the mapping itself or None, and what was in it."""

    name: str
    mapping: Any
    content: dict[Any, Any]


class _Marks(NamedTuple):
    """The attributes and hooks that a tensor had."""

    tensor: Any
    attributes: dict[str, Any]
    hooks: list[_Hooks]


def restorer_of_marks(tensors: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Return what puts back the attributes and hooks of tensors: a pass may add some, and so does ``torch.compile``.

    Those of the tensors inside a wrapper tensor are put back too.
    """
    bare: list[torch.Tensor] = []  # as nearly all are
    noted: list[_Marks] = []
    for tensor in _add_inner_tensors(tensors):
        if _has_marks(tensor):
            noted.append(_read_marks(tensor))
        else:
            bare.append(tensor)

    def restore() -> None:
        no_hooks = [_Hooks(name, None, {}) for name in _HOOKS]
        new = [_Marks(tensor, {}, no_hooks) for tensor in bare if _has_marks(tensor)]
        for_each(_restore, [(marks,) for marks in (*noted, *new)])

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
    return bool(tensor.__dict__) or any(getattr(tensor, name) is not None for name in _HOOKS)


def _read_marks(tensor: Any) -> _Marks:
    mappings = [(name, getattr(tensor, name)) for name in _HOOKS]
    hooks = [_Hooks(name, mapping, dict(mapping) if mapping else {}) for name, mapping in mappings]
    return _Marks(tensor, dict(tensor.__dict__), hooks)


def _restore(marks: _Marks) -> None:
    refill(marks.tensor.__dict__, marks.attributes)
    for hooks in marks.hooks:
        _restore_hooks(marks.tensor, hooks)


def _restore_hooks(tensor: Any, hooks: _Hooks) -> None:
    now = getattr(tensor, hooks.name)
    if now is not hooks.mapping:
        if now is not None:
            now.clear()  # autograd has the mapping itself, and may go on calling what it holds
        setattr(tensor, hooks.name, hooks.mapping)
    if hooks.mapping is not None:
        refill(hooks.mapping, hooks.content)
