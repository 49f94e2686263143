"""What a forward pass leaves outside the model: tensors that a global, a closure or a cache still holds after it.

In a pass on shapes alone these have no values, and code that finds them in a cache later fails. `Surroundings` notes
what the functions of a model can reach. `remove_leftovers` removes those storages of the pass that are still alive;
where there are none, which is nearly always, it searches nothing.
"""

from __future__ import annotations

import functools
import gc
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from opcode import opmap
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from profilerkit import ModelInputs
from profilerkit.error_text import list_causes
from profilerkit.process.cached import once_for_each
from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.contents import list_slots
from profilerkit.process.restoring import for_each, restored

from ..compat import GLOBAL_CALL_HOOKS, TensorBase, call_hooks
from ..model.attributes import CONTAINERS, EMPTY, list_reachable
from ..model.inventory import Inventory
from ..model.tensors import storage_key
from .leftover_holders import forget_in_caches
from .snapshots import SlotsSnapshot, copy_container, own_classes, refill

__all__ = ["Surroundings", "clear_frames", "outside_restored", "remove_leftovers", "tensors_alive", "without_frames"]

#: Namespaces of these packages are not looked at: they keep nothing of a model's.
_NOT_NOTED = ("torch", "numpy", "builtins", "functools", "typing", "contextlib", "keras", "profilerkit_torch")
#: Longer containers are vocabularies and the like.
_LONG = 1000
_LRU: Any = functools._lru_cache_wrapper
_CALLED = (FunctionType, MethodType, partial, _LRU)


class Surroundings:
    """What the functions that a model runs can reach beside the model, as it was before a pass.

    That is the globals that code of the model names, from its forward pass on through the methods and functions that
    it names; the cells of their closures; and the containers and plain objects that all these hold.
    """

    def __init__(self, inventory: Inventory, inputs: ModelInputs) -> None:
        self._noted: dict[int, Any] = {}
        self._reached: dict[int, int] = {}
        #: For each holder: the object, its name for messages, its content, and what puts the content back.
        self.holders: list[tuple[Any, str, Any, Callable[[], None]]] = []
        self._bindings: dict[int, _Bindings] = {}
        #: For each function of the user's, the names that its code uses.
        self.names: list[frozenset[str]] = []
        self._methods = _list_methods(inventory)
        functions = list(_list_functions(inventory, inputs, self._methods))
        for _ in range(_CALLS):
            functions = [inner for function in functions for inner in self._note_function(function)]

    def forget(self) -> None:
        """Let go of everything noted."""
        self.holders.clear()
        self._noted.clear()

    def _note_function(self, function: Any) -> list[Any]:
        """Note what a function can reach, and return the functions that it names."""
        while isinstance(function, (MethodType, partial)):
            function = function.__func__ if isinstance(function, MethodType) else function.func
        if isinstance(function, _LRU):
            if id(function) not in self._noted:
                self._noted[id(function)] = function
                self.holders.append((function, "", function.cache_info(), function.cache_clear))
            function = getattr(function, "__wrapped__", None)
        if type(function) is not FunctionType or id(function) in self._noted:
            return []
        self._noted[id(function)] = function
        name = function.__qualname__
        if function.__defaults__ or function.__kwdefaults__:
            self._note_contents([*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()], name)
        called = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            called += self._note_cell(cell, f"{name} of {function.__qualname__}")
        names, assigns = names_in(function.__code__)
        called += self._note_globals(function.__globals__, names, assigns)
        for name in self._methods.keys() & names:
            called += self._methods.pop(name)
        return called

    def _note_globals(self, namespace: dict[str, Any], names: frozenset[str], assigns: bool) -> list[Any]:
        """Note the globals that a function's code names, and return the functions among them."""
        bindings = self._bindings.get(id(namespace))
        if bindings is None:
            module = str(namespace.get("__name__", ""))
            bindings = self._bindings[id(namespace)] = _Bindings(module)
            if module.partition(".")[0] not in _NOT_NOTED:
                self.holders.append((namespace, f"globals of {module}", bindings, partial(_bind, namespace, bindings)))
            else:
                bindings.module = None
        if bindings.module is None:
            return []
        self.names.append(names)
        named = []
        for name in names if assigns else namespace.keys() & names:
            if name not in bindings:
                value = bindings[name] = namespace.get(name, EMPTY)
                kind = type(value)
                if kind in _CALLED:
                    named.append(value)
                elif kind in _KINDS or kind.__module__ == bindings.module or kind is threading.local:
                    self._note_contents([value], f"{bindings.module}.{name}")
        return named

    def _note_cell(self, cell: CellType, name: str) -> list[Any]:
        """Note what a cell of a closure holds; return it if it is a function."""
        if id(cell) in self._noted:
            return []
        self._noted[id(cell)] = cell
        content = _read_content(cell)
        self.holders.append((cell, name, content, partial(_fill, cell, content)))
        if isinstance(content, _CALLED):
            return [content]
        self._note_contents([content], name)
        return []

    def _note_contents(self, values: list[Any], name: str) -> None:
        """Note the containers and plain objects that values are, or lead to."""
        for value in list_reachable(values, _NESTED, self._reached):
            if id(value) in self._noted or isinstance(value, (torch.Tensor, tuple)):
                continue
            self._note_value(value, name)

    def _note_value(self, value: Any, name: str) -> None:
        self._noted[id(value)] = value
        if not isinstance(value, CONTAINERS):
            before = SlotsSnapshot(value, list_slots(type(value)))
            self.holders.append((value, name, before.values, before.restore))
        elif len(value) <= _LONG:
            content = copy_container(value)
            self.holders.append((value, name, content, partial(refill, value, content)))


