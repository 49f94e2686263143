"""The code around a model: the classes it is of, the globals of their files, caches that functions keep."""

from __future__ import annotations

import contextvars
import functools
import gc
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from attack_process import Facts
from torch import nn

from .facts import find_kinds, walk

__all__ = ["add_promised_facts", "clean_code", "list_classes", "list_files", "outside_facts"]

_PACKAGE = __name__.rpartition(".")[0]
_LRU = type(functools.lru_cache(len))
#: What Python itself writes into a class.
_OF_PYTHON = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__annotate_func__"}


def list_classes(modules: Iterable[nn.Module]) -> list[type]:
    """Return the user's own classes that the modules, and the objects in their attributes, are of."""
    objects = [part for module in modules for part in (module, *vars(module).values())]
    found = {cls: None for part in objects for cls in type(part).__mro__ if cls.__module__.startswith(_PACKAGE)}
    return list(found)


def list_files(classes: Iterable[type], modules: Iterable[nn.Module]) -> list[str]:
    """Return the names of the user's files that the classes, and functions in attributes, are from."""
    functions = [part for module in modules for part in vars(module).values() if isinstance(part, types.FunctionType)]
    named = [part.__module__ for part in (*classes, *functions)]
    return [name for name in dict.fromkeys(named) if name.startswith(_PACKAGE)]


def add_promised_facts(classes: Iterable[type], found: Facts, met: set[int]) -> None:
    """Add what the classes themselves hold."""
    for cls in classes:
        own = {name: value for name, value in vars(cls).items() if name not in _OF_PYTHON}
        found[f"class {cls.__name__} attributes"] = list(own)
        for name, value in own.items():
            if not isinstance(value, _LRU):
                walk(f"class {cls.__name__}.{name}", value, found, met)


def outside_facts(files: Iterable[str], found: Facts, met: set[int]) -> None:
    """Add the globals of the user's files, with the kinds of the tensors that caches hold."""
    for name in files:
        own = {key: value for key, value in vars(sys.modules[name]).items() if not key.startswith("__")}
        found[f"globals {name} names"] = list(own)
        for key, value in own.items():
            if isinstance(value, _LRU):
                found[f"outside {key} kinds"] = set().union(*map(find_kinds, _list_remembered(value)))
                found[f"outside {key} calls"] = value.cache_info()
            elif not isinstance(value, (type, types.ModuleType, types.FunctionType)):
                found[f"outside {key} kinds"] = find_kinds(value)
                walk(f"outside {key}", value, found, met)


def _list_remembered(function: Any) -> Iterator[Any]:
    """Yield what an ``lru_cache`` keeps, which only the collector can tell."""
    for held in gc.get_referents(function):
        if isinstance(held, dict):
            yield from held.values()
        elif not isinstance(held, (types.FunctionType, type)):
            yield held
            yield from gc.get_referents(held)


# Cleaning up after a case -------------------------------------------------------------------------------------------


@contextmanager
def clean_code(classes: Iterable[type], names: Iterable[str]) -> Iterator[None]:
    """Give the classes and the globals of their files back what they had."""
    classes, files = list(classes), [sys.modules[name] for name in names]
    before = [(owner, name, value, _copy(value)) for owner in (*files, *classes) for name, value in _own(owner)]
    try:
        yield
    finally:
        for owner in (*files, *classes):
            known = {name for held, name, *_ in before if held is owner}
            for name, _ in _own(owner):
                if name not in known:
                    delattr(owner, name)
        for owner, name, value, content in before:
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
            _refill(value, content)


def _own(owner: Any) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(owner).items() if not name.startswith("__")]


def _copy(value: Any) -> Any:
    """Copy a container with those inside it."""
    if isinstance(value, dict):
        return {key: _copy(inside) for key, inside in value.items()}
    return [_copy(inside) for inside in value] if isinstance(value, list) else value


def _refill(value: Any, content: Any) -> None:
    if isinstance(value, _LRU):
        value.cache_clear()
    elif isinstance(value, dict):
        value.clear()
        value.update(content)
    elif isinstance(value, list):
        value[:] = content
    elif isinstance(value, threading.local):
        vars(value).clear()
    elif isinstance(value, contextvars.ContextVar):
        value.set(None)
