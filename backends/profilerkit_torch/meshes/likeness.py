"""Whether two modules are alike in all that they hold, apart from their place in a list."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.hooks import RemovableHandle

from ..compat.meshes import OWN_NUMBERS
from .watched_numbers import OwnNumber

__all__ = ["Comparison", "Place", "TensorLook", "look_at"]

#: Values of these types are alike if they are equal, and objects of these if they are the same.
_PLAIN = (float, complex, bytes, bool, type(None), torch.dtype, torch.device, torch.layout, DeviceMesh)
_UNIQUE = (type, ModuleType, BuiltinFunctionType)


class Place(NamedTuple):
    """Where a module is: its number in its list, and its path in the model."""

    number: int
    path: str


class TensorLook(NamedTuple):
    """What a tensor is without its values; ``spread`` says how it is spread over ranks, if it is."""

    kind: type
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    is_trained: bool
    spread: Any


def look_at(tensor: torch.Tensor) -> TensorLook:
    """Return what a tensor is without its values."""
    spread = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    return TensorLook(type(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, spread)


class Comparison:
    """Compares what two modules hold: classes, settings, hooks and sizes of tensors, all way down.

    An attribute may be the number of the module in its list, counted from anywhere, and a text may have its path. What
    cannot be compared counts as different. Two objects that were met before are taken as alike, as graphs have cycles.

    Attributes:
        numbers: The attributes of both that differ as their numbers do.
    """

    def __init__(self, first: Place, second: Place) -> None:
        self.numbers: list[OwnNumber] = []
        self._first, self._second = first, second
        self._met: set[tuple[int, int]] = set()

    def is_alike(self, first: Any, second: Any) -> bool:
        """Return whether two objects are alike."""
        if first is second:
            return True
        if type(first) is not type(second) or isinstance(first, _UNIQUE):
            return False
        if isinstance(first, (*_PLAIN, int)):
            return bool(first == second)
        if isinstance(first, str):
            return bool(first == second or first.replace(self._first.path, self._second.path) == second)
        pair = id(first), id(second)
        if pair in self._met:
            return True
        self._met.add(pair)
        return self._holds_alike(first, second)

    def _holds_alike(self, first: Any, second: Any) -> bool:
        """Return whether two objects of one type hold alike ones."""
        if isinstance(first, torch.Tensor):
            return look_at(first) == look_at(second)
        if isinstance(first, Mapping):
            return self._are_mappings_alike(first, second)
        if isinstance(first, list | tuple):
            return len(first) == len(second) and all(map(self.is_alike, first, second))
        if isinstance(first, FunctionType | MethodType | partial):
            return self.is_alike(_take_apart(first), _take_apart(second))
        if isinstance(first, weakref.ref):
            return self.is_alike(first(), second())
        if isinstance(first, RemovableHandle):  # a number of torch's
            return True
        if _has_equality(first) and _are_equal(first, second):
            return True
        attributes = getattr(first, "__dict__", None)
        return attributes is not None and self.is_alike(attributes, second.__dict__)

    def _are_mappings_alike(self, first: Mapping[Any, Any], second: Mapping[Any, Any]) -> bool:
        """Return whether two mappings are alike, in order; a number may stand for a hook, which torch counts."""
        if len(first) != len(second):
            return False
        return all(
            ((isinstance(key, int) and isinstance(other_key, int)) or self.is_alike(key, other_key))
            and (key in OWN_NUMBERS or self._is_own_number(key, first, second) or self.is_alike(value, other_value))
            for (key, value), (other_key, other_value) in zip(first.items(), second.items(), strict=True)
        )

    def _is_own_number(self, name: Any, first: Any, second: Any) -> bool:
        """Return whether an attribute differs as the numbers of the modules do, and note it then."""
        value, other = first[name], second.get(name)
        distance = self._second.number - self._first.number
        is_own = type(first) is type(second) is dict and type(value) is type(other) is int and other - value == distance
        if is_own:
            self.numbers += OwnNumber(first, name), OwnNumber(second, name)
        return is_own


def _take_apart(function: Any) -> tuple[Any, ...]:
    """Return what decides what a function does: its code, and all that it holds."""
    if isinstance(function, partial):
        return function.func, function.args, function.keywords
    if isinstance(function, MethodType):
        return function.__func__, function.__self__
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    return function.__code__, function.__defaults__, function.__kwdefaults__, cells


def _has_equality(value: Any) -> bool:
    compare: Any = type(value).__eq__
    return compare is not object.__eq__


def _are_equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except (RuntimeError, TypeError, ValueError):  # of objects that have tensors
        return False
