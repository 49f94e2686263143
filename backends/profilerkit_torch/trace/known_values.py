"""Values in a pass on shapes alone: what depends on no weight and on no floating-point input keeps its values.

Positions, masks and lengths decide which way a model takes. Each such tensor on the meta device, or fake tensor, has a
small *twin* on the CPU, which the same operators act on: a view of the tensor has a view of the twin, an operator in
place writes to the twin. Random numbers have no twin, nor has anything above a mebibyte.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from ..compat import FakeTensor, disable_dispatch_modes, is_zerotensor, operator, schema_of, tag
from ..model.tensors import storage_key
from ..untouched.write_guard import written_by
from .replay import FROM_SHAPES, tensors_in

__all__ = ["FakeValues", "KnownValues"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept.
_MOST_BYTES = 2**20
#: Parts of the names of operators whose results have no values that could be known, beside those tagged as random.
_WITHOUT_VALUES = ("empty", "resize", "aten::set_", "aten::rand", "_quantize")
_SEEDED = tag("nondeterministic_seeded")
_INDEX = operator("aten.index.Tensor")
_MASKED_SELECT = operator("aten.masked_select.default")
_REPEAT = operator("aten.repeat_interleave.self_Tensor")
_TO_COPY = operator("aten._to_copy.default")


class KnownValues:
    """The twins of the tensors of one pass on the meta device."""

    def __init__(self) -> None:
        #: By the ``id`` of a tensor without values that is alive: its twin, or the real tensor that has its values.
        self.twins: dict[int, _Twin | torch.Tensor] = {}
        #: How many tensors with a twin share a storage.
        self.storages: Counter[int] = Counter()
        #: The tensors whose values are still those of a real tensor.
        self._sources: list[torch.Tensor] = []
        self._by_storage: dict[int, torch.Tensor] | None = None
        #: Storages of real tensors that were written to with values that are unknown.
        self._overwritten: set[int] = set()

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return tensor.is_meta

    def real(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of real tensors."""
        return func(*args, **kwargs)

    def _like(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return a tensor without values like another one, or that itself if it has none."""
        like: torch.Tensor = _on_meta(tensor)
        return like

    def read_from(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Let a tensor without values have those of the real one that it stands in for throughout, if integers."""
        if not (source.is_floating_point() or source.is_complex() or source.is_meta):
            self.twins[id(tensor)] = source
            self._sources.append(tensor)

    def forget(self) -> None:
        """Let go of all tensors after the pass: its recorder is part of a cycle, and they would outlive it."""
        for kept in (self.twins, self.storages, self._sources):
            kept.clear()
        self._by_storage = None

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor's values, on the CPU; None where they are unknown."""
        if not self.stands_in(tensor):
            moved: torch.Tensor | None = None
            if not self.is_overwritten(tensor):
                moved = self.real(torch.Tensor.to, (tensor, _CPU), {})
            return moved
        twin = self.twins.get(id(tensor))
        if isinstance(twin, _Twin):
            return twin.values if twin() is tensor else None
        if twin is None or not _is_small(twin):
            return None
        values: torch.Tensor = self.real(torch.Tensor.to, (twin, _CPU), {"copy": True})  # for operators in place
        self._keep(tensor, values)
        return values

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Do to the twins what an operator did without values; ``args`` may have real tensors."""
        nature = _nature(func)
        if nature.writes:
            self._follow_write(func, args, kwargs)
            return
        if not nature.has_values:
            return
        outputs = list(tensors_in(result))
        if func.is_view or all(map(_is_small, outputs)):
            for tensor, values in zip(outputs, tensors_in(self._compute(func, args, kwargs)), strict=False):
                if self.stands_in(tensor) and tensor.shape == values.shape:
                    self._keep(tensor, values)

    def written(self, tensor: torch.Tensor) -> None:
        """Forget the values of all that shares storage with a tensor, which was written to."""
        key = storage_key(tensor)
        if not self.stands_in(tensor):
            self._overwritten.add(key)
            return
        if key in self.storages:
            for twin in [twin for twin in self.twins.values() if isinstance(twin, _Twin) and twin.storage == key]:
                self._forget(twin)

    def answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes whose output shapes or numbers depend on values; NotImplemented if unknown."""
        values = self._compute(func, args, kwargs)
        device = next((tensor.device for tensor in tensors_in(args) if self.stands_in(tensor)), _CPU)
        if values is not None:
            return self._without_values(values, device)
        if func is _INDEX:
            indices = list(self._without_masks(args[1], device))
            if not any(map(_is_mask, args[1])) or any(map(_is_mask, indices)):
                return NotImplemented
            return func(self._like(args[0], device), indices)
        if func is _MASKED_SELECT and (mask := self.of(args[1])) is not None:
            chosen = self.real(_sum_chosen, (mask, torch.broadcast_shapes(args[0].shape, mask.shape)), {})
            return torch.empty(chosen, dtype=args[0].dtype, device=device)
        return NotImplemented

    def on_cpu(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
        """Return the real tensor that moves a meta one to the CPU, where its values are known; no fake one is moved."""
        if func is not _TO_COPY or not args[0].is_meta or torch.device(kwargs.get("device", _META)) != _CPU:
            return None
        values = self.of(args[0])
        return None if values is None else func(values, **kwargs)

    def with_size(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the keyword arguments, with the size that ``repeat_interleave`` of meta tensors needs, if known."""
        if func is not _REPEAT or kwargs.get("output_size") is not None or (repeats := self.of(args[1])) is None:
            return kwargs
        repeated, dim = args[0], args[2] if len(args) > 2 else kwargs.get("dim")
        length = repeated.numel() if dim is None else repeated.shape[dim]
        return {**kwargs, "output_size": self.real(_sum_chosen, (repeats, (length,)), {})}

    def _without_masks(self, indices: Iterable[Any], device: torch.device) -> Iterator[Any]:
        """Yield the indices without values; for a known mask the positions that it chooses."""
        for index in indices:
            mask = self.of(index) if _is_mask(index) else None
            if mask is None:
                yield index if index is None else self._like(index, device)
            else:
                yield from (self._like(positions, device) for positions in self.real(_positions, (mask,), {}))

    def _without_values(self, values: Any, device: torch.device) -> Any:
        """Return tensors without values that have these as their twins; numbers as they are."""
        if isinstance(values, torch.Tensor):
            tensor = self._like(values, device)
            if _is_small(values):
                self._keep(tensor, values)
            return tensor
        if isinstance(values, (list, tuple)):
            return tuple(self._without_values(value, device) for value in values)
        return values

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes of the values of its tensors; None where some are unknown or too many."""
        nature = _nature(func)
        named = dict(kwargs)
        if not nature.from_shapes:
            try:
                args = self._values_in(args, func.is_view)
                named = {name: self._values_in(value, func.is_view) for name, value in named.items()}
            except _UnknownError:
                return None
        if nature.takes_device and (named.get("device") is not None or nature.from_shapes):
            named["device"] = _CPU
        try:
            return self.real(func, args, named)
        except MemoryError:
            raise
        except Exception:  # the operator without values reports what is wrong with its arguments
            return None

    def _values_in(self, value: Any, is_view: bool) -> Any:
        if isinstance(value, torch.Tensor):
            values = self.of(value)
            if values is None or not (is_view or _is_small(values)):
                raise _UnknownError
            # Zeros that torch makes no memory for: its primitives would read there.
            return values.clone() if is_zerotensor(values) else values
        if type(value) in (list, tuple):
            return type(value)(self._values_in(item, is_view) for item in value)
        return _CPU if isinstance(value, torch.device) else value  # ``to.device`` takes it by position

    def _follow_write(self, func: Any, args: Any, kwargs: Any) -> None:
        targets = list(written_by(func, args, kwargs))
        for target in targets:
            self._make_independent(target)
        if not any(not self.stands_in(target) or storage_key(target) in self.storages for target in targets):
            return
        if not _nature(func).has_values or self._compute(func, args, kwargs) is None:
            for target in targets:
                self.written(target)

    def _make_independent(self, target: torch.Tensor) -> None:
        """Copy the real values that an operator is about to write over, also through another tensor like ``x.data``."""
        if self._sources and self.stands_in(target) and not target.is_floating_point():
            if self._by_storage is None:
                self._by_storage = {storage_key(tensor): tensor for tensor in self._sources}
            tensor = self._by_storage.pop(storage_key(target), None)
            if tensor is not None:
                self.of(tensor)

    def _keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        earlier = self.twins.get(id(tensor))
        if isinstance(earlier, _Twin):
            self._forget(earlier)
        if values.device != _CPU:  # an operator that names its device in a way of its own: it has no values
            return
        twin = _Twin(tensor, self._free)
        twin.key, twin.values, twin.storage = id(tensor), values, storage_key(tensor)
        self.twins[twin.key] = twin
        self.storages[twin.storage] += 1

    def _free(self, twin: _Twin) -> None:
        if self.twins.get(twin.key) is twin:
            self._forget(twin)

    def _forget(self, twin: _Twin) -> None:
        del self.twins[twin.key]
        self.storages[twin.storage] -= 1
        if not self.storages[twin.storage]:
            del self.storages[twin.storage]


class FakeValues(KnownValues):
    """The twins of fake tensors: real operators run outside of the mode that makes these."""

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return isinstance(tensor, FakeTensor)

    def real(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of real tensors, and of the shapes of fake ones."""
        with disable_dispatch_modes():
            args = [_on_meta(value) if isinstance(value, FakeTensor) else value for value in args]
            return func(*args, **kwargs)

    def _like(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        if self.stands_in(tensor):
            return tensor
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


class _Twin(weakref.ref[torch.Tensor]):
    """A tensor without values, and its values."""

    __slots__ = ("key", "storage", "values")

    key: int
    storage: int
    values: torch.Tensor


class _UnknownError(Exception):
    """Raised for a tensor whose values are unknown."""


class _Nature(NamedTuple):
    writes: bool
    has_values: bool
    from_shapes: bool
    takes_device: bool


@cache
def _nature(func: Any) -> _Nature:
    schema = schema_of(func)
    random = _SEEDED in func.tags
    without = random or any(part in schema.name for part in _WITHOUT_VALUES)
    of_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return _Nature(
        writes=schema.is_mutable or "batch_norm" in schema.name,
        has_values=not without,
        from_shapes=schema.name in FROM_SHAPES or not of_tensors,
        takes_device=any(argument.name == "device" for argument in schema.arguments),
    )


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= _MOST_BYTES


def _sum_chosen(mask: torch.Tensor, shape: Sequence[int]) -> int:
    """Return the sum of a mask, or of numbers of repetitions, that is expanded."""
    return int(mask.expand(shape).sum())


def _positions(mask: torch.Tensor) -> Sequence[torch.Tensor]:
    return mask.nonzero().unbind(1)


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _on_meta(value: Any) -> Any:
    """Return a meta tensor like another one; anything else as it is."""
    if not isinstance(value, torch.Tensor) or (value.is_meta and not isinstance(value, FakeTensor)):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
