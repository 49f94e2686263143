"""Values in a pass on shapes alone: what depends on no weight and on no floating-point input keeps its values.

Positions, masks and lengths decide which way a model takes. Each such stand-in, a meta or fake tensor, has a small
*concrete* tensor on the CPU with its values, which the same operators act on: a view of the stand-in has a view of that
tensor, an operator in place writes to it. Random numbers have none, nor has anything above a mebibyte.

A stand-in of a buffer or an input of the user's has that as its *original*; its concrete tensor is made at the first
write to it, or where its values are asked for. What operators make of values is in `value_answers`.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.tensors import FakeTensor, is_zerotensor
from ..model.tensors import storage_key
from ..untouched.write_guard import written_by
from .operator_facts import find_nature, tensors_among, tensors_in

__all__ = ["FakeValues", "KnownValues", "is_small"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept.
_MOST_BYTES = 2**20


class KnownValues:
    """What is known of the values of the tensors of one pass on the meta device.

    Attributes:
        concrete: The concrete tensors of stand-ins.
        originals: The tensors of the user's that others stand in for.
    """

    def __init__(self) -> None:
        self.concrete: ConcreteTensors = ConcreteTensors()
        self.originals: Originals = Originals()
        #: Storages of real tensors that were written to with values that are unknown.
        self._overwritten: set[int] = set()

    # What FakeValues does otherwise -----------------------------------------------------------------------------------

    def stands_in(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor has no values of its own."""
        return tensor.is_meta

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function makes of real tensors."""
        return function(*args, **kwargs)

    def make_stand_in(self, tensor: torch.Tensor, device: torch.device) -> Any:
        """Return a tensor like another one, without values, for results on a device; that itself if it has none."""
        return _move_to_meta(tensor)

    # What is known ----------------------------------------------------------------------------------------------------

    def read_from(self, tensor: torch.Tensor, original: torch.Tensor) -> None:
        """Let a tensor without values have those of the real one that it stands in for throughout, if integers."""
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

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    def give(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Give a stand-in a concrete tensor.

        It loses the one that it has where the values are on a device that an operator names in a way of its own.
        """
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

    # What operators do to it ------------------------------------------------------------------------------------------

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Do to the concrete tensors what an operator did without values; ``args`` may have real tensors."""
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
        """Do to the concrete tensors what an operator in place did.

        Nothing is known of what it writes to, and nothing has to be done, where no target has a concrete tensor
        or is real. Otherwise the operator runs on these; where it cannot, all of them lose their values.
        """
        targets = list(written_by(func, args, kwargs))
        for target in targets:
            self._prepare_write(target)
        if all(self.stands_in(target) and storage_key(target) not in self.concrete.storages for target in targets):
            return
        if not find_nature(func).has_values or self.run_on_values(func, args, kwargs) is None:
            for target in targets:
                self._forget_values(target)

    def _prepare_write(self, target: torch.Tensor) -> None:
        """Make the concrete tensor that an operator is about to write to, also through another tensor like ``x.data``.

        Where several tensors of the model share these values in memory, none of them is known any more: each would have
        a copy of its own, and the write would change only one of the copies.
        """
        if not self.stands_in(target) or target.is_floating_point():
            return
        changed = self.originals.list_changed(storage_key(target))
        if len(changed) == 1:
            self._make_concrete(changed[0])
            return
        for tensor in changed:
            self.originals.remove(tensor)
            self.concrete.remove_storage(storage_key(tensor))

    def _forget_values(self, tensor: torch.Tensor) -> None:
        """Forget the values of all that shares storage with a tensor, which was written to."""
        if self.stands_in(tensor):
            self.concrete.remove_storage(storage_key(tensor))
        else:
            self._overwritten.add(storage_key(tensor))

    def run_on_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return what an operator makes of the values of its tensors; None where some are unknown or too many."""
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
        """Return the values of tensors by their ``id``; None where those of one are unknown, or too many."""
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
        """Return what a function makes of real tensors, and of the shapes of fake ones."""
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


# Where the values are -------------------------------------------------------------------------------------------------


class _Original(NamedTuple):
    """A tensor without values, and the real tensor that it stands in for, its *original*."""

    stand_in: torch.Tensor
    real: torch.Tensor


class Originals:
    """The real tensors that stand-ins have their values from: the integer buffers and inputs of one pass.

    Most models never ask for these values, so nothing is copied before they do. Both tensors are kept alive until
    `clear`, and the ``id`` of a stand-in names no other tensor before then.
    """

    def __init__(self) -> None:
        #: By the ``id`` of a stand-in: itself and its original, for those whose values are still those of the original.
        self.by_id: dict[int, _Original] = {}
        #: The same for all stand-ins that were added.
        self._all: dict[int, _Original] = {}
        #: By the storage of a stand-in: the stand-ins that a write to this storage changes; None until it is needed.
        self._changed_together: dict[int, list[torch.Tensor]] | None = None

    def add(self, stand_in: torch.Tensor, real: torch.Tensor) -> None:
        """Let a stand-in have the values of a real tensor."""
        self.by_id[id(stand_in)] = self._all[id(stand_in)] = _Original(stand_in, real)
        self._changed_together = None

    def find(self, stand_in: torch.Tensor) -> torch.Tensor | None:
        """Return the real tensor whose values a stand-in has; None where it has others, or none that are known."""
        original = self.by_id.get(id(stand_in))
        return None if original is None else original.real

    def remove(self, stand_in: torch.Tensor) -> None:
        """Let a stand-in no longer have the values of its original, if it has one."""
        self.by_id.pop(id(stand_in), None)

    def list_changed(self, storage: int) -> list[torch.Tensor]:
        """Return the stand-ins that a write to a storage of stand-ins changes; none where the storage is of no such.

        More than one if their originals share memory, such as a buffer that is a view of another buffer: each has a
        stand-in of its own, and a real run would write to all of them at once.
        """
        if not self._all:
            return []
        if self._changed_together is None:
            self._changed_together = self._group_by_memory()
        return self._changed_together.get(storage, [])

    def _group_by_memory(self) -> dict[int, list[torch.Tensor]]:
        """Return the stand-ins whose originals share memory, by the storage of each of these stand-ins."""
        groups: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        for original in self._all.values():
            groups[storage_key(original.real)].append(original.stand_in)
        return {storage_key(stand_in): group for group in groups.values() for stand_in in group}

    def clear(self) -> None:
        """Let go of all tensors."""
        self.by_id.clear()
        self._all.clear()
        self._changed_together = None


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
