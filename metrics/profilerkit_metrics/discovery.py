"""The metrics of this package: each module is searched, so that a new metric takes one file."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

from profilerkit import ProfilerFunction, StatusKey
from profilerkit.piping.registry import PROVIDED
from profilerkit.process.modules import import_modules

__all__ = ["default_functions", "modules", "public_names", "status_keys"]

_PACKAGE = __name__.rpartition(".")[0]
#: The modules that define no metric.
_OTHERS = frozenset({"discovery", "kinds", "plugin", "scoring", "scoring_notes"})


def modules() -> Iterator[ModuleType]:
    """Yield every module of the package that defines metrics."""
    yield from import_modules(_PACKAGE, import_module(_PACKAGE).__path__, but=_OTHERS).values()


def public_names() -> dict[str, str]:
    """Return the module of each status key and function, by its name."""
    return {name: module.__name__ for module in modules() for name, _ in _members(module)}


def status_keys() -> list[type[StatusKey]]:
    """Return every status key whose name is its own."""
    return list(_status_keys(tuple(import_module(_PACKAGE).__path__)))


@lru_cache(maxsize=4)
def _status_keys(path: tuple[str, ...]) -> tuple[type[StatusKey], ...]:
    """Return the status keys of the package at this path: looked for once, for each profiler asks."""
    members = [member for module in modules() for _, member in _members(module)]
    keys = [type(key) for member in members if isinstance(member, ProfilerFunction) for key in member.list_keys()]
    classes = [member for member in members if isinstance(member, type) and issubclass(member, StatusKey)]
    return tuple(key for key in dict.fromkeys([*classes, *keys]) if "NAME" in vars(key))


def default_functions() -> list[ProfilerFunction]:
    """Return what profilers have by default: every function that is made without arguments.

    Of functions with common keys the one with the most keys is used. First comes what follows from the trace, then what
    uses the model, then what follows from other metrics; what is computed on demand comes last. Within each of these
    the functions with most keys come first, so that a new metric does not move the established ones, whatever its file
    is called.
    """
    functions = _default_members(tuple(import_module(_PACKAGE).__path__))
    return [function() if isinstance(function, type) else function for function in functions]


@lru_cache(maxsize=4)
def _default_members(path: tuple[str, ...]) -> tuple[type[ProfilerFunction] | ProfilerFunction, ...]:
    """Return the default functions, or their classes; the search is done once and remembered."""
    functions = [function for module in modules() for function in _functions(module)]
    keys = {id(function): {key.NAME for key in function.list_keys()} for _, function in functions}
    whole = [function for function in functions if not any(keys[id(function[1])] < others for others in keys.values())]
    ordered = sorted(whole, key=lambda item: (item[1].ON_DEMAND, _level(item[1]), -len(keys[id(item[1])])))
    return tuple(member for member, _ in ordered)


def _members(module: ModuleType) -> list[tuple[str, Any]]:
    """Return the public status keys and functions of a module, by name."""
    named = [(name, getattr(module, name)) for name in module.__all__]
    kinds = (StatusKey, ProfilerFunction)
    return [(name, item) for name, item in named if isinstance(item, kinds) or _is_one(item, kinds)]


def _is_one(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, type) and issubclass(value, kinds)


def _functions(module: ModuleType) -> Iterator[tuple[type[ProfilerFunction] | ProfilerFunction, ProfilerFunction]]:
    """Yield each function of a module, and before it what makes it: its class, or itself."""
    for _, member in _members(module):
        if isinstance(member, ProfilerFunction):
            yield member, member
        elif issubclass(member, ProfilerFunction) and _is_made_alone(member):
            yield member, member()


def _is_made_alone(cls: type) -> bool:
    parameters = inspect.signature(cls).parameters.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(parameter.default is not parameter.empty or parameter.kind in optional for parameter in parameters)


def _level(function: ProfilerFunction) -> int:
    parameters = function.parameters().keys()
    if not parameters.isdisjoint(PROVIDED):
        return 1
    return 0 if "trace" in parameters else 2
