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
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.process.collector import frozen_objects_found
from profilerkit.process.restoring import restored

from ..compat.graphs import FuncGraph, list_unfeedable_tensors
from .leftover_holders import find_parts, remove_from_holders

__all__ = ["forget_tensors", "graphs_made"]

#: The number of tensors whose holders are searched for.
_MOST_TENSORS = 100


class _GraphsOfThread(threading.local):
    """The graphs that this thread makes, for each `graphs_made` block that is open: the innermost last."""

    def __init__(self) -> None:
        self.blocks: list[list[weakref.ref[Any]]] = []


_graphs = _GraphsOfThread()


@contextmanager
def graphs_made() -> Iterator[list[weakref.ref[Any]]]:
    """Yield a list of the function graphs that this thread makes in the block, except those of a nested block."""
    made: list[weakref.ref[Any]] = []
    blocks = [*_graphs.blocks]
    patched = nullcontext() if blocks or FuncGraph is None else _note_new_graphs(FuncGraph.__init__)
    with patched, restored(partial(setattr, _graphs, "blocks", blocks), in_child=False):
        _graphs.blocks = [*blocks, made]
        yield made


@contextmanager
def _note_new_graphs(original: Any) -> Iterator[None]:
    """Have each new graph noted in the innermost block."""

    @functools.wraps(original)
    def note(graph: Any, *args: Any, **kwargs: Any) -> None:
        original(graph, *args, **kwargs)
        if _graphs.blocks:
            _graphs.blocks[-1].append(weakref.ref(graph))

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
        return sorted(set(remove_from_holders(suspects, find_parts(graphs))))


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
    references.update(map(id, list_unfeedable_tensors(graph)))
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


_REFERENCES_OF_OPERATOR = _count_references_of_operator()
