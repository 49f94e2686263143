"""Known values in a pass on shapes alone: tensors that depend on no weight and no floating-point input have values.

The path of a model depends on positions, masks and lengths. Each such stand-in, a meta or fake tensor, has a small
*concrete* tensor on the CPU with its values, and the same operators act on both: a view of the stand-in has a view of
the concrete tensor, an in-place operator writes to it. Random numbers, and tensors above a mebibyte, have none.

A stand-in for a buffer or an input of the user has that tensor as its *original*; its concrete tensor is made at the
first write to it, or when its values are read. `operator_results` has the operators whose results depend on values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.tensors import FakeTensor, is_zerotensor
from ..model.storages import storage_key
from ..untouched.write_guard import written_by
from .kept_values import ConcreteTensors, Originals
from .operator_facts import find_nature, tensors_among, tensors_in

__all__ = ["FakeValues", "KnownValues", "is_small"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept.
_MOST_BYTES = 2**20


class KnownValues:
    """The known values of tensors of one pass on the meta device.

    Attributes:
        concrete: The concrete tensors of stand-ins.
        originals: The user's tensors that have stand-ins.
    """

    def __init__(self) -> None:
        self.concrete: ConcreteTensors = ConcreteTensors()
        self.originals: Originals = Originals()
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
        """Give a stand-in the values of its original for the whole pass, if these are integers."""
        if not (original.is_floating_point() or original.is_complex() or original.is_meta):
            self.originals.add(tensor, original)

    def forget(self) -> None:
        """Let go of all tensors after the pass: its recorder is part of a cycle, and they would outlive it."""
        self.concrete.clear()
        self.originals.clear()

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor's values, on the CPU; None where they are unknown."""
        if not self.stands_in(tensor):
            return None if self.is_overwritten(tensor) else self._copy_to_cpu(tensor)
        self._make_concrete(tensor)
        return self.concrete.find(tensor)

    def may_know(self, value: Any) -> bool:
        """Return whether a value is a stand-in that has a concrete tensor, or an original to make it of."""
        return id(value) in self.concrete.by_id or id(value) in self.originals.by_id

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    def give(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a stand-in a concrete tensor; values that are not on the CPU take away the one that it has."""
        self.originals.remove(tensor)
        if values.device == _CPU:
            self.concrete.add(tensor, values)
        else:
            self.concrete.remove(tensor)

    def _make_concrete(self, tensor: torch.Tensor) -> None:
        """Give a tensor that has a small original a copy of its values, which operators may write to."""
        original = self.originals.find(tensor)
        if original is not None and is_small(original):
            self.give(tensor, self._copy_to_cpu(original, copy=True))

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
        for target in targets:
            self._take_values_from_original(target)
        if not any(map(self._is_stored_with_values, targets)):
            return
        if find_nature(func).has_values and self.run_on_values(func, args, kwargs) is not None:
            return
        for target in targets:
            self._lose_values(target)

    def _take_values_from_original(self, target: torch.Tensor) -> None:
        """Give a stand-in that is written to for the first time a copy of the values of its original."""
        if self.stands_in(target) and not target.is_floating_point():
            stand_in = self.originals.find_by_storage(storage_key(target))  # itself, or another one like ``x.data``
            if stand_in is not None:
                self._make_concrete(stand_in)

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
