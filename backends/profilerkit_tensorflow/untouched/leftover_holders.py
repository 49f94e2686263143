"""What holds tensors of a trace: containers and caches of the user, found by going through the memory.

Each question for what refers to an object goes through all memory, so it is asked for all objects of a step at once.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["find_parts", "remove_from_holders"]

#: The number of references that are followed back from a tensor to its container, and from there to its owner.
_STEPS = 4
_CONTAINERS = (dict, list, set, deque)
_CACHE = functools._lru_cache_wrapper
#: Packages whose objects are not the user's.
_NOT_THE_USERS = (
    *("tensorflow", "keras", "tf_keras", "profilerkit", "profilerkit_tensorflow", "profilerkit_metrics"),
    *("builtins", *sys.stdlib_module_names),
)


def remove_from_holders(tensors: Sequence[Any], parts: set[int]) -> list[str]:
    """Remove tensors, and tuples of them, from the user's containers and caches; return the names of other holders.

    ``parts`` are the ids of what belongs to their graphs. What holds a tuple is looked for in the next step.
    """
    names: list[str] = []
    step: Sequence[Any] = tensors
    for _ in range(_STEPS):
        ids = set(map(id, step))
        referrers = [referrer for referrer in gc.get_referrers(*step) if id(referrer) not in parts]
        owners = _find_owners_of_namespaces([value for value in referrers if issubclass(type(value), dict)])
        tuples, containers = [], []
        for referrer in referrers:
            kind = type(referrer)  # never isinstance: a proxy may raise where it is asked for its class
            if issubclass(kind, tuple):
                tuples.append(referrer)
            elif kind is _CACHE:
                referrer.cache_clear()
            elif not issubclass(kind, _CONTAINERS):
                names += _name_users(referrer)
            elif id(referrer) in owners:
                names += _name_users(owners[id(referrer)])
            elif referrer is not step:
                containers.append(referrer)
        for container in _select_users(containers, parts | {id(referrers)}):
            _take_out(container, ids)
        if not tuples:
            break
        step = tuples
    return names


def _select_users(containers: list[Any], parts: set[int]) -> list[Any]:
    """Return those containers to which an object of the user leads: TensorFlow has containers of tensors too.

    ``parents`` gets, by the id of each container that is met on the way up, the ids of what refers to it.
    """
    parents: dict[int, set[int]] = {}
    named: set[int] = set()
    step, seen = containers, {*map(id, containers), id(containers)}
    for _ in range(_STEPS):
        if not step:
            break
        ids, above = set(map(id, step)), []
        for referrer in gc.get_referrers(*step):
            if id(referrer) in parts or referrer is step:
                continue
            for child in ids.intersection(map(id, gc.get_referents(referrer))):
                parents.setdefault(child, set()).add(id(referrer))
            if any(_name_users(referrer)):
                named.add(id(referrer))
            elif issubclass(type(referrer), (*_CONTAINERS, tuple)) and id(referrer) not in seen:
                seen.add(id(referrer))
                above.append(referrer)
        step = above
    return [container for container in containers if _leads_to(id(container), parents, named)]


def _leads_to(start: int, parents: dict[int, set[int]], named: set[int]) -> bool:
    """Return whether one of the named objects is among the first so many generations above an object."""
    generation, seen = {start}, {start}
    for _ in range(_STEPS):
        generation = {parent for child in generation for parent in parents.get(child, ())} - seen
        if generation & named:
            return True
        seen |= generation
    return False


def _name_users(value: Any) -> Iterator[str]:
    """Yield the name of a module, cache, function, class or object of the user; nothing for anything else."""
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        if _find_root(value.__name__) not in _NOT_THE_USERS:
            yield f"the module {value.__name__}"
    elif issubclass(kind, (_CACHE, type)) or kind is types.FunctionType:
        is_local = kind is types.FunctionType and "<locals>" in value.__qualname__  # a gradient that TensorFlow has
        if _find_package(value) not in _NOT_THE_USERS and not is_local:
            yield f"{value.__module__}.{value.__qualname__}"
    elif not issubclass(kind, (*_CONTAINERS, tuple)) and _find_package(kind) not in _NOT_THE_USERS:
        yield f"an attribute of a {kind.__qualname__}"


def _take_out(container: Any, ids: set[int]) -> None:
    """Remove values from a container, by their ids."""
    if isinstance(container, dict):
        for key in [key for key, value in dict.items(container) if id(value) in ids]:
            dict.pop(container, key)
    elif isinstance(container, set):
        set.difference_update(container, [value for value in container if id(value) in ids])
    else:
        kept = [value for value in container if id(value) not in ids]
        container.clear()
        container.extend(kept)


def _find_owners_of_namespaces(dicts: Sequence[dict[Any, Any]]) -> dict[int, Any]:
    """Return the module or object whose namespace a dict is, by the dict's id; none for other dicts."""
    keys = set(map(id, dicts))
    referrers = gc.get_referrers(*dicts) if dicts else []
    by_namespace = {id(_read_attributes(referrer)): referrer for referrer in referrers}
    return {key: owner for key, owner in by_namespace.items() if key in keys}


def _read_attributes(owner: Any) -> Any:
    try:
        return object.__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):  # it has none
        return None


def find_parts(graphs: Sequence[Any]) -> set[int]:
    """Return the ids of the parts of graphs: the containers of their operators, their tensors and the graphs."""
    operators = [operator for graph in graphs for operator in graph.get_operations()]
    tensors = [tensor for operator in operators for tensor in operator.outputs]
    parts: set[int] = set()
    for roots, steps in ((operators, 2), (tensors, 2), (list(graphs), 4)):
        step: list[Any] = list(roots)
        for _ in range(steps):
            # Once each: every operator refers to its graph, and the graph to everything.
            referents = {id(referent): referent for referent in gc.get_referents(*step)}
            step = [referent for key, referent in referents.items() if key not in parts and _is_part(referent)]
            parts |= set(map(id, step))
    return parts


def _is_part(value: Any) -> bool:
    kind = type(value)
    return kind in (dict, list, tuple, set) or (_find_package(kind) == "tensorflow" and not callable(value))


def _find_package(named: Any) -> str:
    return _find_root(getattr(named, "__module__", None) or "")


def _find_root(module: str) -> str:
    return module.partition(".")[0]
