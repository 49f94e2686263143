"""Tensors of a trace that an object of the user still holds: a cache that was filled while a model was traced.

Such a tensor has no value. The next call of the model would take it from the cache and raise. What `preserved` restores
holds none any more; this module finds the others.

Finding them is cheap: the references to a graph's tensors are counted, and the number that TensorFlow itself has is
known. Only if there are more, the memory is searched for their holders.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from profilerkit.process.collector import frozen_objects_found

from ..compat.graphs import FuncGraph, list_unfeedable_tensors
from .leftover_holders import find_parts, remove_from_holders

__all__ = ["forget_tensors"]

#: The number of tensors whose holders are searched for.
_MOST_TENSORS = 100


def forget_tensors(made: Iterable[weakref.ref[Any]]) -> list[str]:
    """Remove tensors of these graphs from the user's containers and caches; return the names of what still holds any.

    Attributes and variables are not changed, since their earlier value is not known.
    """
    graphs = [graph for graph in (reference() for reference in made) if graph is not None]
    if any(map(_computes_gradients, graphs)) or not _find_suspects(graphs):
        return []
    gc.collect()  # garbage may have held them
    suspects = _find_suspects(graphs)[:_MOST_TENSORS]
    if not suspects:
        return []
    with frozen_objects_found():
        return sorted(set(remove_from_holders(suspects, find_parts(graphs))))


def _computes_gradients(graph: Any) -> bool:
    """Return whether a graph computes gradients: those of loops TensorFlow refers to more often than is known.

    Nothing is lost by leaving these out: a forward pass fills the same caches.
    """
    return type(graph).__name__.endswith("GradFuncGraph") or "__backward_" in graph.name


# Counting references --------------------------------------------------------------------------------------------------


def _find_suspects(graphs: Sequence[Any]) -> list[Any]:
    """Return the tensors of graphs with more references than TensorFlow itself has to them."""
    tensors = []
    for graph in graphs:
        references = _count_known_references(graph, graphs)
        for operator in graph.get_operations():
            outputs = operator.outputs
            for index in range(len(outputs)):  # no variable for an output: it would be a reference too
                users = len({user.name for user in outputs[index].consumers()})
                if sys.getrefcount(outputs[index]) > _REFERENCES_OF_OPERATOR + users + references[id(outputs[index])]:
                    tensors.append(outputs[index])
    return tensors


def _count_known_references(graph: Any, graphs: Sequence[Any]) -> Counter[int]:
    """Return how many references TensorFlow itself has to each tensor of a graph, apart from the operators.

    Outputs are in a list and in the structure that the function returns; captured tensors are in two tables.
    """
    references: Counter[int] = Counter(map(id, graph.inputs))
    for tensor in graph.outputs:
        references[id(tensor)] += 2
    for other in graphs:
        for outside, inside in other.captures:
            references[id(outside)] += 2
            references[id(inside)] += 2
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
