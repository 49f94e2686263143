"""The metrics of this package: each module is searched, so that a new metric takes one file."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from profilerkit import ProfilerFunction, StatusKey
from profilerkit.piping.function import Need, read_usable
from profilerkit.piping.intrinsic import INTRINSIC
from profilerkit.piping.registry import Registry
from profilerkit.process.modules import find_module_names

__all__ = ["default_functions", "find_public_names", "status_keys"]

_PACKAGE = __name__.rpartition(".")[0]
#: The modules that define no metric. They are not imported, as some need numpy. A test finds one that is missing here.
_OTHERS = (
    "discovery",
    "evaluation_functions",
    "evaluation_results",
    "graph_scores",
    "kinds",
    "other_sizes",
    "output_arrays",
    "plugin",
    "scoring",
    "scoring_arrays",
    "scoring_notes",
)

#: A function that all profilers share, as ``@metric`` makes it, or the class that makes one for each of them.
_Source: TypeAlias = ProfilerFunction | type[ProfilerFunction]


class _Default(NamedTuple):
    """A function that profilers may have by default, its source, and the names of its status keys."""

    source: _Source
    function: ProfilerFunction
    keys: tuple[str, ...]


def find_public_names() -> dict[str, str]:
    """Return the module of each status key and function, by its name."""
    return {name: module.__name__ for module, members in _read_modules(_find_folders()).items() for name in members}


def status_keys() -> list[type[StatusKey]]:
    """Return every status key whose class has a name: not keys that get their names when they are made.

    These are the public keys, and the keys of public functions.
    """
    members = [member for named in _read_modules(_find_folders()).values() for member in named.values()]
    classes = [member for member in members if isinstance(member, type) and issubclass(member, StatusKey)]
    function_keys = [
        type(key) for member in members if isinstance(member, ProfilerFunction) for key in member.list_keys()
    ]
    return [key for key in dict.fromkeys([*classes, *function_keys]) if "NAME" in vars(key)]


def default_functions() -> list[ProfilerFunction]:
    """Return the default functions of profilers: of every function that is made without arguments.

    Where smaller functions compute the keys of a larger one, they are the defaults, in the order of its keys: a metric
    that is requested alone computes few others. Otherwise the order is by these questions:

    1. Is it computed always, or on demand?
    2. Which facts of the model does it need? Functions that need none come last.
    3. How many keys has it? Functions with most keys come first, so that a new metric does not move the established
       ones, whatever the name of its file is.
    """
    candidates = _list_candidates(_find_folders())
    registry = Registry()
    registry.bind_on_demand(*INTRINSIC, *(candidate.function for candidate in candidates))

    def rank(candidate: _Default) -> tuple[int, ...]:
        need = max(map(registry.find_need, candidate.keys))
        return candidate.function.ON_DEMAND, need or len(Need), -len(candidate.keys)

    chosen = [part for candidate in sorted(candidates, key=rank) for part in _divide(candidate, candidates)]
    return [_make_function(default.source) for default in dict.fromkeys(chosen)]


def _divide(whole: _Default, candidates: Iterable[_Default]) -> Iterator[_Default]:
    """Yield for each key of a function the smallest function that computes it, and no other key than the whole does."""
    parts = [candidate for candidate in candidates if set(candidate.keys) <= set(whole.keys)]
    for key in whole.keys:
        yield min((part for part in parts if key in part.keys), key=lambda part: len(part.keys))


def _find_folders() -> tuple[str, ...]:
    """Return the folders of the package: while these are the same, it is searched once for all profilers."""
    return tuple(import_module(_PACKAGE).__path__)


@lru_cache(maxsize=4)
def _read_modules(folders: tuple[str, ...]) -> dict[ModuleType, dict[str, Any]]:
    """Return the modules of the package in these folders, each with its status keys and functions by name."""
    modules = [import_module(f"{_PACKAGE}.{name}") for name in find_module_names(folders, but=_OTHERS)]
    return {module: _find_members(module) for module in modules}


@lru_cache(maxsize=4)
def _list_candidates(folders: tuple[str, ...]) -> list[_Default]:
    """Return the functions in these folders that may be defaults; raises for one that no profiler can take."""
    candidates = []
    for members in _read_modules(folders).values():
        for source in filter(_is_made_without_arguments, members.values()):
            function = _make_function(source)
            read_usable(function)
            candidates.append(_Default(source, function, tuple(key.NAME for key in function.list_keys())))
    return candidates


def _make_function(source: _Source) -> ProfilerFunction:
    return source() if isinstance(source, type) else source


def _find_members(module: ModuleType) -> dict[str, Any]:
    """Return the public status keys and functions of a module by name: classes, and instances such as ``@metric``'s.

    Without ``__all__`` these are all that are defined there, and whose names do not begin with an underscore.
    """
    names = getattr(module, "__all__", None)
    if names is None:
        origins = {name: getattr(value, "__module__", "") for name, value in vars(module).items()}
        names = [name for name, origin in origins.items() if origin == module.__name__ and not name.startswith("_")]
    public = {name: getattr(module, name) for name in names}
    return {name: value for name, value in public.items() if _is_member(value)}


def _is_member(value: Any) -> bool:
    kinds = (StatusKey, ProfilerFunction)
    return issubclass(value, kinds) if isinstance(value, type) else isinstance(value, kinds)


def _is_made_without_arguments(member: Any) -> bool:
    """Return whether a member of a module is a function, or a class that makes one without arguments."""
    if not (isinstance(member, type) and issubclass(member, ProfilerFunction)):
        return isinstance(member, ProfilerFunction)
    parameters = inspect.signature(member).parameters.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(parameter.default is not parameter.empty or parameter.kind in optional for parameter in parameters)
