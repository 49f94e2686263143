"""Known values in a pass on shapes alone: tensors that depend on no weight and no floating-point input have values.

The path of a model depends on positions, masks and lengths. Each such stand-in, a meta or fake tensor, has a small
*concrete* tensor on the CPU with its values, and the same operators act on both: a view of the stand-in has a view of
the concrete tensor, an in-place operator writes to it. Random numbers, and tensors above a mebibyte, have none.

A stand-in for a small buffer or input of integers begins with a copy of their values. `operator_results` has the
operators whose results depend on values.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.tensors import FakeTensor, is_zerotensor
from ..model.storages import has_storage, storage_key
from ..model.tensors import PLAIN_TYPES
from ..untouched.write_guard import written_by
from .operator_facts import find_nature, tensors_among, tensors_in

__all__ = ["FakeValues", "KnownValues", "is_small"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept.
_MOST_BYTES = 2**20


class _Concrete(weakref.ref[torch.Tensor]):
    """A weak reference to a tensor without values, with the values beside it.

    Attributes:
        identity: The ``id`` of the tensor without values.
        storage: The address of its storage, which its views have too.
        values: The concrete tensor, on the CPU.
    """

    __slots__ = ("identity", "storage", "values")

    identity: int
    storage: int
    values: torch.Tensor


class ConcreteTensors:
    """The concrete tensors of the stand-ins that are alive; one that is freed takes its concrete tensor along.

    The recorder reads `by_id` and `storages` at every operator, which is why they are plain attributes; only the
    methods change them.
    """

    def __init__(self) -> None:
        #: The concrete tensor of a stand-in, by the stand-in's ``id``.
        self.by_id: dict[int, _Concrete] = {}
        #: How many stand-ins with one share a storage, by its address; a storage without any is left out.
        self.storages: Counter[int] = Counter()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the concrete tensor of a stand-in; None where it has none."""
        concrete = self.by_id.get(id(tensor))
        return concrete.values if concrete is not None and concrete() is tensor else None

    def add(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a stand-in a concrete tensor, in place of the one that it may have."""
        self.remove(tensor)
        concrete = _Concrete(tensor, self._free)
        concrete.identity = id(tensor)
        concrete.storage = storage_key(tensor)
        concrete.values = values
        self.by_id[concrete.identity] = concrete
        self.storages[concrete.storage] += 1

    def remove(self, tensor: torch.Tensor) -> None:
        """Take the concrete tensor of a stand-in away, if it has one."""
        concrete = self.by_id.get(id(tensor))
        if concrete is not None:
            self._remove(concrete)

    def remove_storage(self, storage: int) -> None:
        """Take away the concrete tensors of all stand-ins that share a storage."""
        if storage in self.storages:
            for concrete in [concrete for concrete in self.by_id.values() if concrete.storage == storage]:
                self._remove(concrete)

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self.storages.clear()

    def _free(self, concrete: _Concrete) -> None:
        """Take away the concrete tensor of a stand-in that was freed, unless another tensor has its ``id`` by now."""
        if self.by_id.get(concrete.identity) is concrete:
            self._remove(concrete)

    def _remove(self, concrete: _Concrete) -> None:
        del self.by_id[concrete.identity]
        self.storages[concrete.storage] -= 1
        if not self.storages[concrete.storage]:
            del self.storages[concrete.storage]


class KnownValues:
    """The known values of tensors of one pass on the meta device.

    Attributes:
        concrete: The concrete tensors of stand-ins.
    """

    def __init__(self) -> None:
        self.concrete: ConcreteTensors = ConcreteTensors()
        #: Storages of real tensors that were written to with values that are unknown.
        self._overwritten: set[int] = set()

    # Methods that FakeValues overrides --------------------------------------------------------------------------------

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return tensor.is_meta

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function for real tensors."""
        return function(*args, **kwargs)

    def make_stand_in(self, tensor: torch.Tensor, device: torch.device) -> Any:
        """Return a tensor like another one, without values, for results on a device; that itself if it has none."""
        return _move_to_meta(tensor)

    # Known values -----------------------------------------------------------------------------------------------------

    def read_from(self, tensor: torch.Tensor, original: torch.Tensor) -> None:
        """Give a stand-in the values of the user's tensor of integers, if these are few."""
        if type(original) in PLAIN_TYPES and is_small(original) and has_storage(original):
            with suppress(NotImplementedError):  # torch copies no integers of fewer than 8 bits
                self.give(tensor, self._copy_to_cpu(original, copy=True))

    def forget(self) -> None:
        """Let go of all tensors after the pass: its recorder is part of a cycle, and they would outlive it."""
        self.concrete.clear()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor's values, on the CPU; None where they are unknown."""
        if not self.stands_in(tensor):
            return None if self.is_overwritten(tensor) else self._copy_to_cpu(tensor)
        return self.concrete.find(tensor)

    def may_know(self, value: Any) -> bool:
        """Return whether a value is a stand-in that has a concrete tensor."""
        return id(value) in self.concrete.by_id

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    def give(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a stand-in a concrete tensor; values that are not on the CPU take away the one that it has."""
        if values.device == _CPU:
            self.concrete.add(tensor, values)
        else:
            self.concrete.remove(tensor)

    def _copy_to_cpu(self, tensor: torch.Tensor, **options: Any) -> torch.Tensor:
        moved: torch.Tensor = self.run(torch.Tensor.to, (tensor, _CPU), options)
        return moved

    # The effect of operators on known values --------------------------------------------------------------------------

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Repeat an operator on the concrete tensors of its stand-ins; ``args`` may have real tensors."""
        nature = find_nature(func)
        if nature.writes:
            self._follow_write(func, args, kwargs)
            return
        if not nature.has_values:
            return
        outputs = list(tensors_in(result))
        if func.is_view or all(map(is_small, outputs)):
            for tensor, values in zip(outputs, tensors_in(self.run_on_values(func, args, kwargs)), strict=False):
                if self.stands_in(tensor) and tensor.shape == values.shape:
                    self.give(tensor, values)

    def _follow_write(self, func: Any, args: Any, kwargs: Any) -> None:
        """Repeat an in-place operator on the concrete tensors; if that cannot be, its targets lose their values."""
        targets = list(written_by(func, args, kwargs))
        if not any(map(self._is_stored_with_values, targets)):
            return
        if find_nature(func).has_values and self.run_on_values(func, args, kwargs) is not None:
            return
        for target in targets:
            self._lose_values(target)

    def _is_stored_with_values(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is real, or shares its storage with a stand-in that has a concrete tensor."""
        return not self.stands_in(tensor) or storage_key(tensor) in self.concrete.storages

    def _lose_values(self, tensor: torch.Tensor) -> None:
        """Know no values of a tensor any more, nor of what shares its storage."""
        if self.stands_in(tensor):
            self.concrete.remove_storage(storage_key(tensor))
        else:
            self._overwritten.add(storage_key(tensor))

    def run_on_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator for the values of its tensors; None if some are unknown or too many."""
        nature = find_nature(func)
        named = dict(kwargs)
        if not nature.from_shapes:
            values = self._find_all(tensors_among(args, kwargs), with_large=func.is_view)
            if values is None:
                return None
            args = _replace_by_values(args, values)
            named = {name: _replace_by_values(value, values) for name, value in named.items()}
        if nature.takes_device and (named.get("device") is not None or nature.from_shapes):
            named["device"] = _CPU
        try:
            return self.run(func, args, named)
        except MemoryError:
            raise
        except Exception:  # the operator without values reports what is wrong with its arguments
            return None

    def _find_all(self, tensors: Iterable[torch.Tensor], with_large: bool) -> dict[int, torch.Tensor] | None:
        """Return the values of tensors by their ``id``; None if the values of a tensor are unknown, or too many."""
        values: dict[int, torch.Tensor] = {}
        for tensor in tensors:
            content = self.find(tensor)
            if content is None or not (with_large or is_small(content)):
                return None
            # Zeros that torch makes no memory for: its primitives would read there.
            values[id(tensor)] = content.clone() if is_zerotensor(content) else content
        return values


class FakeValues(KnownValues):
    """The same of fake tensors: real operators run outside of the mode that makes these."""

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return isinstance(tensor, FakeTensor)

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a function for real tensors, and for the shapes of fake ones."""
        with disable_dispatch_modes():
            args = [_move_to_meta(value) if isinstance(value, FakeTensor) else value for value in args]
            return function(*args, **kwargs)

    def make_stand_in(self, tensor: torch.Tensor, device: torch.device) -> Any:
        """Return a fake tensor like another one on a device; that itself if it is fake."""
        if self.stands_in(tensor):
            return tensor
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)


def is_small(tensor: torch.Tensor) -> bool:
    """Return whether the values of a tensor are few enough to be kept."""
    return tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= _MOST_BYTES


def _replace_by_values(argument: Any, values: Mapping[int, torch.Tensor]) -> Any:
    """Return an argument with values in place of its tensors, by the ``id`` of each, and with the CPU as the device."""
    if isinstance(argument, torch.Tensor):
        return values[id(argument)]
    if type(argument) in (list, tuple):
        return type(argument)(_replace_by_values(item, values) for item in argument)
    return _CPU if isinstance(argument, torch.device) else argument  # ``to.device`` takes it by position


def _move_to_meta(value: Any) -> Any:
    """Return a meta tensor like another one; anything else as it is."""
    if not isinstance(value, torch.Tensor) or (value.is_meta and not isinstance(value, FakeTensor)):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
