"""The calls of a model's layers while it is traced: which one is running, and which operators each has made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.arguments.structures import tensors_in
from profilerkit.backend_kit.call_stack import CallStack
from profilerkit.backend_kit.failures import note_layer
from profilerkit.backend_kit.replaced_attributes import follow_calls
from profilerkit.costs import UNCOUNTED, Cost, Formula, Shape, evaluate_formula
from profilerkit.trace.records import LayerCall, TensorInfo

from ..costs import layer_cost
from ..model.kinds import is_layer, name_own_weights
from .ownership import Owner, Ownership
from .traced_calls import convert_callable

__all__ = ["LayerCalls"]


class LayerCalls(CallStack):
    """Follows the calls of a model's layers while it is traced, and records the operators that each adds."""

    def __init__(self, layers: Iterable[tuple[str, Any]], training: bool) -> None:
        self._layers = list(layers)
        self.ownership: Ownership = Ownership()
        self.training = training
        #: How many operators the graph of a training step has before the first of a gradient; None in inference.
        self.forward_end: int | None = None
        #: Types of layers with weights that the model does not list: it makes them while it runs.
        self.unlisted_types: list[str] = []
        self._thread = threading.get_ident()
        self._owners: list[Owner] = []
        self.restart()

    def restart(self) -> None:
        """Delete the recorded calls: the model is traced anew."""
        super().__init__(self._layers)
        self.ownership.clear()
        self.forward_end = None
        self.unlisted_types.clear()
        self._owners = [self.ownership.root]

    def end_forward(self) -> None:
        """Call this in the trace of a training step once the loss is there, before its gradients."""
        self.forward_end = tf.compat.v1.get_default_graph().version

    @property
    def owner(self) -> Owner:
        """The layer call that is running."""
        return self._owners[-1]

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Record the calls of the model's layers in this thread, by replacing ``__call__`` of their classes."""
        layers = [layer for _, layer in self._layers if callable(layer) and is_layer(layer)]
        with follow_calls(layers, self._follow, tf.autograph.experimental.do_not_convert):
            yield

    def _follow(self, original: Any, layer: Any, args: Any, kwargs: Any) -> Any:
        """Call a layer, and note the call: its inputs, its outputs, and the operators that it has made."""
        call = convert_callable(original.__get__(layer, type(layer)))
        if threading.get_ident() != self._thread or self.is_innermost(layer):
            return call(*args, **kwargs)
        if not self.knows(layer):
            self._note_unlisted(layer)
            return call(*args, **kwargs)
        graph = tf.compat.v1.get_default_graph()
        self.begin(layer)
        owner = Owner(self.current, self.current_call, type(layer).__name__, self._owners[-1], graph, graph.version)
        self._owners.append(owner)
        try:
            outputs = call(*args, **kwargs)
            seen = LayerCall(_list_infos((args, kwargs)), _list_infos(outputs))
            owner.formula = self._find_formula(layer, seen)
            self.note(seen)
            return outputs
        except Exception as error:
            note_layer(error, self.current)
            self.note(LayerCall(_list_infos((args, kwargs)), ()))
            raise
        finally:
            owner.end = graph.version
            self.ownership.calls.append(owner)
            self._owners.pop()
            self.end()

    def _note_unlisted(self, layer: Any) -> None:
        """Note a layer with weights that the model does not list, unless another hides it, as an RNN does its cell."""
        is_inside_a_layer = len(self._owners) > 1
        if is_layer(layer) and any(True for _ in name_own_weights(layer)) and not is_inside_a_layer:
            self.unlisted_types.append(type(layer).__name__)

    def _find_formula(self, layer: Any, call: LayerCall) -> Callable[[], Cost | None] | None:
        """Return a function for the cost of a whole call of a layer; None without a formula or with unknown sizes."""
        formula = layer_cost(layer)
        inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
        if formula is None or any(None in shape for shape in (*inputs, *outputs)):
            return None
        return partial(_evaluate, formula, layer, inputs, outputs, self.training)


class _LeftToOperators(Exception):
    """A formula has returned None."""


def _evaluate(
    formula: Formula, layer: Any, inputs: tuple[Shape, ...], outputs: tuple[Shape, ...], training: bool
) -> Cost | None:
    """Return the cost of a call of a layer; None if its formula leaves it to the operators of the layer."""

    def call_formula() -> Cost:
        cost = formula(layer, inputs, outputs, training)
        if cost is None:
            raise _LeftToOperators
        return cost

    what, shapes = f"layer {type(layer).__name__}", f"inputs={inputs!r} and outputs={outputs!r}"
    try:
        cost = evaluate_formula(what, call_formula, lambda: shapes, may_raise=(_LeftToOperators,))
    except _LeftToOperators:
        return None
    return UNCOUNTED if cost is None else cost


def _list_infos(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure; an unknown dimension is None."""
    tensors = tensors_in(structure, tf.is_tensor)
    return tuple(TensorInfo(_find_shape(tensor), tf.as_dtype(tensor.dtype).name) for tensor in tensors)


def _find_shape(leaf: Any) -> tuple[Any, ...]:
    """Return the shape of a tensor, or of a variable of Keras' that is passed as one."""
    shape = tf.TensorShape(leaf.shape)
    return () if shape.rank is None else tuple(shape.as_list())
