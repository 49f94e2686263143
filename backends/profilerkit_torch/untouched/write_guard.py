"""Noticing what a model writes to while it runs, and writing back what was there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from profilerkit.process.cached import cached_property
from profilerkit.process.restoring import for_each, restored

from ..compat import (
    HigherOrderOperator,
    TorchDispatchMode,
    count_writes,
    disable_dispatch_modes,
    internal_overlap,
    schema_of,
    set_version,
)
from ..model.tensors import has_storage, has_values, storage_key

__all__ = ["WriteGuard", "list_versions", "restore_versions", "write_back", "written_by"]


#: What torch answers for a tensor that it does not write to; where it cannot tell it writes.
_OVERLAPS = 1


def write_back(values: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Give each tensor the values that were kept of it, where they have changed."""
    for_each(_write_back, values)


def _write_back(tensor: torch.Tensor, value: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()):
        if has_storage(tensor) and not _equal(tensor, value):
            _copy_to(tensor, value)


def _copy_to(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy values to a tensor, several elements of which may be one in memory; torch refuses that after ``expand``."""
    if tensor.layout is not torch.strided or tensor.is_nested or internal_overlap(tensor) != _OVERLAPS:
        tensor.copy_(value)
        return
    places: torch.Tensor = torch.zeros(tensor.shape, dtype=torch.int64, device=tensor.device)
    places += int(tensor.storage_offset())
    for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = torch.arange(size, device=tensor.device) * stride
        places += steps.reshape(-1, *[1] * (tensor.dim() - dimension - 1))
    elements = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    elements[places.flatten()] = value.flatten()


def list_versions(tensors: Iterable[torch.Tensor]) -> list[tuple[torch.Tensor, int]]:
    """Return the version of each tensor that counts its writes; inference tensors do not."""
    return [(tensor, count_writes(tensor)) for tensor in tensors if has_values(tensor) and not tensor.is_inference()]


def restore_versions(versions: Iterable[tuple[torch.Tensor, int]]) -> None:
    """Count the writes to tensors that have their values again as none.

    Else autograd would refuse the backward pass of a graph that the caller has made before and that needs them.
    """
    for tensor, version in versions:
        if count_writes(tensor) != version:
            set_version(tensor, version)


def _equal(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    if tensor.layout is torch.sparse_coo:  # to copy to one would give it other storage, with nothing having changed
        return _same_parts(tensor, value, ("_indices", "_values"))
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
        parts = ("crow_indices", "col_indices") if rows else ("ccol_indices", "row_indices")
        return _same_parts(tensor, value, (*parts, "values"))
    if tensor.is_nested and tensor.layout is torch.strided:  # it has no shape, its samples do
        return all(map(torch.equal, tensor.unbind(), value.unbind()))
    try:
        return torch.equal(tensor, value)
    except RuntimeError:  # some that are packed cannot be compared
        return False


def _same_parts(tensor: torch.Tensor, value: torch.Tensor, parts: Iterable[str]) -> bool:
    pairs = [(getattr(tensor, part)(), getattr(value, part)()) for part in parts]
    return tensor.shape == value.shape and all(torch.equal(one, other) for one, other in pairs)


class WriteGuard(TorchDispatchMode):
    """While it is active, the first write to one of the tensors keeps the value it had; see `restore_at_end`.

    ``aliases`` are tensors over the data of further ones, ``counting`` those whose versions go back with their values.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        tensors: Iterable[torch.Tensor],
        aliases: Iterable[torch.Tensor] = (),
        counting: Iterable[torch.Tensor] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        tensors = list(tensors)
        self._aliases = [*(tensor.data for tensor in tensors if has_values(tensor)), *aliases]
        self._saved: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._versions = list_versions((*tensors, *counting))
        #: The operators so far, kept alive so that their ids stay theirs, and whether they may write.
        self._operators: dict[int, tuple[Any, bool]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, keeping what it is about to overwrite."""
        kwargs = kwargs or {}
        if not isinstance(func, HigherOrderOperator):
            self.watch(func, args, kwargs)
        return func(*args, **kwargs)

    def watch(self, func: Any, args: Any, kwargs: Any) -> None:
        """Keep what an operator that is about to run will overwrite."""
        entry = self._operators.get(id(func))
        if entry is None:
            entry = self._operators[id(func)] = func, _may_write(func)
        if entry[1]:
            for tensor in written_by(func, args, kwargs):
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
            guarded.setdefault(storage_key(alias), []).append(alias)
        return guarded

    def _keep(self, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        sharing = self._guarded.get(key)
        if sharing:
            with disable_dispatch_modes():  # in a pass over fake tensors the copy would be one, without the values
                self._saved += [(guarded, guarded.clone()) for guarded in sharing if has_storage(guarded)]
            self._guarded.pop(key, None)  # only now: a copy that failed is made at the next write

    def guards(self, tensor: torch.Tensor) -> bool:
        """Return whether a write to the tensor would still be noticed, none having been so far."""
        return storage_key(tensor) in self._guarded

    def restore_at_end(self) -> restored:
        """Return a block that writes the kept values back at the end, after errors too."""
        return restored(
            lambda: write_back(self._saved), self._restore_versions, in_child=lambda: _write_back_alone(self._saved)
        )

    def _restore_versions(self) -> None:
        if self._saved:
            restore_versions((tensor, version) for tensor, version in self._versions if not self.guards(tensor))


def _write_back_alone(values: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Write values back in a forked child, by this thread alone: torch's others are gone. It has no GPU either."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    write_back((tensor, value) for tensor, value in values if tensor.device.type == "cpu")
    torch.set_num_threads(threads)


def _may_write(func: Any) -> bool:
    return bool(schema_of(func).is_mutable) or "batch_norm" in schema_of(func).name


def written_by(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operator writes to."""
    if "batch_norm" in schema_of(func).name:  # updates its running statistics without saying so in the schema
        yield from (tensor for tensor in args[3:5] if isinstance(tensor, torch.Tensor))
    if not schema_of(func).is_mutable:
        return
    for position, argument in enumerate(schema_of(func).arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor
