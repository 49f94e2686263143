"""The surroundings of a model, which its functions can reach: globals, closures, caches, and the objects in these.

A pass on shapes makes tensors without values, which functions must not keep after the pass. Each place in which they
may store a tensor is noted before a pass as one of `holders`. A tensor that is left anywhere else is noticed too
(`leftovers`); then the model is counted in a run with values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from opcode import opmap
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each
from profilerkit.process.containers import CONTAINERS
from profilerkit.process.object_facts import count_items, list_slots
from profilerkit.process.restoring import call_each

from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..model.attributes import list_reachable
from ..model.inventory import Inventory
from .holders import FUNCTION_CACHE, Cell, Container, FunctionCache, Holder, Namespace, Slots, read_cell
from .snapshots import list_own_classes

__all__ = ["Surroundings"]

#: The globals of these packages are not noted: they keep nothing of a model's.
_NOT_NOTED = ("torch", "numpy", "builtins", "functools", "typing", "contextlib", "keras", "profilerkit_torch")
#: Containers with more items are not noted: they are vocabularies and the like, and each pass would copy them.
_LONG = 1000
#: How many calls of functions by functions are followed, from the forward pass on.
_CALLS = 8
#: How many containers and objects, one inside the other, are followed from a global or a cell.
_NESTED = 4
_FUNCTIONS = (FunctionType, MethodType, partial, FUNCTION_CACHE)
_CONTAINER_TYPES = frozenset(CONTAINERS)


class Surroundings:
    """The holders that the functions of a model can reach, as they were before a pass.

    They are the globals that the model's code names, in its forward pass and in the methods and functions that it names
    in turn; the cells of their closures; and the containers and plain objects in all these.

    Attributes:
        holders: The holders.
        own_cells: The holders that are closure variables of the model's own methods.
        names: For each function of the user, the names that its code uses.
    """

    def __init__(self, inventory: Inventory, inputs: ModelInputs) -> None:
        self.holders: list[Holder] = []
        self.names: list[frozenset[str]] = []
        #: The visited objects by their ids; kept alive so that no other object gets the same id.
        self._noted: dict[int, Any] = {}
        #: How far containers were followed, as `list_reachable` notes it.
        self._reached: dict[int, int] = {}
        #: By the id of a namespace; None for one that is not noted.
        self._namespaces: dict[int, Namespace | None] = {}
        self._methods = OwnMethods(inventory)
        self._note_functions([*self._methods.take_first(), *_list_functions(inventory)])
        self.own_cells = [holder for holder in self.holders if isinstance(holder, Cell)]
        self._note_functions([*_list_hooks(inventory), inputs.function])

    def _note_functions(self, functions: Iterable[Any]) -> None:
        """Note the holders that functions can reach, and the functions that they name in turn."""
        for _ in range(_CALLS):
            functions = [inner for function in functions for inner in self._note_function(function)]

    def restore_own_cells(self) -> None:
        """Restore the closure variables of the model's own methods, numbers too, as if they were attributes.

        Other values that are no tensors stay changed: a hook that counts calls should count them.
        """
        call_each(cell.restore for cell in self.own_cells)

    def forget(self) -> None:
        """Let go of everything noted."""
        self.holders.clear()
        self._noted.clear()

    def _note_function(self, function: Any) -> list[Any]:
        """Note the holders that a function can reach, and return the functions that it names."""
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
        """Return the function inside a method, a partial function or a cached function."""
        while isinstance(function, (MethodType, partial)):
            function = function.__func__ if isinstance(function, MethodType) else function.func
        if not isinstance(function, FUNCTION_CACHE):
            return function
        if id(function) not in self._noted:
            self._noted[id(function)] = function
            self.holders.append(FunctionCache(function))
        return getattr(function, "__wrapped__", None)

    def _note_cell(self, cell: CellType, name: str) -> list[Any]:
        """Note the content of a cell of a closure; return it if it is a function."""
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
            if isinstance(value, CONTAINERS):
                if count_items(value) <= _LONG:
                    self.holders.append(Container(value, name))
            elif list_slots(type(value)):
                self.holders.append(Slots(value, name))


def _may_hold(value: Any, module: str) -> bool:
    """Return whether a global of a module is a container, or an object of a class of that module."""
    kind = type(value)
    return kind in _CONTAINER_TYPES or kind.__module__ == module or kind is threading.local


# The functions of a model ---------------------------------------------------------------------------------------------


_STORE_GLOBAL = opmap["STORE_GLOBAL"]


class OwnMethods:
    """The methods and properties of a model's own classes, as functions; each is taken once."""

    def __init__(self, inventory: Inventory) -> None:
        self._by_name: dict[str, list[Any]] = {}
        for cls in list_own_classes(inventory):
            for name, value in vars(cls).items():
                function = _find_function(value)
                if function is not None:
                    self._by_name.setdefault(name, []).append(function)

    def take_first(self) -> list[Any]:
        """Return the methods that a call runs without naming them: forward and the special methods."""
        first = [name for name in self._by_name if name == "forward" or name.startswith("__")]
        return [method for name in first for method in self._by_name.pop(name)]

    def take(self, names: frozenset[str]) -> list[Any]:
        """Return the methods with these names that nobody has taken."""
        return [method for name in self._by_name.keys() & names for method in self._by_name.pop(name)]


def _find_function(value: Any) -> Any:
    """Return the function of a method, or the getter of a property; None for any other attribute of a class."""
    kind = type(value)
    if kind is FunctionType or kind is FUNCTION_CACHE:
        return value
    if kind is staticmethod or kind is classmethod:
        return value.__func__
    return value.fget if kind is property else None


def _list_functions(inventory: Inventory) -> Iterator[Any]:
    """Yield the functions in attributes of a model's modules."""
    for _, attributes in inventory.further_attributes:
        yield from (value for value in attributes.values() if type(value) in _FUNCTIONS)


def _list_hooks(inventory: Inventory) -> Iterator[Any]:
    """Yield the hooks for the calls of a model's modules, and of all modules."""
    hooks_of_modules = (hooks for module, _ in inventory.further_attributes for hooks in call_hooks(module))
    for hooks in (*hooks_of_modules, *GLOBAL_CALL_HOOKS):
        yield from hooks.values()


class CodeNames(NamedTuple):
    """The names that code uses, of globals and attributes, and whether it assigns to globals."""

    used: frozenset[str]
    assigns_globals: bool


@once_for_each
def read_names(code: CodeType) -> CodeNames:
    """Return the names in code, with the names in the functions and classes inside it."""
    inner = [read_names(constant) for constant in code.co_consts if type(constant) is CodeType]
    used = frozenset(code.co_names).union(*(names.used for names in inner))
    assigns_globals = _STORE_GLOBAL in code.co_code[::2] or any(names.assigns_globals for names in inner)
    return CodeNames(used, assigns_globals)
