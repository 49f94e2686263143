"""What a model, its inputs and the code around it lead to, as facts that can be compared before and after.

A fact is an identity (the same object, the same address), a plain value, or the bytes of a tensor. Identities are told
from values, for two models that were built alike have the same values and never the same identities.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import hashlib
import random
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from attack_process import Facts, Same
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

__all__ = ["digest", "find_kinds", "inner_tensors", "walk"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device, torch.Size, torch.layout)
_LRU = type(functools.lru_cache(len))
#: Not followed: code, and what belongs to torch rather than to the model.
_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodWrapperType)


def walk(path: str, root: Any, found: Facts, met: set[int]) -> None:
    """Add the facts of everything that ``root`` leads to; ``met`` has what was met before, under another path."""
    waiting = deque([(path, root)])
    while waiting:
        path, value = waiting.popleft()
        if isinstance(value, _PLAIN):
            found[path] = (type(value).__name__, repr(value))
            continue
        found[path] = Same(value)
        if id(value) in met:
            continue
        met.add(id(value))
        found[f"{path} type"] = f"{type(value).__module__}.{type(value).__qualname__}"
        if isinstance(value, torch.Tensor):
            waiting.extend(_tensor(path, value, found))
        elif isinstance(value, (random.Random, torch.Generator, np.random.Generator)):
            found[f"{path} state"] = _generator_state(value)
        else:
            waiting.extend(_parts(path, value, found))


def _generator_state(value: Any) -> Any:
    if isinstance(value, random.Random):
        return repr(value.getstate())
    return repr(value.bit_generator.state) if isinstance(value, np.random.Generator) else bytes(value.get_state())


def _parts(path: str, value: Any, found: Facts) -> Iterator[tuple[str, Any]]:
    """Yield what is inside, with its path, and note the order of names."""
    if isinstance(value, Mapping):
        numbered = bool(value) and all(type(key) is int for key in value)  # handles of hooks are, anew for each model
        found[f"{path} keys"] = [Same(key) if numbered else repr(key) for key in value]
        yield from (
            (f"{path}[{'#' if numbered else ''}{index if numbered else repr(key)}]", part)
            for index, (key, part) in enumerate(value.items())
        )
    elif isinstance(value, (list, tuple, deque)):
        found[f"{path} length"] = len(value)
        yield from ((f"{path}[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        found[f"{path} items"] = sorted(map(repr, value))
    elif isinstance(value, types.FunctionType):
        yield from _of_function(path, value, found)
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
        yield f"{path}.__func__", value.__func__
    elif isinstance(value, types.CellType):
        yield f"{path}.contents", _cell(value)
    elif isinstance(value, functools.partial):
        yield f"{path}.partial", (value.func, value.args, value.keywords)
    elif isinstance(value, torch.jit.ScriptModule):
        yield from _of_script(path, value)
    elif not isinstance(value, _CODE) and (isinstance(value, nn.Module) or not _of_torch(value)):
        yield from _attributes(path, value, found)


def _of_torch(value: Any) -> bool:
    return _of_torch_by_name(type(value).__module__)


def _of_torch_by_name(module: str | None) -> bool:
    return (module or "").partition(".")[0] in ("torch", "torchgen", "numpy", "_thread", "threading", "weakref")


def _attributes(path: str, value: Any, found: Facts) -> Iterator[tuple[str, Any]]:
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        own = None
    if own is not None:
        found[f"{path} attributes"] = list(own)
        yield from ((f"{path}.{name}", part) for name, part in own.items())
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and isinstance(
                cls.__dict__.get(name), types.MemberDescriptorType
            ):
                part = cls.__dict__[name].__get__(value) if _has(cls.__dict__[name], value) else "nothing is there"
                yield f"{path}.{name}", part


def _has(member: Any, value: Any) -> bool:
    try:
        member.__get__(value)
    except AttributeError:
        return False
    return True


def _of_function(path: str, function: types.FunctionType, found: Facts) -> Iterator[tuple[str, Any]]:
    if _of_torch_by_name(function.__module__):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found[f"{path} closure {name} kinds"] = find_kinds(cell)
        yield f"{path} closure {name}", cell
    if function.__defaults__:
        found[f"{path} defaults kinds"] = find_kinds(function.__defaults__)
        yield f"{path} defaults", function.__defaults__
    if function.__dict__:
        yield f"{path} attributes", function.__dict__


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing is there"


def _of_script(path: str, module: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a scripted module keeps in C++."""
    for name, inside in module.named_modules():
        yield f"{path}.{name} training", getattr(inside, "training", None)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        yield f"{path}.{name}", tensor