class _Bindings(dict[str, Any]):
    """What names of a module stood for, of those that code of the model uses; without a module, none is noted."""

    def __init__(self, module: str | None) -> None:
        super().__init__()
        self.module = module


def _bind(namespace: dict[str, Any], before: _Bindings) -> None:
    for name, value in before.items():
        if value is EMPTY:
            namespace.pop(name, None)
        elif namespace.get(name, EMPTY) is not value:
            namespace[name] = value


@once_for_each
def names_in(code: CodeType) -> tuple[frozenset[str], bool]:
    """Return the names that code uses (globals and attributes), and whether it assigns to globals.

    Those of the functions and classes in it are among them.
    """
    inner = [names_in(constant) for constant in code.co_consts if type(constant) is CodeType]
    assigns = STORE_GLOBAL in code.co_code[::2] or any(constant for _, constant in inner)
    return frozenset(code.co_names).union(*(names for names, _ in inner)), assigns


_KINDS = frozenset(CONTAINERS)
#: So many calls of functions by functions are followed from the forward pass on.
_CALLS = 8
STORE_GLOBAL = opmap["STORE_GLOBAL"]
#: How far what a global or a cell holds is followed.
_NESTED = 4


def _list_methods(inventory: Inventory) -> dict[str, list[Any]]:
    """Return by name the methods and properties of the model's own classes."""
    methods: dict[str, list[Any]] = {}
    for cls in own_classes(inventory.modules):
        for name, value in vars(cls).items():
            kind = type(value)
            if kind is FunctionType or kind is _LRU:
                methods.setdefault(name, []).append(value)
            elif kind is staticmethod or kind is classmethod:
                methods.setdefault(name, []).append(value.__func__)
            elif kind is property:
                methods.setdefault(name, []).append(value.fget)
    return methods


