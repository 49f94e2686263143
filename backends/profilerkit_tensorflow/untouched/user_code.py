"""The state that the user's functions keep outside of the model: the globals that their code names.

Only the names in the code are looked up, never all globals of a module. Objects and classes are followed if they are
the user's; those of an installed package are not restored.
"""

from __future__ import annotations

import dis
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from tensorflow.python.trackable import base

from profilerkit.process.cached import once_for_each

__all__ = ["MISSING", "GlobalBinding", "assigned_globals", "functions_of", "is_users_own", "named_globals"]

#: The value of a name that is not bound.
MISSING: Any = object()
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_STATEFUL_TYPES = (
    base.Trackable,
    types.FunctionType,
    functools._lru_cache_wrapper,
    dict,
    list,
    set,
    deque,
    random.Random,
    np.random.Generator,
)


class GlobalBinding(NamedTuple):
    """A global that code assigns to, and its value."""

    module: dict[str, Any]
    name: str
    value: Any

    def restore(self) -> None:
        """Restore the value of the name; delete the name if it was not bound."""
        if self.value is MISSING:
            self.module.pop(self.name, None)
        elif self.module.get(self.name, MISSING) is not self.value:
            self.module[self.name] = self.value


class _Names(NamedTuple):
    read: frozenset[str]
    written: frozenset[str]
    attributes: frozenset[str]


def functions_of(cls: type) -> Iterator[types.FunctionType]:
    """Yield the functions that a class defines: methods of every kind, and the functions of its properties."""
    for value in vars(cls).values():
        parts = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
        for part in parts:
            inner = getattr(part, "__func__", part)  # a static or class method
            inner = inner if isinstance(inner, types.FunctionType) else getattr(inner, "__wrapped__", None)
            if isinstance(inner, types.FunctionType):
                yield inner


def named_globals(function: types.FunctionType) -> Iterable[Any]:
    """Return the globals, and the content of the user's modules, that a function's code names and may hold state."""
    names, scope = _names(function.__code__), function.__globals__
    for name in names.read | names.written:
        value = scope.get(name)
        if isinstance(value, types.ModuleType):
            inside = vars(value) if is_users_own(value.__name__) else {}
            yield from (inside[each] for each in names.attributes if each in inside and _may_hold(inside[each]))
        elif _may_hold(value):
            yield value


def assigned_globals(function: types.FunctionType) -> Iterator[GlobalBinding]:
    """Yield the globals that a function's code assigns to, with their present values."""
    scope = function.__globals__
    for name in _names(function.__code__).written:
        yield GlobalBinding(scope, name, scope.get(name, MISSING))


def _may_hold(value: Any) -> bool:
    if isinstance(value, _STATEFUL_TYPES):
        return True
    kind = value if isinstance(value, type) else type(value)
    return is_users_own(kind.__module__)


@once_for_each
def _names(code: types.CodeType) -> _Names:
    """Return the globals that code reads and assigns to, and the attributes it reads; nested functions included."""
    read, written, attributes = set(), set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(str(step.argval))
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            written.add(str(step.argval))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(str(step.argval))
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            inner = _names(part)
            read, written, attributes = read | inner.read, written | inner.written, attributes | inner.attributes
    return _Names(frozenset(read), frozenset(written), frozenset(attributes))


@functools.lru_cache(maxsize=1000)
def is_users_own(module: str) -> bool:
    """Return whether a module is a file of the user or ``__main__``: neither of Python nor an installed package."""
    package = module.partition(".")[0]
    if package == "__main__":
        return True
    if package in sys.stdlib_module_names or package.startswith("profilerkit"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and not any(folder in file for folder in _PACKAGE_FOLDERS)
