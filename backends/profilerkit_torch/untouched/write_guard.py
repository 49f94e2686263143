"""Notices the tensors that a model writes to while it runs, and keeps their earlier values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from profilerkit.process.cached import cached_property, once_for_each
from profilerkit.process.restoring import restored

from ..compat.modes import WatchingMode, disable_dispatch_modes
from ..compat.operators import HigherOrderOperator, read_schema
from ..model.storages import has_storage, list_parts, storage_key
from .tensor_state import KeptValue, KeptVersion, list_versions, restore_versions, write_back, write_back_alone

__all__ = ["WriteGuard", "may_write", "written_by"]

#: The names of the arguments that a batch norm updates.
_RUNNING_STATISTICS = ("running_mean", "running_var")


class WriteGuard(WatchingMode):
    """While it is active, the first write to one of the tensors keeps the value it had; see `restore_at_end`.

    ``aliases`` are these tensors, each with another one over the same data; see `storages.list_aliases`.
    """

    supports_higher_order_operators = True

    def __init__(self, aliases: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self._aliases = list(aliases)
        self._saved: list[KeptValue] = []
        self._versions: list[KeptVersion] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and keep the values that it overwrites."""
        kwargs = kwargs or {}
        self.watch(func, args, kwargs)
        return func(*args, **kwargs)

    def watch(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep the values that an operator is about to overwrite; the operators in its functions come here too."""
        if not isinstance(func, HigherOrderOperator) and may_write(func):
            self.keep(written_by(func, args, kwargs))

    def keep(self, tensors: Iterable[torch.Tensor]) -> None:
        """Keep the present values of tensors that are about to be written to, or may be after the guard is gone."""
        for tensor in tensors:
            for part in list_parts(tensor) or [tensor]:
                self._keep(part)

    @cached_property
    def _aliases_by_storage(self) -> dict[int, list[tuple[torch.Tensor, torch.Tensor]]]:
        """The tensors of each storage that was not written to so far: found at the first write, if there is one."""
        guarded: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for tensor, alias in self._aliases:
            for part in list_parts(alias) or [alias]:
                guarded.setdefault(storage_key(part), []).append((tensor, part))
        return guarded

    def _keep(self, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        sharing = self._aliases_by_storage.get(key)
        if sharing:
            with disable_dispatch_modes():  # in a pass over fake tensors the copy would be one, without the values
                self._saved += [KeptValue(alias, alias.clone()) for _, alias in sharing if has_storage(alias)]
                self._versions += list_versions(guarded for guarded, _ in sharing)
            self._aliases_by_storage.pop(key, None)  # only now: a copy that failed is made at the next write

    def guards(self, tensor: torch.Tensor) -> bool:
        """Return whether nothing has written to the tensor so far, and the first write would be noticed."""
        return storage_key(tensor) in self._aliases_by_storage

    def restore_at_end(self) -> restored:
        """Return a block that writes the kept values back at the end, after errors too."""
        return restored(
            lambda: write_back(self._saved),
            lambda: restore_versions(self._versions),
            in_child=lambda: write_back_alone(self._saved),
        )


@once_for_each
def may_write(func: Any) -> bool:
    """Return whether an operator may write to an argument, or does so in some of its calls."""
    return bool(read_schema(func).is_mutable) or _updates_statistics(func)


def _updates_statistics(func: Any) -> bool:
    """Return whether an operator may update running statistics, which its schema does not say."""
    return "batch_norm" in read_schema(func).name


def written_by(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operator writes to."""
    undeclared = _RUNNING_STATISTICS if _updates_statistics(func) else ()
    for position, argument in enumerate(read_schema(func).arguments):
        is_declared = argument.alias_info is not None and argument.alias_info.is_write
        if is_declared or argument.name in undeclared:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            values = value if isinstance(value, (list, tuple)) else (value,)
            yield from (tensor for tensor in values if isinstance(tensor, torch.Tensor))