def _list_functions(inventory: Inventory, inputs: ModelInputs, methods: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the functions that a model's call begins with: forward, special methods, attributes and hooks."""
    for name in [name for name in methods if name == "forward" or name.startswith("__")]:
        yield from methods.pop(name)
    for module, attributes in zip(inventory.modules, inventory.further_attributes, strict=True):
        yield from (value for value in attributes.values() if type(value) in _CALLED)
        for hooks in call_hooks(module) if attributes else ():  # they are among these where there are any
            yield from hooks.values()
    for hooks in GLOBAL_CALL_HOOKS:
        yield from hooks.values()
    yield inputs.function


def _read_content(cell: CellType) -> Any:
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
    for link in list_causes(error):
        link.__traceback__ = None
    return error


def clear_frames(error: Exception) -> None:
    """Clear the local variables of an error's frames, which hold tensors of the pass; its traceback stays to be read.

    Else all of them would be searched for as leftovers, and be alive for as long as somebody keeps the error.
    """
    for link in list_causes(error):
        _empty_cells_of_calls(link)
        traceback.clear_frames(link.__traceback__)


def _empty_cells_of_calls(error: BaseException) -> None:
    """Empty the cells in which torch's call of a module has its arguments: a frame that is cleared keeps its function.

    A call of a module is over when it has raised, and nobody else has these cells.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals is vars(torch_module) and frame.f_code.co_freevars:
            for function in gc.get_referents(frame):
                if type(function) is FunctionType and function.__code__ is frame.f_code:
                    for cell in function.__closure__ or ():
                        _fill(cell, EMPTY)


def _alive_after_collection(alive: Callable[[], set[int]]) -> set[int]:
    """Return the storages of a pass that are alive after it, garbage aside."""
    for generation in (None, 1, 2):  # what refers to itself is only gone when it is collected
        if generation is not None:
            gc.collect(generation)
        left = alive()
        if not left:
            break
    return left


def remove_leftovers(alive: Callable[[], set[int]], surroundings: Surroundings) -> tuple[list[str], bool]:
    """Take away what a pass has left outside the model; return where it was, and whether anything is there still.

    ``alive`` returns the addresses of the storages that were made for the pass and are still alive.
    """
    left = _alive_after_collection(alive)
    if not left or not _has_tensors(left):
        return [], False
    names = [*_restore(left, surroundings)]
    surroundings.forget()
    left = _alive_after_collection(alive)
    if left:
        with frozen_objects_found():
            names += forget_in_caches(_tensors(left))
        left = _alive_after_collection(alive)
    return sorted(set(names)), bool(left) and _has_tensors(left)


@contextmanager
def outside_restored(inventory: Inventory, inputs: ModelInputs) -> Iterator[None]:
    """Put back what holds tensors, outside the model, that were not there before: a run may fill a cache.

    One under autocast, or on another device, would leave there what the caller's own calls do not expect.
    """
    surroundings = Surroundings(inventory, inputs)
    with restored(partial(for_each, _restore_tensors, surroundings.holders), surroundings.forget, in_child=False):
        yield


def _restore_tensors(holder: Any, name: str, before: Any, restore: Callable[[], None]) -> None:
    """Put back what a holder had, where it has tensors that were not there before."""
    if not isinstance(holder, _LRU) and any(_has_a_tensor(value) for _, value in _find_changes(holder, before)):
        restore()


def _has_a_tensor(value: Any) -> bool:
    return any(isinstance(one_value, torch.Tensor) for one_value in list_reachable((value,)))


def _restore(left: set[int], surroundings: Surroundings) -> Iterator[str]:
    """Put back what holds tensors that were left; yield its names."""
    for holder, name, before, restore in surroundings.holders:
        changed = dict(_find_changes(holder, before))
        if not changed:
            continue
        leading = [key for key, value in changed.items() if _leads_to(value, left)]
        if leading:
            restore()
            if isinstance(holder, _LRU):
                continue  # it loses nothing that it does not compute again
            is_namespace = name.startswith("globals of ")
            yield from (f"{name.removeprefix('globals of ')}.{key}" for key in leading) if is_namespace else (name,)


def _find_changes(holder: Any, before: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a holder has now that it had not before, by name or index."""
    if isinstance(holder, _LRU):
        if holder.cache_info() != before:
            yield "", gc.get_referents(holder)
        return
    if isinstance(holder, CellType):
        now: dict[Any, Any] = {"": _read_content(holder)}
        before = {"": before}
    elif isinstance(before, _Bindings):
        now = {name: holder.get(name, EMPTY) for name in before}
    elif isinstance(holder, dict):
        now = holder
    elif isinstance(holder, CONTAINERS):
        previous_ids = set(map(id, before))
        yield from ((index, value) for index, value in enumerate(list(holder)) if id(value) not in previous_ids)
        return
    else:
        now = dict(SlotsSnapshot(holder, [slot for slot, _ in before]).values)
        before = dict(before)
    yield from ((key, value) for key, value in list(now.items()) if before.get(key, EMPTY) is not value)


def _leads_to(value: Any, left: set[int]) -> bool:
    return any(_is_left(tensor, left) for tensor in list_reachable((value,)))


def _is_left(value: Any, left: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and storage_key(value) in left


def tensors_alive() -> list[torch.Tensor]:
    """Return the tensors that the garbage collector has noted.

    There may be millions of objects of some thousands of types: no Python code runs for each of them.
    """
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, TensorBase)}
    return [*compress(objects, map(kinds.__contains__, map(type, objects)))]


def _tensors(left: set[int]) -> list[torch.Tensor]:
    """Return the tensors of these storages that the garbage collector has noted."""
    return [tensor for tensor in tensors_alive() if _is_left(tensor, left)]


def _has_tensors(left: set[int]) -> bool:
    """Return whether Python can reach any of the tensors left: one that only a graph holds does no harm."""
    if _tensors(left):
        return True
    with frozen_objects_found():  # only a pass that calls `gc.freeze` itself hides its tensors
        return bool(_tensors(left))
