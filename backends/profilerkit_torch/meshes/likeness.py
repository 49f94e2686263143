"""Whether two modules are alike in all that they hold, apart from their place in a list."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.hooks import RemovableHandle

from ..compat.meshes import IDENTIFIERS
from ..compat.modules import GRADIENT_HOOKS
from .tensor_looks import look_at
from .watched_numbers import OwnNumber

__all__ = ["Likeness", "compare"]

#: Values of these types are alike if they are equal, and objects of these if they are the same.
_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, DeviceMesh)
_UNIQUE = (type, ModuleType, BuiltinFunctionType)


class Likeness(NamedTuple):
    """How two modules are alike: but for these numbers, which differ as the places of the modules do.

    Attributes:
        first: Where the first module has such numbers.
        second: Where the second has the same ones.
    """

    first: list[OwnNumber]
    second: list[OwnNumber]


def compare(first: nn.Module, second: nn.Module, distance: int) -> Likeness | None:
    """Compare what two modules hold: classes, settings, hooks and sizes of tensors, all the way down.

    The second is so many places behind the first in their list. An attribute may be the number of the module in the
    list, counted from anywhere. Returns None for modules that differ; what cannot be compared counts as different.
    """
    comparison = _Comparison(distance)
    return comparison.likeness if comparison.is_alike(first, second) else None


class _Comparison:
    """One comparison of two modules, which is over at the first difference: what was noted until then is void.

    So two objects that were met before are taken as alike, as graphs have cycles: if they differ, all of it is void.
    """

    def __init__(self, distance: int) -> None:
        self.likeness = Likeness([], [])
        self._distance = distance
        #: The objects by their ``id``, which stays theirs as long as they are kept.
        self._met: dict[tuple[int, int], tuple[Any, Any]] = {}

    def is_alike(self, first: Any, second: Any) -> bool:
        """Return whether two objects are alike."""
        if first is second:
            return True
        if type(first) is not type(second) or isinstance(first, _UNIQUE):
            return False
        if isinstance(first, _PLAIN):
            return bool(first == second)
        pair = id(first), id(second)
        if pair in self._met:
            return True
        self._met[pair] = first, second
        return self._holds_alike(first, second)

    def _holds_alike(self, first: Any, second: Any) -> bool:
        """Return whether two objects of one type hold alike ones."""
        if isinstance(first, torch.Tensor):
            return look_at(first) == look_at(second) and self.is_alike(_list_hooks(first), _list_hooks(second))
        if isinstance(first, FunctionType | MethodType | partial):
            return self.is_alike(_take_apart(first), _take_apart(second))
        if isinstance(first, weakref.ref):
            return self.is_alike(first(), second())
        if isinstance(first, RemovableHandle):  # it knows its hook by a number that torch counts
            return True
        if isinstance(first, Mapping):
            return self._are_mappings_alike(first, second) and self._have_alike_attributes(first, second)
        if isinstance(first, list | tuple):
            return self._are_sequences_alike(first, second) and self._have_alike_attributes(first, second)
        # What a class says of its objects is asked before their attributes: they may differ where it does not matter.
        return _are_equal(first, second) or (_is_all_attributes(first) and self._have_alike_attributes(first, second))

    def _are_sequences_alike(self, first: Sequence[Any], second: Sequence[Any]) -> bool:
        return len(first) == len(second) and all(map(self.is_alike, first, second))

    def _have_alike_attributes(self, first: Any, second: Any) -> bool:
        return self._are_sequences_alike(_list_attributes(first), _list_attributes(second))

    def _are_mappings_alike(self, first: Any, second: Any) -> bool:
        """Return whether two mappings have alike keys in the same order, with alike values.

        An ordered dictionary with whole numbers as keys has hooks: torch counts them, over all modules.
        """
        if len(first) != len(second):
            return False
        may_have_hooks, may_have_own = isinstance(first, OrderedDict), type(first) is dict
        for (key, value), (other_key, other_value) in zip(first.items(), second.items(), strict=True):
            are_hooks = may_have_hooks and isinstance(key, int) and isinstance(other_key, int)
            if not are_hooks and not self.is_alike(key, other_key):
                return False
            if key in IDENTIFIERS:
                continue
            if may_have_own and self._differ_as_places(value, other_value):
                self.likeness.first.append(OwnNumber(first, key))
                self.likeness.second.append(OwnNumber(second, other_key))
            elif not self.is_alike(value, other_value):
                return False
        return True

    def _differ_as_places(self, value: Any, other: Any) -> bool:
        """Return whether two values are whole numbers that differ as the places of the modules do."""
        return type(value) is type(other) is int and other - value == self._distance


def _take_apart(function: Any) -> tuple[Any, ...]:
    """Return what decides what a function does: its code, and all that it holds."""
    if isinstance(function, partial):
        return function.func, function.args, function.keywords
    if isinstance(function, MethodType):
        return function.__func__, function.__self__
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    return function.__code__, function.__defaults__, function.__kwdefaults__, function.__dict__, cells


def _list_hooks(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return the hooks on the gradient of a tensor."""
    return tuple(getattr(tensor, name, None) for name in GRADIENT_HOOKS)


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether two objects are equal by what their class says of that, if it says something."""
    try:
        return bool(first == second)
    except (RuntimeError, TypeError, ValueError):  # of objects that have tensors
        return False


def _is_all_attributes(value: Any) -> bool:
    """Return whether an object is no more than its attributes.

    One that is compared by code in C, which has found it unequal to another, holds something that no attribute shows.
    """
    compare: Any = type(value).__eq__
    return hasattr(value, "__dict__") and (compare is object.__eq__ or isinstance(compare, FunctionType))


def _list_attributes(value: Any) -> tuple[Any, ...]:
    """Return the attributes of an object, and those for which its classes have places of their own."""
    members = {name: member for kind in type(value).__mro__ for name, member in vars(kind).items()}
    slots = [name for name, member in members.items() if isinstance(member, MemberDescriptorType)]
    return getattr(value, "__dict__", None), *(getattr(value, name, None) for name in slots)
