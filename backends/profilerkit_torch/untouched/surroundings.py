"""The surroundings of a model, which its functions can reach: globals, closures, caches, and the objects in these.

A pass on shapes makes tensors without values, which functions must not keep after the pass. Each place in which they
may store a tensor is noted before a pass as one of `holders`. A tensor that is left anywhere else is noticed too
(`leftovers`); then the model is counted in a run with values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dis import get_instructions
from functools import partial
from opcode import opmap
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each
from profilerkit.process.containers import CONTAINERS
from profilerkit.process.object_facts import count_items, list_slots
from profilerkit.process.restoring import call_each, for_each, restored

from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..model.attributes import list_reachable
from ..model.inventory import Inventory
from .holders import (
    FUNCTION_CACHE,
    Holder,
    Namespace,
    note_cache,
    note_cell,
    note_container,
    note_filled_slots,
    read_cell,
)
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
_CONTAINER_TYPES = frozenset(CONTAINERS)
#: The types of functions whose code is followed.
_FUNCTIONS = (FunctionType, MethodType, partial, FUNCTION_CACHE)
_STORE_GLOBAL = opmap["STORE_GLOBAL"]


class Surroundings:
    """The holders that the functions of a model can reach, as they were before a pass.

    They are the globals that the model's code names, in its forward pass and in the methods and functions that it names
    in turn; the cells of their closures; and the containers and plain objects in all these.
    """

    def __init__(self, inventory: Inventory, inputs: ModelInputs) -> None:
        self.holders: list[Holder] = []
        self._cells: list[Holder] = []  #: those of the holders that are variables of closures
        self.names: list[frozenset[str]] = []  #: for each function of the user, the names that its code uses
        self.compare_types = False  #: whether one of these functions may ask ``type(x) is torch.Tensor``
        #: The visited objects by their ids; kept alive so that no other object gets the same id.
        self._visited: dict[int, Any] = {}
        self._reached: dict[int, int] = {}  #: how far containers were followed, as `list_reachable` notes it
        #: By the id of a namespace; None for one that is not noted.
        self._namespaces: dict[int, Namespace | None] = {}
        #: The methods of the model's own classes that no function has named so far, by name.
        self._methods: dict[str, list[Any]] = _find_methods(inventory)
        unnamed = {name for name in self._methods if name == "forward" or name.startswith("__")}
        attributes = [value for _, attributes in inventory.further_attributes for value in attributes.values()]
        functions = [value for value in attributes if type(value) in _FUNCTIONS]
        self._note_functions([*self._take_methods(unnamed), *functions])
        self.own_cells = [*self._cells]  #: the closure variables of the model's own methods
        self._note_functions([*_list_hooks(inventory), inputs.function])

    def restore_holders(self, is_unwanted: Callable[[torch.Tensor], bool]) -> list[str]:
        """Restore the holders whose new contents lead to unwanted tensors; return the names of these contents."""
        names: list[str] = []
        for_each(
            lambda holder: names.extend(holder.restore_if_new(is_unwanted)), [(holder,) for holder in self.holders]
        )
        return names

    def restore_own_cells(self) -> None:
        """Restore the closure variables of the model's own methods, numbers too, as if they were attributes.

        Other values that are no tensors stay changed: a hook that counts calls should count them.
        """
        call_each(cell.restore for cell in self.own_cells)

    def forget(self) -> None:
        """Let go of everything noted."""
        self.holders.clear()
        self._visited.clear()

    def restore_at_end(self) -> restored:
        """Return a block that restores the holders that have new tensors, and then lets go of all.

        A run may fill a cache. Under autocast, or on another device, it would leave tensors there that the caller's own
        calls do not expect.
        """
        return restored(
            self.restore_own_cells, lambda: self.restore_holders(lambda tensor: True), self.forget, in_child=False
        )

    def _note_functions(self, functions: Iterable[Any]) -> None:
        """Note the holders that functions can reach, and then those of the functions that they name."""
        for _ in range(_CALLS):
            named: list[Any] = []
            for function in functions:
                named += self._note_function(self._unwrap(function))
            functions = named

    def _unwrap(self, function: Any) -> Any:
        """Return the function inside a method, a partial function or a cached function."""
        while isinstance(function, (MethodType, partial)):
            function = function.__func__ if isinstance(function, MethodType) else function.func
        if not isinstance(function, FUNCTION_CACHE):
            return function
        if self._is_new(function):
            self.holders.append(note_cache(function))
        return getattr(function, "__wrapped__", None)

    def _note_function(self, function: Any) -> list[Any]:
        """Note the holders that a function of Python's can reach; return the functions that it names."""
        if type(function) is not FunctionType or not self._is_new(function):
            return []
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if defaults:
            self._note_contents(defaults, function.__qualname__)
        names = _read_names(function.__code__)
        functions = self._take_methods(names.used)
        for name, value in (*self._note_cells(function), *self._note_globals(function.__globals__, names)):
            if isinstance(value, _FUNCTIONS):
                functions.append(value)
            else:
                self._note_contents([value], name)
        return functions

    def _take_methods(self, names: AbstractSet[str]) -> list[Any]:
        """Return the methods with these names that were not taken before."""
        return [method for name in self._methods.keys() & names for method in self._methods.pop(name)]

    def _note_cells(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        """Note the cells of a function's closure; yield their names and contents."""
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if self._is_new(cell):
                name = f"{variable} of {function.__qualname__}"
                holder = note_cell(cell, name)
                self.holders.append(holder)
                self._cells.append(holder)
                yield name, read_cell(cell)

    def _note_globals(self, variables: dict[str, Any], names: _CodeNames) -> Iterator[tuple[str, Any]]:
        """Note the globals that a function's code names; yield names and values of those that may lead further."""
        namespace = self._find_namespace(variables)
        if namespace is None:
            return
        self.names.append(names.used)
        self.compare_types |= names.compares_types
        for name in names.used if names.assigns_globals else variables.keys() & names.used:
            if name not in namespace.before:
                value = namespace.note(name)
                if type(value) in _FUNCTIONS or _may_hold(value, namespace.module):
                    yield f"{namespace.module}.{name}", value

    def _find_namespace(self, variables: dict[str, Any]) -> Namespace | None:
        """Return the holder for the globals of a module; None for a module whose globals are not noted."""
        if id(variables) not in self._namespaces:
            module = str(variables.get("__name__", ""))
            is_noted = module.partition(".")[0] not in _NOT_NOTED
            namespace = self._namespaces[id(variables)] = Namespace(variables, module) if is_noted else None
            if namespace is not None:
                self.holders.append(namespace.holder)
        return self._namespaces[id(variables)]

    def _note_contents(self, values: list[Any], name: str) -> None:
        """Note the containers and plain objects that values are, or lead to."""
        for value in list_reachable(values, _NESTED, self._reached):
            if isinstance(value, (torch.Tensor, tuple)) or not self._is_new(value):
                continue
            if isinstance(value, CONTAINERS) and count_items(value) <= _LONG:
                self.holders.append(note_container(value, name))
            if list_slots(type(value)):
                self.holders.append(note_filled_slots(value, name))

    def _is_new(self, value: Any) -> bool:
        """Return whether an object is visited for the first time, and keep it."""
        if id(value) in self._visited:
            return False
        self._visited[id(value)] = value
        return True


def _may_hold(value: Any, module: str) -> bool:
    """Return whether a global of a module is a container, or an object of a class of that module."""
    kind = type(value)
    return kind in _CONTAINER_TYPES or kind.__module__ == module or kind is threading.local


# The functions that a call of a model may run, and the names in code --------------------------------------------------


def _find_methods(inventory: Inventory) -> dict[str, list[Any]]:
    """Return the methods and properties of a model's own classes, as functions by name."""
    by_name: dict[str, list[Any]] = {}
    for cls in list_own_classes(inventory):
        for name, value in vars(cls).items():
            kind = type(value)
            if kind is FunctionType or kind is FUNCTION_CACHE:
                by_name.setdefault(name, []).append(value)
            elif kind is staticmethod or kind is classmethod:
                by_name.setdefault(name, []).append(value.__func__)
            elif kind is property and value.fget is not None:
                by_name.setdefault(name, []).append(value.fget)
    return by_name


def _list_hooks(inventory: Inventory) -> Iterator[Any]:
    """Yield the hooks for the calls of a model's modules, and of all modules."""
    hooks_of_modules = (hooks for module, _ in inventory.further_attributes for hooks in call_hooks(module))
    for hooks in (*hooks_of_modules, *GLOBAL_CALL_HOOKS):
        yield from hooks.values()


class _CodeNames(NamedTuple):
    """The names that code uses, of globals and attributes.

    Attributes:
        used: The names.
        assigns_globals: Whether it assigns to globals.
        compares_types: Whether it asks for the type of an object, and names ``Tensor``.
    """

    used: frozenset[str]
    assigns_globals: bool
    compares_types: bool


@once_for_each
def _read_names(code: CodeType) -> _CodeNames:
    """Return the names in code, with the names in the functions and classes inside it."""
    inner = [_read_names(constant) for constant in code.co_consts if type(constant) is CodeType]
    used = frozenset(code.co_names).union(*(names.used for names in inner))
    assigns_globals = _STORE_GLOBAL in code.co_code[::2] or any(names.assigns_globals for names in inner)
    compares_types = _compares_types(code) or any(names.compares_types for names in inner)
    return _CodeNames(used, assigns_globals, compares_types)


def _compares_types(code: CodeType) -> bool:
    """Return whether code names ``Tensor`` and calls ``type``, which is no attribute such as that of a device."""
    if "Tensor" not in code.co_names:
        return False
    return "__class__" in code.co_names or (
        "type" in code.co_names
        and any(step.opname == "LOAD_GLOBAL" and step.argval == "type" for step in get_instructions(code))
    )
