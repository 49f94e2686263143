"""Tensors of a trace that an object of the user still holds: a cache that was filled while a model was traced.

Such a tensor has no value. The next call of the model would take it from the cache and raise. What `preserved` restores
holds none any more; this module finds the others.

Finding them is cheap: the references to a graph's tensors are counted, and the number that TensorFlow itself has is
known. Only if there are more, the memory is searched for their holders.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import types
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import restored

from ..compat import FuncGraph, unfeedable_tensors

__all__ = ["forget_tensors", "graphs_made"]

#: The number of references that are followed back from a tensor to its container, and from there to its owner.
_STEPS = 4
#: The number of tensors whose holders are searched for.
_MOST_TENSORS = 100
_CONTAINERS = (dict, list, set, deque)
_CACHE = functools._lru_cache_wrapper
#: Packages whose objects are not the user's.
_INTERNAL = ("tensorflow", "keras", "tf_keras", "profilerkit", "profilerkit_tensorflow", "profilerkit_metrics")
_BUILT_IN = ("builtins", *sys.stdlib_module_names)


class _Noting(threading.local):
    """The graphs that this thread makes, for each `graphs_made` block that is open: the innermost last."""

    def __init__(self) -> None:
        self.stack: list[list[weakref.ref[Any]]] = []


_noting = _Noting()


@contextmanager
def graphs_made() -> Iterator[list[weakref.ref[Any]]]:
    """Yield a list of the function graphs that this thread makes in the block, except those of a nested block."""
    made: list[weakref.ref[Any]] = []
    stack = [*_noting.stack]
    patched = nullcontext() if stack or FuncGraph is None else _patch(FuncGraph.__init__)
    with patched, restored(partial(setattr, _noting, "stack", stack), in_child=False):
        _noting.stack = [*stack, made]
        yield made


@contextmanager
def _patch(original: Any) -> Iterator[None]:
    @functools.wraps(original)
    def note(graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        if _noting.stack:
            _noting.stack[-1].append(weakref.ref(graph))

    with restored(partial(setattr, FuncGraph, "__init__", original)):
        FuncGraph.__init__ = note
        yield


def forget_tensors(made: Iterable[weakref.ref[Any]]) -> list[str]:
    """Remove tensors of these graphs from the user's containers and caches; return the names of what still holds any.

    Attributes and variables are not changed, since their earlier value is not known.
    """
    graphs = [graph for reference in made if (graph := reference()) is not None]
    if any(type(graph).__name__.endswith("GradFuncGraph") or "__backward_" in graph.name for graph in graphs):
        return []  # of gradients of loops TensorFlow keeps more references; a forward pass fills the same caches
    if not _find_suspects(graphs):
        return []
    gc.collect()
    suspects = _find_suspects(graphs)[:_MOST_TENSORS]
    if not suspects:  # garbage held them
        return []
    with frozen_objects_found():
        return sorted(set(_remove(suspects, _find_parts(graphs))))


# Counting references --------------------------------------------------------------------------------------------------


def _find_suspects(graphs: Sequence[Any]) -> list[Any]:
    """Return the tensors of graphs with more references than TensorFlow itself has to them."""
    tensors = []
    for graph in graphs:
        references = _count_known_references(graph, graphs)
        for operator in graph.get_operations():
            outputs = operator.outputs
            for index in range(len(outputs)):
                users = len({user.name for user in outputs[index].consumers()})
                if sys.getrefcount(outputs[index]) > _REFERENCES_OF_OPERATOR + users + references[id(outputs[index])]:
                    tensors.append(outputs[index])
    return tensors


def _count_known_references(graph: Any, graphs: Sequence[Any]) -> Counter[int]:
    """Return how many references TensorFlow itself has to each tensor of a graph, apart from the operators."""
    references: Counter[int] = Counter(map(id, graph.inputs))
    references.update(id(tensor) for tensor in (*graph.outputs, *graph.outputs))  # in a row, and in their structure
    for other in graphs:
        for pair in other.captures:
            references.update(id(tensor) for tensor in (*pair, *pair))
    references.update(map(id, unfeedable_tensors(graph)))
    for operator in graph.get_operations():
        for tensor in operator.outputs:
            references.update(map(id, vars(tensor).values()))  # a mask or logits, by Keras
    return references


def _count_references_of_operator() -> int:
    """Return the number of references to a tensor that only its operator holds."""
    if FuncGraph is None:
        return 0
    graph = FuncGraph("profilerkit_references")
    with graph.as_default():
        tf.compat.v1.placeholder(tf.float32)
    (operator,) = graph.get_operations()
    outputs = operator.outputs
    return sys.getrefcount(outputs[0]) - _count_known_references(graph, [graph])[id(outputs[0])]


# Searching the memory -------------------------------------------------------------------------------------------------


def _remove(tensors: list[Any], parts: set[int]) -> Iterator[str]:
    """Remove tensors, and tuples of them, from the user's containers; yield the names of what else holds them.

    Each question for referrers goes through all memory, so it is asked for all objects of a step at once.
    """
    step = tensors
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
                yield from _name(referrer)
            elif id(referrer) in owners:
                yield from _name(owners[id(referrer)])
            elif referrer is not step:
                containers.append(referrer)
        for container in _find_users(containers, parts | {id(referrers)}):
            _take_out(container, ids)
        if not tuples:
            return
        step = tuples


def _find_users(containers: list[Any], parts: set[int]) -> list[Any]:
    """Return those containers to which an object of the user leads: TensorFlow has containers of tensors too."""
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
            if any(_name(referrer)):
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


def _name(value: Any) -> Iterator[str]:
    """Yield the name of a module, cache, function, class or object of the user; nothing for anything else."""
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        if _root(value.__name__) not in (*_INTERNAL, *_BUILT_IN):
            yield f"the module {value.__name__}"
    elif issubclass(kind, (_CACHE, type)) or kind is types.FunctionType:
        is_local = kind is types.FunctionType and "<locals>" in value.__qualname__  # a gradient that TensorFlow has
        if _package(value) not in (*_INTERNAL, *_BUILT_IN) and not is_local:
            yield f"{value.__module__}.{value.__qualname__}"
    elif not issubclass(kind, (*_CONTAINERS, tuple)) and _package(kind) not in (*_INTERNAL, *_BUILT_IN):
        yield f"an attribute of a {kind.__qualname__}"


def _find_parts(graphs: Sequence[Any]) -> set[int]:
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
    return type(value) in (dict, list, tuple, set) or (_package(type(value)) == "tensorflow" and not callable(value))


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
    owners = gc.get_referrers(*dicts) if dicts else []
    return {key: owner for owner in owners if (key := id(_attributes(owner))) in keys}


def _attributes(owner: Any) -> Any:
    try:
        return object.__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):  # it has none
        return None


def _package(named: Any) -> str:
    return _root(getattr(named, "__module__", None) or "")


def _root(module: str) -> str:
    return module.partition(".")[0]


_REFERENCES_OF_OPERATOR = _count_references_of_operator()
