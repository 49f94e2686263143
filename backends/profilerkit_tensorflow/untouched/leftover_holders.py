"""What holds tensors of a trace: containers and caches of the user, found by what refers to what in memory.

Each question for what refers to an object goes through all memory, so it is asked once for all objects of a level.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["find_parts", "remove_from_holders"]

#: How many references are followed back: from a tensor through tuples within tuples to a container, and from that
#: through containers within containers to an object of the user's. More would lead to what the whole program holds.
_LEVELS = 4
#: How many references are followed from an operator or a tensor (its attributes, and the lists among them), and from a
#: graph, whose collections have lists in dicts.
_INTO_OPERATOR, _INTO_GRAPH = 2, 4
_CONTAINERS = (dict, list, set, deque)
_CACHE = functools._lru_cache_wrapper
#: Packages whose objects are not the user's.
_NOT_THE_USERS = (
    *("tensorflow", "keras", "tf_keras", "profilerkit", "profilerkit_tensorflow", "profilerkit_metrics"),
    *("builtins", *sys.stdlib_module_names),
)


def remove_from_holders(tensors: Sequence[Any], parts: set[int]) -> list[str]:
    """Remove tensors, and tuples of them, from the user's containers and caches; return the names of other holders.

    ``parts`` are the ids of what belongs to their graphs. The holders of a tuple are found on the next level.
    """
    names: list[str] = []
    level: Sequence[Any] = tensors
    for _ in range(_LEVELS):
        holders = _list_referrers(level, parts)
        for cache in _select_kinds(holders, _CACHE):
            cache.cache_clear()
        owners = _find_owners_of_namespaces(_select_kinds(holders, dict))
        others = [holder for holder in holders if not issubclass(type(holder), (tuple, _CACHE, *_CONTAINERS))]
        for owner in (*owners.values(), *others):
            names += _name_users(owner)
        containers = [holder for holder in _select_kinds(holders, *_CONTAINERS) if id(holder) not in owners]
        ids = set(map(id, level))
        for container in _select_users(containers, parts):
            _take_out(container, ids)
        level = _select_kinds(holders, tuple)
        if not level:
            break
    return names


def _list_referrers(level: Sequence[Any], parts: set[int]) -> list[Any]:
    """Return what refers to the objects of a level, without the parts of graphs and our own list of the level."""
    return [value for value in gc.get_referrers(*level) if id(value) not in parts and value is not level]


def _select_kinds(values: Sequence[Any], *kinds: type) -> list[Any]:
    """Return the values of these types. Their ``__class__`` is not asked for, as that of a proxy may raise."""
    return [value for value in values if issubclass(type(value), kinds)]


def _select_users(containers: list[Any], parts: set[int]) -> list[Any]:
    """Return those containers to which an object of the user leads: TensorFlow has containers of tensors too."""
    # By ids, as objects may have an equality of their own: what refers to each container, and the objects of the user.
    parents: dict[int, set[int]] = defaultdict(set)
    named: set[int] = set()
    level, seen = containers, set(map(id, containers))
    for _ in range(_LEVELS):
        if not level:
            break
        referrers = _list_referrers(level, parts)
        ids = set(map(id, level))
        for referrer in referrers:
            for child in ids.intersection(map(id, gc.get_referents(referrer))):
                parents[child].add(id(referrer))
        users = [referrer for referrer in referrers if any(_name_users(referrer))]
        named |= set(map(id, users))
        level = [value for value in _select_kinds(referrers, *_CONTAINERS, tuple) if id(value) not in seen]
        seen |= set(map(id, level))
    return [container for container in containers if _leads_to(id(container), parents, named)]


def _leads_to(start: int, parents: dict[int, set[int]], named: set[int]) -> bool:
    """Return whether one of the named objects is at most so many levels above an object."""
    generation, seen = {start}, {start}
    for _ in range(_LEVELS):
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
        # TensorFlow keeps the user's gradients, which are local functions of ``tf.custom_gradient``.
        is_local = kind is types.FunctionType and "<locals>" in value.__qualname__
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
    for roots, steps in ((operators, _INTO_OPERATOR), (tensors, _INTO_OPERATOR), (list(graphs), _INTO_GRAPH)):
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
