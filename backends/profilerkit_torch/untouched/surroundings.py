"""What the functions of a model can reach beside it: globals, closures, caches, and what all these hold."""

from __future__ import annotations

import threading
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

from profilerkit import ModelInputs
from profilerkit.process.object_facts import count_items

from ..model.attributes import CONTAINERS, list_reachable
from ..model.inventory import Inventory
from .holders import FUNCTION_CACHE, Cell, Container, FunctionCache, Holder, Namespace, Slots, read_cell
from .model_functions import CodeNames, OwnMethods, list_called_first, read_names

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
        self._methods = OwnMethods(inventory)
        functions = [*self._methods.take_first(), *list_called_first(inventory, inputs, _FUNCTIONS)]
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
        names = read_names(function.__code__)
        called += self._note_globals(function.__globals__, names)
        return called + self._methods.take(names.used)

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

    def _note_globals(self, variables: dict[str, Any], names: CodeNames) -> list[Any]:
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
            elif count_items(value) <= _LONG:
                self.holders.append(Container(value, name))


def _may_hold(value: Any, module: str) -> bool:
    """Return whether a global of a module is a container, or an object of a class of that module."""
    kind = type(value)
    return kind in _CONTAINER_TYPES or kind.__module__ == module or kind is threading.local
