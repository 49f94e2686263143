"""The functions that a call of a model may run (methods, functions in attributes, hooks), and the names in code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from opcode import opmap
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from profilerkit.process.cached import once_for_each

from ..compat.modules import GLOBAL_CALL_HOOKS, call_hooks
from ..model.inventory import Inventory
from .holders import FUNCTION_CACHE
from .snapshots import list_own_classes

__all__ = ["FUNCTIONS", "CodeNames", "OwnMethods", "list_functions", "list_hooks", "read_names"]

#: The types of functions whose code is followed.
FUNCTIONS = (FunctionType, MethodType, partial, FUNCTION_CACHE)
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


def list_functions(inventory: Inventory) -> Iterator[Any]:
    """Yield the functions in attributes of a model's modules."""
    for _, attributes in inventory.further_attributes:
        yield from (value for value in attributes.values() if type(value) in FUNCTIONS)


def list_hooks(inventory: Inventory) -> Iterator[Any]:
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