# Tensors ------------------------------------------------------------------------------------------------------------


def _tensor(path: str, tensor: torch.Tensor, found: Facts) -> Iterator[tuple[str, Any]]:
    if is_lazy(tensor):
        found[f"{path} has no size"] = True
        return
    found[f"{path} layout"] = (
        *(tensor.dtype, tensor.device, tuple(tensor.shape), tensor.layout),
        tensor.stride() if tensor.layout is torch.strided and not tensor.is_nested else None,
        *(tensor.is_inference(), tensor.is_conj(), tensor.is_neg(), isinstance(tensor, FakeTensor)),
    )
    found[f"{path} requires_grad"] = tensor.requires_grad
    found[f"{path} is_leaf"] = tensor.is_leaf
    found[f"{path} grad_fn"] = Same(tensor.grad_fn) if tensor.grad_fn is not None else None
    if not tensor.is_inference():
        found[f"{path} version"] = tensor._version
    for name, inside in inner_tensors(tensor):
        if not _is_readable(inside):
            found[f"{path}{name} storage"] = "cannot be read"
            continue
        found[f"{path}{name} address"] = _address(inside)
        found[f"{path}{name} values"] = digest(inside)
    for name, hooks in (("backward hooks", tensor._backward_hooks), ("post hooks", _post_hooks(tensor))):
        found[f"{path} {name}"] = None if hooks is None else Same(hooks, [Same(hook) for hook in hooks.values()])
    if tensor.is_leaf and tensor.grad is not None:
        yield f"{path}.grad", tensor.grad
    if tensor.__dict__:
        yield f"{path}.__dict__", tensor.__dict__


def _post_hooks(tensor: torch.Tensor) -> Any:
    return getattr(tensor, "_post_accumulate_grad_hooks", None)


def inner_tensors(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that have the storage: of a sparse one its parts, of a wrapper what it wraps."""
    if tensor.is_meta or isinstance(tensor, FakeTensor):
        return
    if hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            part = getattr(tensor, name)
            for deeper, inside in inner_tensors(part) if isinstance(part, torch.Tensor) else ():
                yield f".{name}{deeper}", inside
    elif tensor.layout is torch.sparse_coo:
        yield from ((" indices", tensor._indices()), (" elements", tensor._values()))
    elif tensor.layout is torch.strided:
        yield "", tensor


def _is_readable(tensor: torch.Tensor) -> bool:
    """Say whether a tensor has memory: one that a transform has left behind has none."""
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return False
    return True


def _address(tensor: torch.Tensor) -> Any:
    storage = tensor.untyped_storage()
    return Address(storage.data_ptr(), storage.nbytes(), int(tensor.storage_offset()))


class Address(tuple[int, ...]):
    """Where a tensor lies in memory, which is an identity too."""

    def __new__(cls, *parts: int) -> Address:
        return super().__new__(cls, parts)


def digest(tensor: torch.Tensor) -> str:
    """Return a digest of the elements, bit by bit, in their order."""
    own = tensor.detach()
    if not own.is_contiguous():
        own = own.clone(memory_format=torch.contiguous_format)
    size = own.numel() * own.element_size()
    return hashlib.blake2b(ctypes.string_at(own.data_ptr(), size), digest_size=8).hexdigest() if size else "empty"


# What a cache holds -------------------------------------------------------------------------------------------------


def find_kinds(root: Any) -> set[str]:
    """Return of which kinds the tensors are that a cache outside the model holds: where they are, and how made."""
    kinds: set[str] = set()
    waiting, met = [root], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, _PLAIN) or id(value) in met:
            continue
        met.add(id(value))
        if isinstance(value, torch.Tensor):
            made = "fake" if isinstance(value, FakeTensor) else "inference" if value.is_inference() else "usual"
            kinds.add(f"{made} tensor on {value.device.type}")
        else:
            waiting.extend(_held(value))
    return kinds


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        return value
    if isinstance(value, types.CellType):
        return [_cell(value)]
    if isinstance(value, types.FunctionType):
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    if isinstance(value, contextvars.ContextVar):
        return [value.get(None)]
    local = isinstance(value, threading.local)
    followed = local or not (isinstance(value, (*_CODE, nn.Module)) or _of_torch(value))
    return [getattr(value, "__dict__", None)] if followed else []
