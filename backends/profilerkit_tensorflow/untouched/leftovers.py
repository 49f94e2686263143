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
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework import func_graph

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import restored

__all__ = ["Holder", "forget_tensors", "graphs_made"]

#: The number of references that are followed back from a tensor to an object of the user.
_STEPS = 6
#: The number of tensors whose holders are searched for.
_MOST_TENSORS = 100
_CONTAINERS = (dict, list, set, deque)
_LEADING: tuple[type, ...] = (*_CONTAINERS, tuple, types.CellType)
_CACHE = functools._lru_cache_wrapper
#: Packages whose objects are not the user's.
_INTERNAL = ("tensorflow", "keras", "tf_keras", "profilerkit", "profilerkit_tensorflow", "profilerkit_metrics")
_BUILT_IN = ("builtins", *sys.stdlib_module_names)


#: Part of the names of files to which autograph writes a converted function of the user.
_GENERATED = "__autograph_generated_file"


class Holder(NamedTuple):
    """The name of an object of the user that held such tensors, and whether they were removed."""

    name: str
    emptied: bool


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
    original = func_graph.FuncGraph.__init__

    @functools.wraps(original)
    def noted(graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        if _noting.stack:
            _noting.stack[-1].append(weakref.ref(graph))

    patched = nullcontext() if stack else _patched(original, noted)
    with patched, restored(partial(setattr, _noting, "stack", stack), in_child=False):
        _noting.stack = [*stack, made]
        yield made


@contextmanager
def _patched(original: Any, noted: Any) -> Iterator[None]:
    graph = func_graph.FuncGraph
    with restored(partial(setattr, graph, "__init__", original)):
        graph.__init__ = noted
        yield


def forget_tensors(made: Iterable[weakref.ref[Any]]) -> tuple[Holder, ...]:
    """Remove tensors of these graphs from the user's containers and caches; return all holders of such tensors.

    Attributes and variables are not changed, since their earlier value is not known.
    """
    graphs = [graph for reference in made if (graph := reference()) is not None]
    if any(type(graph).__name__.endswith("GradFuncGraph") or "__backward_" in graph.name for graph in graphs):
        return ()  # of gradients of loops TensorFlow keeps more references; a forward pass fills the same caches
    if not _suspects(graphs):
        return ()
    gc.collect()
    suspects = _suspects(graphs)
    if not suspects:  # garbage held them
        return ()
    with frozen_objects_found():
        del suspects[_MOST_TENSORS:]
        return tuple(dict.fromkeys(_forget(*each) for each in _Search(graphs, suspects).holders()))


def _suspects(graphs: Sequence[Any]) -> list[Any]:
    return [tensor for graph in graphs for tensor in _held_elsewhere(graph, graphs)]


def _held_elsewhere(graph: Any, graphs: Sequence[Any]) -> list[Any]:
    """Return the tensors of a graph with more references than TensorFlow itself has to them."""
    references = _known_references(graph, graphs)
    tensors = []
    for operator in graph.get_operations():
        outputs = operator.outputs
        for index in range(len(outputs)):
            users = len({user.name for user in outputs[index].consumers()})
            if sys.getrefcount(outputs[index]) > _REFERENCES_OF_OPERATOR + users + references[id(outputs[index])]:
                tensors.append(outputs[index])
    return tensors


def _known_references(graph: Any, graphs: Sequence[Any]) -> Counter[int]:
    """Return how many references TensorFlow itself has to each tensor of a graph, apart from the operators."""
    references: Counter[int] = Counter(map(id, graph.inputs))
    references.update(id(tensor) for tensor in (*graph.outputs, *graph.outputs))  # in a row, and in their structure
    for other in graphs:
        for pair in other.captures:
            references.update(id(tensor) for tensor in (*pair, *pair))
    references.update(id(wrapper.unwrapped) for wrapper in getattr(graph._unfeedable_tensors, "_storage", ()))
    for operator in graph.get_operations():
        for tensor in operator.outputs:
            references.update(map(id, vars(tensor).values()))  # a mask or logits, by Keras
    return references


def _references_of_an_operator() -> int:
    """Return the number of references to a tensor that only its operator holds."""
    graph = func_graph.FuncGraph("profilerkit_references")
    with graph.as_default():
        tf.compat.v1.placeholder(tf.float32)
    (operator,) = graph.get_operations()
    outputs = operator.outputs
    return sys.getrefcount(outputs[0]) - _known_references(graph, [graph])[id(outputs[0])]


class _Search:
    """Follows references back from tensors to the objects of the user that hold them, for all tensors at once.

    There may be tuples between a tensor and its holder, and other containers between the holder and what names it.
    """

    def __init__(self, graphs: Sequence[Any], suspects: list[Any]) -> None:
        self._not_the_users = {id(graphs), id(suspects), *_parts_of(graphs)}
        self._seen: set[int] = set()
        #: Each holder with the tensors that it holds, by its id; and the holders below each object passed, by ids.
        self._holders: dict[int, tuple[Any, list[Any]]] = {}
        self._below: dict[int, set[int]] = {}
        self._not_the_users.add(id(self._holders))
        #: The names of the holders, by their ids; and of those that an object of the user owns.
        self._names: dict[int, str] = {}
        self.owned: dict[int, str] = {}
        step = suspects
        for _ in range(_STEPS):
            step = self._above(step)
            if not step:
                break

    def holders(self) -> list[tuple[Any, list[Any], str]]:
        """Return each holder with the tensors (or tuples of tensors) to remove from it, and its name."""
        return [(*self._holders[key], name) for key, name in self.owned.items()]

    def _above(self, step: list[Any]) -> list[Any]:
        inside = {id(each): each for each in step}
        self._not_the_users.add(id(step))
        above: list[Any] = []
        self._not_the_users |= {id(above), id(inside)}
        for referrer in gc.get_referrers(*step):
            if id(referrer) in self._not_the_users or id(referrer) in self._seen or _is_a_frameworks(referrer):
                continue
            children = [inside[id(each)] for each in gc.get_referents(referrer) if id(each) in inside]
            self._note(referrer, children)
            owner = _owner(referrer)
            if owner is not None:
                self._name(referrer, owner)
            if _is_local(referrer) or (owner is None and issubclass(type(referrer), _LEADING)):
                self._seen.add(id(referrer))
                above.append(referrer)
        return above

    def _name(self, referrer: Any, owner: str) -> None:
        """Name the holders below a named object; below a nested function only if an object of the user holds that.

        The gradient of `tf.custom_gradient` is such a function: it is made in each pass, and then only TensorFlow has
        it.
        """
        for key in self._below[id(referrer)]:
            holder = self._holders[key][0]
            name = f"a {type(holder).__name__} of {owner}" if holder is not referrer else owner
            name = self._names.setdefault(key, name)
            if not _is_local(referrer):
                self.owned.setdefault(key, name)

    def _note(self, referrer: Any, children: list[Any]) -> None:
        tensors = [child for child in children if not self._below.get(id(child))]
        below: set[int] = set().union(*(self._below.get(id(child), set()) for child in children))
        if tensors and not issubclass(type(referrer), tuple):
            self._holders[id(referrer)] = holder = (referrer, tensors)
            self._not_the_users |= {id(holder), id(tensors)}
            below.add(id(referrer))
        self._below[id(referrer)] = below


def _parts_of(graphs: Sequence[Any]) -> set[int]:
    """Return the ids of the parts of graphs: the containers of their operators, their tensors and the graphs."""
    operators = [operator for graph in graphs for operator in graph.get_operations()]
    tensors = [tensor for operator in operators for tensor in operator.outputs]
    parts: set[int] = set()
    for roots, steps in ((operators, 2), (tensors, 2), (list(graphs), 4)):
        step: list[Any] = list(roots)
        for _ in range(steps):
            # Once each: every operator refers to its graph, and the graph to everything.
            referents = {id(each): each for each in gc.get_referents(*step)}
            step = [each for key, each in referents.items() if key not in parts and _is_part(each)]
            parts |= set(map(id, step))
    return parts


def _is_part(value: Any) -> bool:
    return type(value) in (dict, list, tuple, set) or (_package(type(value)) == "tensorflow" and not callable(value))


def _is_a_frameworks(referrer: Any) -> bool:
    kind = type(referrer)  # never isinstance: a proxy may raise where it is asked for its class
    if kind is types.FunctionType and _GENERATED in referrer.__code__.co_filename:
        return True  # autograph's version of a loop of the user
    return issubclass(kind, (types.FrameType, tf.Graph, tf.Operation, tf.Tensor)) or _package(kind) in _INTERNAL


def _owner(value: Any) -> str | None:
    """Return the name of a module, cache, function, class or object of the user; None for anything else."""
    kind = type(value)
    if issubclass(kind, dict):
        name = dict.get(value, "__name__")
        module = sys.modules.get(name) if isinstance(name, str) else None
        is_namespace = getattr(module, "__dict__", None) is value and _root(str(name)) not in _INTERNAL
        return f"the module {name}" if is_namespace else None
    if issubclass(kind, (_CACHE, types.FunctionType, type)):
        cached = "the cache of " if kind is _CACHE else ""
        return (
            None if _package(value) in (*_INTERNAL, *_BUILT_IN) else f"{cached}{value.__module__}.{value.__qualname__}"
        )
    if issubclass(kind, (*_LEADING, types.FrameType)) or _package(kind) in (*_INTERNAL, *_BUILT_IN):
        return None
    return f"an attribute of a {kind.__qualname__}"


def _is_local(value: Any) -> bool:
    """Return whether a value is a function that was defined in another one."""
    return type(value) is types.FunctionType and "<locals>" in value.__qualname__


def _forget(holder: Any, tensors: list[Any], name: str) -> Holder:
    """Remove tensors from a container or cache; an attribute or variable is not changed."""
    ids = set(map(id, tensors))
    if isinstance(holder, _CACHE):
        holder.cache_clear()
    elif isinstance(holder, dict) and not _is_namespace(holder):
        for key in [key for key, value in dict.items(holder) if id(value) in ids]:
            dict.pop(holder, key)
    elif isinstance(holder, (list, deque)):
        kept = [value for value in holder if id(value) not in ids]
        holder.clear()
        holder.extend(kept)
    elif isinstance(holder, set):
        set.difference_update(holder, [value for value in holder if id(value) in ids])
    else:
        return Holder(name, emptied=False)
    return Holder(name, emptied=True)


def _is_namespace(holder: dict[Any, Any]) -> bool:
    """Return whether a dict is the namespace of a module or of an object."""
    return any(_attributes(owner) is holder for owner in gc.get_referrers(holder))


def _attributes(owner: Any) -> Any:
    try:
        return object.__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):  # it has none
        return None


def _package(named: Any) -> str:
    return _root(getattr(named, "__module__", None) or "")


def _root(module: str) -> str:
    return module.partition(".")[0]


_REFERENCES_OF_OPERATOR = _references_of_an_operator()
