"""Noticing what a model writes to while it runs, and writing back what was there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["WriteGuard", "has_values", "write_back"]


def has_values(tensor: torch.Tensor) -> bool:
    """Say whether a tensor has values that could be kept: not on the meta device, not lazy."""
    return not (tensor.is_meta or is_lazy(tensor))


def write_back(values: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Give each tensor the values that were kept of it, where they have changed."""
    for tensor, value in values:
        with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
            if not _equal(tensor, value):
                tensor.copy_(value)


def _equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    try:
        return torch.equal(tensor, value)
    except RuntimeError:  # sparse tensors cannot be compared
        return False


class WriteGuard(TorchDispatchMode):
    """While it is active, the first write to one of the tensors keeps the value it had; see `restoring`."""

    supports_higher_order_operators = True

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._aliases = [tensor.detach() for tensor in tensors if has_values(tensor)]
        self._saved: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, keeping what it is about to overwrite."""
        kwargs = kwargs or {}
        if not isinstance(func, HigherOrderOperator):
            self.watch(func, args, kwargs)
        return func(*args, **kwargs)

    def watch(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep what an operator that is about to run will overwrite."""
        for tensor in _written(func, args, kwargs):
            self._keep(tensor)

    def keep(self, tensors: Iterable[torch.Tensor]) -> None:
        """Keep the values of these now: for what may be written after the guard has gone."""
        for tensor in tensors:
            self._keep(tensor)

    @cached_property
    def _guarded(self) -> dict[int, list[torch.Tensor]]:
        """What shares each storage that was not written to so far: found at the first write, which may never come."""
        guarded: dict[int, list[torch.Tensor]] = {}
        for alias in self._aliases:
            guarded.setdefault(_storage_key(alias), []).append(alias)
        return guarded

    def _keep(self, tensor: torch.Tensor) -> None:
        sharing = self._guarded.pop(_storage_key(tensor), ())
        self._saved += [(guarded, guarded.clone()) for guarded in sharing]

    def guards(self, tensor: torch.Tensor) -> bool:
        """Say whether a write to the tensor would still be noticed, none having been so far."""
        return _storage_key(tensor) in self._guarded

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Write the kept values back at the end, after errors too."""
        try:
            yield
        finally:
            write_back(self._saved)


def _storage_key(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # tensors without storage, sparse ones say
        return id(tensor)


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    if "batch_norm" in func._schema.name:  # updates its running statistics without saying so in the schema
        yield from (tensor for tensor in args[3:5] if isinstance(tensor, torch.Tensor))
    if not func._schema.is_mutable:
        return
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor
