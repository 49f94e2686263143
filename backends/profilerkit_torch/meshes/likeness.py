"""Whether two modules are alike in all that they hold, apart from their place in a list."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.hooks import RemovableHandle

from ..compat.meshes import IDENTIFIERS
from ..compat.modules import GRADIENT_HOOKS
from .watched_numbers import OwnNumber

__all__ = ["Comparison", "TensorLook", "look_at"]

#: Values of these types are alike if they are equal, and objects of these if they are the same.
_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout, DeviceMesh)
_UNIQUE = (type, ModuleType, BuiltinFunctionType)


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

    An attribute may be the number of the module in its list, counted from anywhere. What cannot be compared counts as
    different. Two objects that were met before are taken as alike, as graphs have cycles.

    Args:
        distance: How many places the second module is behind the first.

    Attributes:
        numbers: The attributes of the first that differ as the places do.
        others: The same ones of the second.
    """

    def __init__(self, distance: int) -> None:
        self.numbers: list[OwnNumber] = []
        self.others: list[OwnNumber] = []
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
        if isinstance(first, RemovableHandle):  # a number of torch's
            return True
        if isinstance(first, Mapping):
            contains_alike = self._are_mappings_alike(first, second)
        elif isinstance(first, list | tuple):
            contains_alike = len(first) == len(second) and all(map(self.is_alike, first, second))
        elif _are_equal(first, second):
            return True
        else:
            contains_alike = _has_attributes_alone(first)
        return contains_alike and all(map(self.is_alike, _list_attributes(first), _list_attributes(second)))

    def _are_mappings_alike(self, first: Mapping[Any, Any], second: Mapping[Any, Any]) -> bool:
        """Return whether two mappings are alike, in order."""
        if len(first) != len(second):
            return False
        are_hooks = isinstance(first, OrderedDict)  # where a number stands for a hook, which torch counts
        return all(
            ((are_hooks and isinstance(key, int) and isinstance(other_key, int)) or self.is_alike(key, other_key))
            and (key in IDENTIFIERS or self._is_own_number(key, first, second) or self.is_alike(value, other_value))
            for (key, value), (other_key, other_value) in zip(first.items(), second.items(), strict=True)
        )

    def _is_own_number(self, name: Any, first: Any, second: Any) -> bool:
        """Return whether an attribute differs as the places of the modules do, and note it then."""
        value, other = first[name], second.get(name)
        is_dict = type(first) is type(second) is dict
        is_own = is_dict and type(value) is type(other) is int and other - value == self._distance
        if is_own:
            self.numbers.append(OwnNumber(first, name))
            self.others.append(OwnNumber(second, name))
        return is_own


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


def _has_attributes_alone(value: Any) -> bool:
    """Return whether an object may be all that its attributes are: not where code in C has found two unequal."""
    compare: Any = type(value).__eq__
    return hasattr(value, "__dict__") and (compare is object.__eq__ or isinstance(compare, FunctionType))


def _list_attributes(value: Any) -> tuple[Any, ...]:
    """Return the attributes of an object, and those for which its classes have places of their own."""
    members = {name: member for kind in type(value).__mro__ for name, member in vars(kind).items()}
    slots = [name for name, member in members.items() if isinstance(member, MemberDescriptorType)]
    return getattr(value, "__dict__", None), *(getattr(value, name, None) for name in slots)
