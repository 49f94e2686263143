"""Known values in a pass on shapes alone: tensors that depend on no weight and no floating-point input have values.

The path of a model depends on positions, masks and lengths. The storage of such a stand-in, a meta or fake tensor, has
its values beside it on the CPU, laid out alike: all views of the stand-in have them, and an in-place operator writes to
them. An operator that has run is repeated on the values of its tensors, if all of these are known. Random numbers, and
tensors above a mebibyte, have none.

A stand-in for a small buffer or input of integers begins with a copy of their values. `operator_results` has the
operators whose results depend on values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import torch

from ..compat.modes import disable_dispatch_modes
from ..compat.tensors import FakeTensor, is_zerotensor
from ..model.storages import has_storage, storage_key
from ..model.tensors import PLAIN_TYPES
from ..untouched.write_guard import written_by
from .live_bytes import LiveBytes
from .operator_facts import find_nature, tensors_among, tensors_in

__all__ = ["UNKNOWN", "FakeValues", "KnownValues"]

_CPU = torch.device("cpu")
_META = torch.device("meta")
#: The most bytes of a tensor whose values are kept, and of one that a repeated operator reads: a mask of integers that
#: is expanded, without memory of its own, becomes one of floats.
_MOST_BYTES = 2**20
_MOST_READ = 8 * _MOST_BYTES
#: The result of an operator for values that are not known.
UNKNOWN: Final = object()


class KnownValues:
    """The known values of tensors of one pass on the meta device; ``live`` has the storages that are alive."""

    def __init__(self, live: LiveBytes) -> None:
        self._live = live
        #: Storages of real tensors that were written to with values that are unknown. Where an address is used again,
        #: too few values are known, and never wrong ones.
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

    # The values of tensors --------------------------------------------------------------------------------------------

    def find(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the tensor's values, on the CPU; None where they are unknown."""
        if not self.stands_in(tensor):
            return None if tensor.is_meta or self.is_overwritten(tensor) else self._copy_to_cpu(tensor)
        watched = self._live.find(tensor)
        if watched is None or watched.values is None or tensor.is_conj() or tensor.is_neg():
            return None
        with disable_dispatch_modes():
            if isinstance(watched.values, torch.Tensor):
                watched.values = _copy_storage(watched.values, watched.values)
            return None if watched.values is None else _view_storage(watched.values, tensor)

    def is_overwritten(self, tensor: torch.Tensor) -> bool:
        """Return whether a real tensor was written to with values that are unknown: it has others than in a run."""
        return bool(self._overwritten) and not self.stands_in(tensor) and storage_key(tensor) in self._overwritten

    def read_from(self, tensor: torch.Tensor, original: torch.Tensor) -> None:
        """Give a stand-in the values of the user's tensor of integers, if these are few; `find` copies them."""
        if type(original) in PLAIN_TYPES and _is_small(original) and has_storage(original):
            self._give(tensor, original)

    def forget(self) -> None:
        """Let go of all values after the pass: its recorder is part of a cycle, and they would outlive it."""
        for watched in self._live.by_storage.values():
            watched.values = None

    def _give(self, tensor: torch.Tensor, values: Any) -> None:
        """Keep values beside the storage of a stand-in, which must be the whole of it: see `_Watched.values`."""
        watched = self._live.find(tensor)
        is_whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
        if watched is not None and is_whole and not tensor.is_quantized:
            watched.values = values

    def _copy_to_cpu(self, tensor: torch.Tensor) -> torch.Tensor:
        moved: torch.Tensor = self.run(torch.Tensor.to, (tensor, _CPU), {})
        return moved

    # The effect of operators on known values --------------------------------------------------------------------------

    def follow(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Repeat an operator that was run and recorded on the values of its tensors, some of which may be real."""
        nature = find_nature(func)
        if nature.writes:
            self._follow_write(func, args, kwargs)
            return
        outputs = [*tensors_in(result)]
        if not (nature.has_values and any(map(self._may_get_values, outputs)) and all(map(_is_small, outputs))):
            return
        made = self.run_on_values(func, args, kwargs)
        for tensor, values in zip(outputs, tensors_in(made), strict=False):
            if self._may_get_values(tensor) and tensor.shape == values.shape and values.device == _CPU:
                self._give(tensor, _copy_storage(values, tensor))

    def _may_get_values(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is a stand-in without known values; a view has those of what it is a view of."""
        return self.stands_in(tensor) and not self._has_values_beside(tensor)

    def _has_values_beside(self, tensor: torch.Tensor) -> bool:
        watched = self._live.find(tensor)
        return watched is not None and watched.values is not None

    def _follow_write(self, func: Any, args: Any, kwargs: Any) -> None:
        """Repeat an in-place operator on known values; if that cannot be, its targets lose their values."""
        targets = [*written_by(func, args, kwargs)]
        if all(map(self._may_get_values, targets)):  # there is nothing to be lost
            return
        if find_nature(func).has_values and self.run_on_values(func, args, kwargs) is not UNKNOWN:
            return
        for target in targets:
            watched = self._live.find(target)
            if not self.stands_in(target):
                self._overwritten.add(storage_key(target))
            elif watched is not None:
                watched.values = None

    def run_on_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator for the values of its tensors; `UNKNOWN` if some are unknown or too many."""
        nature = find_nature(func)
        named = dict(kwargs)
        if not nature.from_shapes:
            values = self._find_all(tensors_among(args, kwargs))
            if values is None:
                return UNKNOWN
            args = _replace_by_values(args, values)
            named = {name: _replace_by_values(value, values) for name, value in named.items()}
        if nature.takes_device and (named.get("device") is not None or nature.from_shapes):
            named["device"] = _CPU
        try:
            return self.run(func, args, named)
        except MemoryError:
            raise
        except Exception:  # the operator without values reports what is wrong with its arguments
            return UNKNOWN

    def _find_all(self, tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor] | None:
        """Return the values of tensors by their ``id``; None if the values of a tensor are unknown, or too many."""
        values: dict[int, torch.Tensor] = {}
        for tensor in tensors:
            content = self.find(tensor)
            if content is None or not _is_small(content, _MOST_READ):
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


def _is_small(tensor: torch.Tensor, most: int = _MOST_BYTES) -> bool:
    """Return whether the values of a tensor are few enough to be kept, or to be read."""
    return tensor.layout is torch.strided and tensor.numel() * tensor.element_size() <= most


def _copy_storage(values: torch.Tensor, like: torch.Tensor) -> torch.UntypedStorage | None:
    """Return a storage on the CPU with a copy of values, laid out as another tensor; None if torch cannot copy them."""
    with disable_dispatch_modes(), suppress(RuntimeError):  # so of integers of fewer than 8 bits
        copy = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=_CPU)
        return copy.copy_(values.detach()).untyped_storage()
    return None


def _view_storage(storage: torch.UntypedStorage, tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor in another storage that has the place of this one in its own."""
    values = torch.empty(0, dtype=tensor.dtype, device=_CPU)
    return values.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


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
