"""What a forward pass leaves outside the model: tensors that a global, a closure or a cache still holds after it.

In a pass on shapes alone these have no values, and whoever finds them in a cache later fails. `Surroundings` notes what
the functions of a model can reach. `taken_back` asks which storages of the pass are still alive and takes those away;
where there are none, which is nearly always, nothing is looked for.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from profilerkit import ModelInputs

from ..model.inventory import Inventory
from ..model.modules import CONTAINERS, EMPTY, reached, slots_of
from ..trace.live_bytes import LiveBytes, storage_key
from .leftover_holders import forget_in_caches
from .snapshots import SlotsSnapshot, copied, own_classes, refill

__all__ = ["Surroundings", "taken_back", "without_frames"]

#: Namespaces of these packages are not looked at: they keep nothing of a model's.
_NOT_NOTED = ("torch", "numpy", "builtins", "functools", "typing", "contextlib", "keras", "profilerkit_torch")
#: Longer containers are vocabularies and the like.
_LONG = 1000
_CALLED = (FunctionType, MethodType, partial)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class Surroundings:
    """What the functions that a model runs can reach beside the model, as it was before a pass.

    That is the globals of their modules, and of the modules that functions among these are from; the cells of their
    closures; and the containers and plain objects that these hold.
    """

    def __init__(self, held: Inventory, inputs: ModelInputs) -> None:
        self._noted: dict[int, Any] = {}
        self._reached: dict[int, int] = {}
        #: What holds something, the name that people know it by, what it held, and how it is put back.
        self.holders: list[tuple[Any, str, Any, Callable[[], None]]] = []
        for function in _functions_of(held, inputs):
            self._note_function(function)
        for namespace in [each for each, _, _, _ in self.holders if type(each) is dict]:
            for value in [each for each in namespace.values() if type(each) in _CALLED]:
                self._note_function(value)

    def forget(self) -> None:
        """Let go of everything noted."""
        self.holders.clear()
        self._noted.clear()

    def _note_function(self, function: Any) -> None:
        while isinstance(function, (MethodType, partial)):
            function = function.__func__ if isinstance(function, MethodType) else function.func
        if type(function) is not FunctionType or id(function) in self._noted:
            return
        self._noted[id(function)] = function
        self._note_globals(function)
        name = function.__qualname__
        self._note_contents([*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()], name)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._note_cell(cell, f"{name} of {function.__qualname__}")

    def _note_globals(self, function: FunctionType) -> None:
        namespace = function.__globals__
        module = namespace.get("__name__", "")
        if id(namespace) in self._noted or str(module).partition(".")[0] in _NOT_NOTED:
            return
        self._noted[id(namespace)] = namespace
        before = dict(namespace)
        self.holders.append((namespace, f"globals of {module}", before, partial(refill, namespace, before)))
        for name, value in before.items():
            kind = type(value)
            if kind in _KINDS or kind.__module__ == module or kind is threading.local:
                self._note_contents([value], f"{module}.{name}")

    def _note_cell(self, cell: CellType, name: str) -> None:
        if id(cell) in self._noted:
            return
        self._noted[id(cell)] = cell
        content = _content_of(cell)
        self.holders.append((cell, name, content, partial(_fill, cell, content)))
        if isinstance(content, (FunctionType, MethodType, partial)):
            self._note_function(content)
        else:
            self._note_contents([content], name)

    def _note_contents(self, values: list[Any], name: str) -> None:
        """Note the containers and plain objects that values are, or lead to."""
        for found in reached(values, _NESTED, self._reached):
            if id(found) in self._noted or isinstance(found, (torch.Tensor, tuple)):
                continue
            self._note_value(found, name)

    def _note_value(self, value: Any, name: str) -> None:
        self._noted[id(value)] = value
        if not isinstance(value, CONTAINERS):
            before = SlotsSnapshot(value, slots_of(type(value)))
            self.holders.append((value, name, before.values, before.restore))
        elif len(value) <= _LONG:
            content = copied(value)
            self.holders.append((value, name, content, partial(refill, value, content)))


_KINDS = frozenset(CONTAINERS)
#: How far what a global or a cell holds is followed.
_NESTED = 4


def _functions_of(held: Inventory, inputs: ModelInputs) -> Iterator[Any]:
    """Yield the functions that a model runs, as far as they are seen from outside: methods, attributes and hooks."""
    for cls in own_classes(held.modules):
        for value in vars(cls).values():
            if type(value) is FunctionType:
                yield value
            elif isinstance(value, (staticmethod, classmethod)):
                yield value.__func__
            elif isinstance(value, property):
                yield value.fget
    for attributes in filter(None, held.others):
        yield from (value for value in attributes.values() if type(value) in _CALLED)
        for name in _HOOKS:  # which are among these where there are any
            yield from attributes.get(name, {}).values()
    for hooks in (torch_module._global_forward_hooks, torch_module._global_forward_pre_hooks):
        yield from hooks.values()
    yield inputs.function


def _content_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _fill(cell: CellType, content: Any) -> None:
    if content is EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = content


def without_frames(error: Exception) -> Exception:
    """Return an error that has let go of its frames: they hold tensors of the pass that failed."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            found.__traceback__ = None
            waiting += [found.__cause__, found.__context__]
    return error


