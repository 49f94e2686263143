"""What the functions of a model can reach beside it: globals, closures, caches, and what all these hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from opcode import opmap
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each

from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..model.attributes import CONTAINERS, list_reachable
from ..model.inventory import Inventory
from .holders import FUNCTION_CACHE, Cell, Container, FunctionCache, Holder, Namespace, Slots, read_cell
from .snapshots import list_own_classes

__all__ = ["Surroundings"]

#: Namespaces of these packages are not looked at: they keep nothing of a model's.
_NOT_NOTED = ("torch", "numpy", "builtins", "functools", "typing", "contextlib", "keras", "profilerkit_torch")
#: Longer containers are vocabularies and the like.
_LONG = 1000
#: So many calls of functions by functions are followed from the forward pass on.
_CALLS = 8
#: How far what a global or a cell holds is followed.
_NESTED = 4
_FUNCTIONS = (FunctionType, MethodType, partial, FUNCTION_CACHE)
_CONTAINER_TYPES = frozenset(CONTAINERS)
_STORE_GLOBAL = opmap["STORE_GLOBAL"]


class Surroundings:
    """What the functions that a model runs can reach beside the model, as it was before a pass.

    That is the globals that code of the model names, from its forward pass on through the methods and functions that
    it names; the cells of their closures; and the containers and plain objects that all these hold.
    """

    def __init__(self, inventory: Inventory, inputs: ModelInputs) -> None:
        self.holders: list[Holder] = []
        #: For each function of the user's, the names that its code uses.
        self.names: list[frozenset[str]] = []
        #: What was looked at, kept alive so that no id comes to be that of something else.
        self._noted: dict[int, Any] = {}
        self._reached: dict[int, int] = {}
        #: By the id of a namespace; None for one that is not noted.
        self._namespaces: dict[int, Namespace | None] = {}
        self._methods = _list_methods(inventory)
        functions = list(_list_first_functions(inventory, inputs, self._methods))
        for _ in range(_CALLS):
            functions = [inner for function in functions for inner in self._note_function(function)]

    def forget(self) -> None:
        """Let go of everything noted."""
        self.holders.clear()
        self._noted.clear()

    def _note_function(self, function: Any) -> list[Any]:
        """Note what a function can reach, and return the functions that it names."""
        function = self._unwrap(function)
        if type(function) is not FunctionType or id(function) in self._noted:
            return []
        self._noted[id(function)] = function
        if function.__defaults__ or function.__kwdefaults__:
            defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            self._note_contents(defaults, function.__qualname__)
        called = []
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            called += self._note_cell(cell, f"{name} of {function.__qualname__}")
        names = _read_names(function.__code__)
        called += self._note_globals(function.__globals__, names)
        for name in self._methods.keys() & names.used:
            called += self._methods.pop(name)
        return called

    def _unwrap(self, function: Any) -> Any:
        """Return what a method or a partial function calls, or a function calculates whose results are remembered."""
        while isinstance(function, (MethodType, partial)):
            function = function.__func__ if isinstance(function, MethodType) else function.func
        if not isinstance(function, FUNCTION_CACHE):
            return function
        if id(function) not in self._noted:
            self._noted[id(function)] = function
            self.holders.append(FunctionCache(function))
        return getattr(function, "__wrapped__", None)

    def _note_cell(self, cell: CellType, name: str) -> list[Any]:
        """Note what a cell of a closure holds; return it if it is a function."""
        if id(cell) in self._noted:
            return []
        self._noted[id(cell)] = cell
        content = read_cell(cell)
        self.holders.append(Cell(cell, name, content))
        if isinstance(content, _FUNCTIONS):
            return [content]
        self._note_contents([content], name)
        return []

    def _note_globals(self, variables: dict[str, Any], names: _Names) -> list[Any]:
        """Note the globals that a function's code names, and return the functions among them."""
        namespace = self._find_namespace(variables)
        if namespace is None:
            return []
        self.names.append(names.used)
        functions = []
        for name in names.used if names.assigns_globals else variables.keys() & names.used:
            if name in namespace.before:
                continue
            value = namespace.note(name)
            if type(value) in _FUNCTIONS:
                functions.append(value)
            elif _may_hold(value, namespace.name):
                self._note_contents([value], f"{namespace.name}.{name}")
        return functions

    def _find_namespace(self, variables: dict[str, Any]) -> Namespace | None:
        """Return the holder for the globals of a module; None for a module whose globals are not noted."""
        if id(variables) not in self._namespaces:
            module = str(variables.get("__name__", ""))
            is_noted = module.partition(".")[0] not in _NOT_NOTED
            namespace = self._namespaces[id(variables)] = Namespace(variables, module) if is_noted else None
            if namespace is not None:
                self.holders.append(namespace)
        return self._namespaces[id(variables)]

    def _note_contents(self, values: list[Any], name: str) -> None:
        """Note the containers and plain objects that values are, or lead to."""
        for value in list_reachable(values, _NESTED, self._reached):
            if id(value) in self._noted or isinstance(value, (torch.Tensor, tuple)):
                continue
            self._noted[id(value)] = value
            if not isinstance(value, CONTAINERS):
                self.holders.append(Slots(value, name))
            elif len(value) <= _LONG:
                self.holders.append(Container(value, name))


def _may_hold(value: Any, module: str) -> bool:
    """Return whether a global of a module is a container, or an object of a class of that module."""
    kind = type(value)
    return kind in _CONTAINER_TYPES or kind.__module__ == module or kind is threading.local


class _Names(NamedTuple):
    """The names that code uses, of globals and attributes, and whether it assigns to globals."""

    used: frozenset[str]
    assigns_globals: bool


@once_for_each
def _read_names(code: CodeType) -> _Names:
    """Return the names in some code; those of the functions and classes in it are among them."""
    inner = [_read_names(constant) for constant in code.co_consts if type(constant) is CodeType]
    used = frozenset(code.co_names).union(*(names.used for names in inner))
    assigns_globals = _STORE_GLOBAL in code.co_code[::2] or any(names.assigns_globals for names in inner)
    return _Names(used, assigns_globals)


def _list_methods(inventory: Inventory) -> dict[str, list[Any]]:
    """Return by name the methods and properties of the model's own classes."""
    methods: dict[str, list[Any]] = {}
    for cls in list_own_classes(inventory.modules):
        for name, value in vars(cls).items():
            kind = type(value)
            if kind is FunctionType or kind is FUNCTION_CACHE:
                methods.setdefault(name, []).append(value)
            elif kind is staticmethod or kind is classmethod:
                methods.setdefault(name, []).append(value.__func__)
            elif kind is property:
                methods.setdefault(name, []).append(value.fget)
    return methods


def _list_first_functions(inventory: Inventory, inputs: ModelInputs, methods: dict[str, list[Any]]) -> Iterator[Any]:
    """Yield the functions that a model's call begins with: forward, special methods, attributes and hooks.

    Forward and the special methods are taken out of ``methods``.
    """
    for name in [name for name in methods if name == "forward" or name.startswith("__")]:
        yield from methods.pop(name)
    for module, attributes in zip(inventory.modules, inventory.further_attributes, strict=True):
        yield from (value for value in attributes.values() if type(value) in _FUNCTIONS)
        for hooks in call_hooks(module) if attributes else ():  # they are among these where there are any
            yield from hooks.values()
    for hooks in GLOBAL_CALL_HOOKS:
        yield from hooks.values()
    yield inputs.function
