"""What is written on the model's tensors themselves: attributes of Python's, and hooks for their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from profilerkit.process.restoring import for_each

from ..compat import ACCUMULATION_HOOKS, GRADIENT_HOOKS
from .snapshots import refill

__all__ = ["restorer_of_marks"]

_HOOKS = (*GRADIENT_HOOKS, *ACCUMULATION_HOOKS)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def restorer_of_marks(tensors: Iterable[torch.Tensor]) -> Callable[[], None]:
    """Return what puts back the attributes and hooks of tensors: a pass may add some, and so does ``torch.compile``.

    Those of the tensors inside a wrapper tensor are put back too.
    """
    bare: list[torch.Tensor] = []  # as nearly all are
    marked: list[torch.Tensor] = []
    for tensor in _with_inner_tensors(tensors):
        (marked if _has_marks(tensor) else bare).append(tensor)
    noted = [(tensor, dict(tensor.__dict__), _list_hooks(tensor)) for tensor in marked]

    def restore() -> None:
        new: list[Any] = [(tensor, {}, [(None, {})] * len(_HOOKS)) for tensor in bare if _has_marks(tensor)]
        for_each(_restore, [*noted, *new])

    return restore


def _restore(tensor: Any, attributes: dict[str, Any], hooks: list[tuple[Any, dict[Any, Any]]]) -> None:
    refill(tensor.__dict__, attributes)
    for name, (hooks_before, content) in zip(_HOOKS, hooks, strict=True):
        _restore_hooks(tensor, name, hooks_before, content)


def _with_inner_tensors(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield tensors, and those that each wrapper tensor is made of."""
    for tensor in tensors:
        yield tensor
        if type(tensor) not in _PLAIN and hasattr(tensor, "__tensor_flatten__"):
            inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
            yield from _with_inner_tensors(part for part in inner if isinstance(part, torch.Tensor))


def _has_marks(tensor: Any) -> bool:
    return bool(tensor.__dict__) or any(getattr(tensor, name) is not None for name in _HOOKS)


def _list_hooks(tensor: Any) -> list[tuple[Any, dict[Any, Any]]]:
    mappings = [getattr(tensor, name) for name in _HOOKS]
    return [(mapping, dict(mapping) if mapping else {}) for mapping in mappings]


def _restore_hooks(tensor: Any, name: str, before: Any, content: dict[Any, Any]) -> None:
    now = getattr(tensor, name)
    if now is not before:
        if now is not None:
            now.clear()  # autograd has the mapping itself, and may go on calling what it holds
        setattr(tensor, name, before)
    if before is not None:
        refill(before, content)