def left_of(lives: Iterable[LiveBytes]) -> set[int]:
    """Return the storages of a pass that are alive after it, garbage aside."""
    lives = list(lives)
    for generation in (None, 1, 2):  # what refers to itself is only gone when it is collected
        if generation is not None:
            gc.collect(generation)
        left = {key for live in lives for key in live.left()}
        if not left:
            break
    return left


def taken_back(lives: list[LiveBytes], around: Surroundings) -> tuple[list[str], bool]:
    """Take away what a pass has left outside the model; return where it was, and whether anything is there still."""
    left = left_of(lives)
    if not left or not _has_tensors(left):
        return [], False
    places = [*_restored(left, around)]
    around.forget()
    left = left_of(lives)
    if left:
        places += forget_in_caches(_tensors(left))
        left = left_of(lives)
    return sorted(set(places)), bool(left) and _has_tensors(left)


def _restored(left: set[int], around: Surroundings) -> Iterator[str]:
    """Put back what holds tensors that were left; yield its names."""
    for holder, name, before, restore in around.holders:
        changed = dict(_changed(holder, before))
        if not changed:
            continue
        leading = [key for key, value in changed.items() if _leads_to(value, left)]
        if leading:
            restore()
            is_namespace = name.startswith("globals of ")
            yield from (f"{name.removeprefix('globals of ')}.{key}" for key in leading) if is_namespace else (name,)


def _changed(holder: Any, before: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a holder has now that it had not before, by name or place."""
    if isinstance(holder, CellType):
        now: dict[Any, Any] = {"": _content_of(holder)}
        before = {"": before}
    elif isinstance(holder, dict):
        now = holder
    elif isinstance(holder, CONTAINERS):
        known = set(map(id, before))
        yield from ((place, value) for place, value in enumerate(list(holder)) if id(value) not in known)
        return
    else:
        now = dict(SlotsSnapshot(holder, [slot for slot, _ in before]).values)
        before = dict(before)
    yield from ((key, value) for key, value in list(now.items()) if before.get(key, EMPTY) is not value)


def _leads_to(value: Any, left: set[int]) -> bool:
    return any(_is_left(found, left) for found in reached((value,)))


def _is_left(value: Any, left: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and storage_key(value) in left


def _tensors(left: set[int]) -> list[torch.Tensor]:
    base = torch._C.TensorBase
    return [found for found in gc.get_objects() if issubclass(type(found), base) and _is_left(found, left)]


def _has_tensors(left: set[int]) -> bool:
    """Say whether any of what was left is a tensor of Python's: nobody stumbles over one that only a graph holds."""
    return bool(_tensors(left))
