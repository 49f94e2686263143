"""The user's own code: which modules are the user's, and which globals the functions there name."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from profilerkit.process.cached import once_for_each
from profilerkit.process.inner_states import list_state_kinds
from profilerkit.process.user_lines import is_own_module

__all__ = [
    "CACHED_FUNCTION",
    "FRAMEWORKS",
    "Names",
    "is_of_a_framework",
    "is_users_own",
    "list_functions",
    "list_globals",
    "name_package",
    "read_names",
]

#: Packages whose objects make up a model.
FRAMEWORKS = ("keras", "tf_keras", "keras_hub", "keras_cv", "keras_nlp", "tensorflow")
#: The class of functions of ``functools.cache`` and ``lru_cache``.
CACHED_FUNCTION: type = functools._lru_cache_wrapper
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
#: Classes of objects that may hold state although the class is not the user's.
_STATEFUL: tuple[type, ...] = (types.FunctionType, CACHED_FUNCTION, dict, list, set, deque)


class Names(NamedTuple):
    """The globals that code reads and assigns to, and the attributes that it reads."""

    read: frozenset[str]
    written: frozenset[str]
    attributes: frozenset[str]


@once_for_each
def read_names(code: types.CodeType) -> Names:
    """Return the names in code, with the code of the functions inside it."""
    read: set[str] = set()
    written: set[str] = set()
    attributes: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(str(step.argval))
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            written.add(str(step.argval))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(str(step.argval))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = read_names(constant)
            read |= inner.read
            written |= inner.written
            attributes |= inner.attributes
    return Names(frozenset(read), frozenset(written), frozenset(attributes))


def list_globals(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals, and the content of the user's modules, that a function's code names and may hold state."""
    names = read_names(function.__code__)
    values = [function.__globals__.get(name) for name in names.read | names.written]
    for value in values:
        if not isinstance(value, types.ModuleType):
            candidates = [value]
        elif is_users_own(value.__name__):
            content = vars(value)
            candidates = [content[name] for name in names.attributes & content.keys()]
        else:
            candidates = []
        yield from filter(_may_hold, candidates)


def list_functions(cls: type) -> Iterator[Any]:
    """Yield the functions that a class defines: methods of every kind, and the functions of its properties."""
    functions = (types.FunctionType, CACHED_FUNCTION)
    for value in vars(cls).values():
        parts = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
        for part in parts:
            function = getattr(part, "__func__", part)  # a static or class method
            if not isinstance(function, functions):
                function = getattr(function, "__wrapped__", None)  # a decorated one
            if isinstance(function, functions):
                yield function


def _may_hold(value: Any) -> bool:
    """Return whether a value may hold state that a call of the model changes."""
    kind = value if isinstance(value, type) else type(value)
    return (
        issubclass(kind, (*_STATEFUL, *list_state_kinds())) or is_of_a_framework(kind) or is_users_own(kind.__module__)
    )


def is_of_a_framework(kind: type) -> bool:
    """Return whether a class is one of Keras or TensorFlow, or derived from one."""
    return any(name_package(cls) in FRAMEWORKS for cls in kind.__mro__)


def name_package(named: Any) -> str:
    """Return the package that a class or function is defined in."""
    return (getattr(named, "__module__", None) or "").partition(".")[0]


@functools.lru_cache(maxsize=1000)
def is_users_own(module: str) -> bool:
    """Return whether a module is a file of the user or ``__main__``: neither of Python nor an installed package."""
    package = module.partition(".")[0]
    if package == "__main__":
        return True
    if package in sys.stdlib_module_names or is_own_module(package):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and not any(folder in file for folder in _PACKAGE_FOLDERS)
