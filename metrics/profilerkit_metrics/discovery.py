"""The metrics of this package: each module is searched, so that a new metric takes one file."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from profilerkit import ProfilerFunction, StatusKey
from profilerkit.piping.usable import PROVIDED
from profilerkit.process.modules import import_modules

__all__ = ["default_functions", "find_public_names", "import_metric_modules", "status_keys"]

_PACKAGE = __name__.rpartition(".")[0]
#: The modules that define no metric.
_OTHERS = frozenset(
    {"discovery", "evaluation_functions", "kinds", "output_arrays", "plugin", "scoring", "scoring_arrays"}
    | {"scoring_notes"}
)


class _Default(NamedTuple):
    """A function that profilers may have by default."""

    #: An instance, which is asked for its keys and parameters.
    function: ProfilerFunction
    #: What profilers get: an instance of this class, made for each of them; or this instance itself.
    source: type[ProfilerFunction] | ProfilerFunction
    keys: frozenset[str]


def import_metric_modules() -> Iterator[ModuleType]:
    """Yield every module of the package that defines metrics."""
    yield from import_modules(_PACKAGE, import_module(_PACKAGE).__path__, but=_OTHERS).values()


def find_public_names() -> dict[str, str]:
    """Return the module of each status key and function, by its name."""
    return {name: module.__name__ for module in import_metric_modules() for name in _find_members(module)}


def status_keys() -> list[type[StatusKey]]:
    """Return every status key whose name is its own."""
    return list(_find_status_keys(_find_folders()))


def default_functions() -> list[ProfilerFunction]:
    """Return what profilers have by default: every function that is made without arguments.

    Of functions with common keys the one with the most keys is used. First comes what follows from the trace, then what
    uses the model, then what follows from other metrics; what is computed on demand comes last. Within each of these
    the functions with most keys come first, so that a new metric does not move the established ones, whatever its file
    is called.
    """
    return [source() if isinstance(source, type) else source for source in _find_defaults(_find_folders())]


def _find_folders() -> tuple[str, ...]:
    """Return the folders of the package: what was found is remembered for them, because each profiler asks."""
    return tuple(import_module(_PACKAGE).__path__)


@lru_cache(maxsize=4)
def _find_status_keys(folders: tuple[str, ...]) -> tuple[type[StatusKey], ...]:
    """Return the status keys of the package in these folders: the public ones, and those of public functions."""
    members = [member for module in import_metric_modules() for member in _find_members(module).values()]
    classes = [member for member in members if isinstance(member, type) and issubclass(member, StatusKey)]
    function_keys = [
        type(key) for member in members if isinstance(member, ProfilerFunction) for key in member.list_keys()
    ]
    return tuple(key for key in dict.fromkeys([*classes, *function_keys]) if "NAME" in vars(key))


@lru_cache(maxsize=4)
def _find_defaults(folders: tuple[str, ...]) -> tuple[type[ProfilerFunction] | ProfilerFunction, ...]:
    """Return the default functions of the package in these folders, or the classes to make them of, in order."""
    candidates = [candidate for module in import_metric_modules() for candidate in _list_candidates(module)]
    defaults = [candidate for candidate in candidates if not any(candidate.keys < other.keys for other in candidates)]
    defaults.sort(key=lambda default: (default.function.ON_DEMAND, _rank(default.function), -len(default.keys)))
    return tuple(default.source for default in defaults)


def _list_candidates(module: ModuleType) -> Iterator[_Default]:
    """Yield the functions of a module that need no arguments."""
    for member in _find_members(module).values():
        if isinstance(member, ProfilerFunction):
            function = member
        elif issubclass(member, ProfilerFunction) and _needs_no_arguments(member):
            function = member()
        else:
            continue
        yield _Default(function, member, frozenset(key.NAME for key in function.list_keys()))


def _find_members(module: ModuleType) -> dict[str, Any]:
    """Return the public status keys and functions of a module by name: classes, and instances such as ``@metric``'s."""
    kinds = (StatusKey, ProfilerFunction)
    public = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in public.items()
        if (issubclass(value, kinds) if isinstance(value, type) else isinstance(value, kinds))
    }


def _needs_no_arguments(cls: type) -> bool:
    """Return whether an instance can be made without arguments."""
    parameters = inspect.signature(cls).parameters.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(parameter.default is not parameter.empty or parameter.kind in optional for parameter in parameters)


def _rank(function: ProfilerFunction) -> int:
    """Return 0 for what follows from the trace, 1 for what uses the model, 2 for what follows from other metrics."""
    parameters = function.parameters().keys()
    if not parameters.isdisjoint(PROVIDED):
        return 1
    return 0 if "trace" in parameters else 2
