"""Values in a pass on shapes alone: what depends on no weight and on no floating-point input keeps its values.

Positions, masks and lengths decide which way a model takes. Each such tensor on the meta device, or fake tensor, has a
small *twin* on the CPU, which the same operators act on: a view of the tensor has a view of the twin, an operator in
place writes to the twin. Random numbers have no twin, nor has anything above a mebibyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.operators import find_operator, find_tag, read_schema
from ..compat.tensors import FakeTensor, is_zerotensor
from ..model.tensors import storage_key
from ..untouched.write_guard import written_by
from .operator_facts import FROM_SHAPES, tensors_in
from .sources import Sources
from .twins import Twins

__all__ = ["FakeValues", "KnownValues"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept.
_MOST_BYTES = 2**20
#: Parts of the names of operators whose results have no values that could be known, beside those tagged as random.
_WITHOUT_VALUES = ("empty", "resize", "aten::set_", "aten::rand", "_quantize")
_SEEDED = find_tag("nondeterministic_seeded")
_INDEX = find_operator("aten.index.Tensor")
_MASKED_SELECT = find_operator("aten.masked_select.default")
_REPEAT = find_operator("aten.repeat_interleave.self_Tensor")
_TO_COPY = find_operator("aten._to_copy.default")


class KnownValues:
    """What is known of the values of the tensors of one pass on the meta device."""

    def __init__(self) -> None:
        self.twins: Twins = Twins()
        self.sources: Sources = Sources()
        #: Storages of real tensors that were written to with values that are unknown.
        self._overwritten: set[int] = set()

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return tensor.is_meta

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of real tensors."""
        return func(*args, **kwargs)

    def _make_like(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return a tensor without values like another one, or that itself if it has none."""
        like: torch.Tensor = _move_to_meta(tensor)
        return like

    # What is known ----------------------------------------------------------------------------------------------------

    def read_from(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Let a tensor without values have those of the real one that it stands in for throughout, if integers."""
        if not (source.is_floating_point() or source.is_complex() or source.is_meta):
            self.sources.add(tensor, source)

    def forget(self) -> None:
        """Let go of all tensors after the pass: its recorder is part of a cycle, and they would outlive it."""
        self.twins.clear()
        self.sources.clear()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor's values, on the CPU; None where they are unknown."""
        if not self.stands_in(tensor):
            return None if self.is_overwritten(tensor) else self._copy_to_cpu(tensor)
        source = self.sources.find(tensor)
        if source is None:
            return self.twins.find(tensor)
        if not _is_small(source):
            return None
        values = self._copy_to_cpu(source, copy=True)  # for operators in place
        self._keep(tensor, values)
        return values

    def _copy_to_cpu(self, tensor: torch.Tensor, **options: Any) -> torch.Tensor:
        moved: torch.Tensor = self.compute(torch.Tensor.to, (tensor, _CPU), options)
        return moved

    def _keep(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Keep the values of a tensor; none that an operator which names its device in a way of its own has made."""
        self.sources.remove(tensor)
        if values.device == _CPU:
            self.twins.add(tensor, values)
        else:
            self.twins.remove(tensor)

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    # What operators do to it ------------------------------------------------------------------------------------------

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Do to the twins what an operator did without values; ``args`` may have real tensors."""
        nature = _find_nature(func)
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

    def _follow_write(self, func: Any, args: Any, kwargs: Any) -> None:
        targets = list(written_by(func, args, kwargs))
        for target in targets:
            self._make_independent(target)
        if all(self.stands_in(target) and storage_key(target) not in self.twins.storages for target in targets):
            return
        if not _find_nature(func).has_values or self._compute(func, args, kwargs) is None:
            for target in targets:
                self._forget_values(target)

    def _make_independent(self, target: torch.Tensor) -> None:
        """Copy the real values that an operator is about to write over, also through another tensor like ``x.data``.

        Where several tensors of the model share these values in memory, none of them is known any more: each would have
        a copy of its own, and the write would change only one of the copies.
        """
        if self.stands_in(target) and not target.is_floating_point():
            changed = self.sources.list_changed(storage_key(target))
            if len(changed) == 1:
                self.find(changed[0])
                return
            for tensor in changed:
                self.sources.remove(tensor)
                self.twins.remove_storage(storage_key(tensor))

    def _forget_values(self, tensor: torch.Tensor) -> None:
        """Forget the values of all that shares storage with a tensor, which was written to."""
        if self.stands_in(tensor):
            self.twins.remove_storage(storage_key(tensor))
        else:
            self._overwritten.add(storage_key(tensor))

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes of the values of its tensors; None where some are unknown or too many."""
        nature = _find_nature(func)
        named = dict(kwargs)
        if not nature.from_shapes:
            try:
                args = self._replace_by_values(args, func.is_view)
                named = {name: self._replace_by_values(value, func.is_view) for name, value in named.items()}
            except _UnknownError:
                return None
        if nature.takes_device and (named.get("device") is not None or nature.from_shapes):
            named["device"] = _CPU
        try:
            return self.compute(func, args, named)
        except MemoryError:
            raise
        except Exception:  # the operator without values reports what is wrong with its arguments
            return None

    def _replace_by_values(self, value: Any, is_view: bool) -> Any:
        """Return an argument with the values of its tensors, on the CPU; raise `_UnknownError` where one has none."""
        if isinstance(value, torch.Tensor):
            values = self.find(value)
            if values is None or not (is_view or _is_small(values)):
                raise _UnknownError
            # Zeros that torch makes no memory for: its primitives would read there.
            return values.clone() if is_zerotensor(values) else values
        if type(value) in (list, tuple):
            return type(value)(self._replace_by_values(item, is_view) for item in value)
        return _CPU if isinstance(value, torch.device) else value  # ``to.device`` takes it by position

    # What operators without values may ask ----------------------------------------------------------------------------

    def answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes whose output shapes or numbers depend on values; NotImplemented if unknown."""
        values = self._compute(func, args, kwargs)
        device = next((tensor.device for tensor in tensors_in(args) if self.stands_in(tensor)), _CPU)
        if values is not None:
            return self._replace_by_stand_ins(values, device)
        if func is _INDEX:
            return self._index_by_masks(args[0], args[1], device)
        if func is _MASKED_SELECT:
            return self._select_by_mask(args[0], args[1], device)
        return NotImplemented

    def _replace_by_stand_ins(self, values: Any, device: torch.device) -> Any:
        """Return tensors without values that have these as their twins; numbers as they are."""
        if isinstance(values, torch.Tensor):
            tensor = self._make_like(values, device)
            if _is_small(values):
                self._keep(tensor, values)
            return tensor
        if isinstance(values, (list, tuple)):
            return tuple(self._replace_by_stand_ins(value, device) for value in values)
        return values

    def _index_by_masks(self, tensor: torch.Tensor, indices: Sequence[Any], device: torch.device) -> Any:
        """Return a tensor without values indexed by masks that are known; NotImplemented for other indices."""
        positions = list(self._replace_masks(indices, device))
        if not any(map(_is_mask, indices)) or any(map(_is_mask, positions)):
            return NotImplemented
        return _INDEX(self._make_like(tensor, device), positions)

    def _replace_masks(self, indices: Iterable[Any], device: torch.device) -> Iterator[Any]:
        """Yield the indices without values; for a known mask the positions that it chooses."""
        for index in indices:
            mask = self.find(index) if _is_mask(index) else None
            if mask is not None:
                for positions in self.compute(_find_positions, (mask,), {}):
                    yield self._make_like(positions, device)
            else:
                yield index if index is None else self._make_like(index, device)

    def _select_by_mask(self, tensor: torch.Tensor, mask: torch.Tensor, device: torch.device) -> Any:
        values = self.find(mask)
        if values is None:
            return NotImplemented
        shape = torch.broadcast_shapes(tensor.shape, values.shape)
        return torch.empty(self.compute(_sum_expanded, (values, shape), {}), dtype=tensor.dtype, device=device)

    def move_to_cpu(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor | None:
        """Return the real tensor that moves a meta one to the CPU, where its values are known; no fake one is moved."""
        if func is not _TO_COPY or not args[0].is_meta or torch.device(kwargs.get("device", _META)) != _CPU:
            return None
        values = self.find(args[0])
        return None if values is None else func(values, **kwargs)

    def add_size(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the keyword arguments, with the size that ``repeat_interleave`` of meta tensors needs, if known."""
        if func is not _REPEAT or kwargs.get("output_size") is not None:
            return kwargs
        repeats = self.find(args[1])
        if repeats is None:
            return kwargs
        repeated, dim = args[0], args[2] if len(args) > 2 else kwargs.get("dim")
        length = repeated.numel() if dim is None else repeated.shape[dim]
        return {**kwargs, "output_size": self.compute(_sum_expanded, (repeats, (length,)), {})}


class FakeValues(KnownValues):
    """The same of fake tensors: real operators run outside of the mode that makes these."""

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return isinstance(tensor, FakeTensor)

    def compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of real tensors, and of the shapes of fake ones."""
        with disable_dispatch_modes():
            args = [_move_to_meta(value) if isinstance(value, FakeTensor) else value for value in args]
            return func(*args, **kwargs)

    def _make_like(self, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
        if self.stands_in(tensor):
            return tensor
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


class _UnknownError(Exception):
    """Raised for a tensor whose values are unknown."""


class _Nature(NamedTuple):
    """What an operator does with values."""

    #: Whether it writes to an argument.
    writes: bool
    #: Whether what it makes has values that could be known: not those of random numbers.
    has_values: bool
    #: Whether these depend on no tensor's values.
    from_shapes: bool
    takes_device: bool


@cache
def _find_nature(func: Any) -> _Nature:
    schema = read_schema(func)
    takes_tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    return _Nature(
        writes=schema.is_mutable or "batch_norm" in schema.name,
        has_values=_SEEDED not in func.tags and not any(part in schema.name for part in _WITHOUT_VALUES),
        from_shapes=schema.name in FROM_SHAPES or not takes_tensors,
        takes_device=any(argument.name == "device" for argument in schema.arguments),
    )


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= _MOST_BYTES


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _find_positions(mask: torch.Tensor) -> Sequence[torch.Tensor]:
    return mask.nonzero().unbind(1)


def _sum_expanded(mask: torch.Tensor, shape: Sequence[int]) -> int:
    """Return the sum of a mask, or of numbers of repetitions, that is expanded to a shape."""
    return int(mask.expand(shape).sum())


def _move_to_meta(value: Any) -> Any:
    """Return a meta tensor like another one; anything else as it is."""
    if not isinstance(value, torch.Tensor) or (value.is_meta and not isinstance(value, FakeTensor)):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
