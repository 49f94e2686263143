"""The layers of a model in a trace: which one runs while the model is traced, and the records of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.call_stack import CallStack, list_shown_layers, tensors_in
from profilerkit.backend_kit.failures import note_layer
from profilerkit.backend_kit.keras_layers import quantization_data
from profilerkit.costs import Cost, Shape, evaluate_formula
from profilerkit.process.restoring import restored
from profilerkit.trace.layer_paths import count_depth
from profilerkit.trace.records import LayerCall, LayerRecord, TensorInfo, WeightRecord

from ..costs import layer_cost
from ..model.kinds import (
    holds_random_state,
    is_layer,
    own_states,
    own_variables,
    type_name,
)
from ..model.weights import count_bytes, count_elements, identify
from .conversion import convert_callable
from .ownership import Owner, Ownership

__all__ = ["LayerCalls", "infos_in", "layer_records"]


class LayerCalls(CallStack):
    """Follows the calls of a model's layers while it is traced, and records the operators that each adds."""

    def __init__(self, layers: Iterable[tuple[str, Any]], training: bool) -> None:
        self._layers = list(layers)
        self.ownership: Ownership = Ownership()
        self.training = training
        self.strangers: list[str] = []
        self._thread = threading.get_ident()
        self._owners: list[Owner] = []
        self.restart()

    def restart(self) -> None:
        """Delete what was recorded: the model is traced anew."""
        super().__init__(self._layers)
        self.ownership.clear()
        self.strangers.clear()
        self._owners = [self.ownership.root]

    @property
    def owner(self) -> Owner:
        """The layer call that is running."""
        return self._owners[-1]

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Record the calls of the model's layers in this thread, by replacing ``__call__`` of their classes."""
        with ExitStack() as patches:
            for cls in _find_calling_classes(layer for _, layer in self._layers):
                patches.enter_context(self._patch(cls))
            yield

    @contextmanager
    def _patch(self, cls: type) -> Iterator[None]:
        original = cls.__dict__["__call__"]
        follow = self._follow

        def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:
            return follow(convert_callable(original.__get__(layer, type(layer))), layer, args, kwargs)

        __call__.__wrapped__ = original  # type: ignore[attr-defined]
        with restored(partial(type.__setattr__, cls, "__call__", original)):
            type.__setattr__(cls, "__call__", tf.autograph.experimental.do_not_convert(__call__))
            yield

    def _follow(self, call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
        """Call a layer, and note the call: what it was given, what it returned, and which operators it has made."""
        if threading.get_ident() != self._thread or self.is_innermost(layer):
            return call(*args, **kwargs)
        if not self.knows(layer):
            if is_layer(layer) and any(True for _ in own_variables(layer)) and not self._inside_a_leaf():
                self.strangers.append(type(layer).__name__)
            return call(*args, **kwargs)
        graph = tf.compat.v1.get_default_graph()
        self.begin(layer)
        owner = Owner(self.current, self.current_call, type(layer).__name__, self._owners[-1], graph, graph.version)
        self._owners.append(owner)
        try:
            outputs = call(*args, **kwargs)
            seen = LayerCall(infos_in((args, kwargs)), infos_in(outputs))
            owner.cost = self._find_formula(layer, seen)
            self.note(seen)
            return outputs
        except Exception as error:
            note_layer(error, self.current)
            self.note(LayerCall(infos_in((args, kwargs)), ()))
            raise
        finally:
            owner.end = graph.version
            self.ownership.calls.append(owner)
            self._owners.pop()
            self.end()

    def _inside_a_leaf(self) -> bool:
        """Return whether the running layer hides its inner ones, as a recurrent layer hides its cell."""
        return len(self._owners) > 1

    def _find_formula(self, layer: Any, call: LayerCall) -> Callable[[], Cost | None] | None:
        """Return what computes the cost of a whole call of a layer; None where it has no formula for this one."""
        formula = layer_cost(layer)
        if formula is None:
            return None
        inputs, outputs = (tuple(Shape(info.shape) for info in infos) for infos in (call.inputs, call.outputs))
        if any(None in shape for shape in (*inputs, *outputs)):
            return None
        training = self.training
        if formula(layer, inputs, outputs, training) is None:
            return None
        return lambda: evaluate_formula(
            f"layer {type(layer).__name__}",
            lambda: formula(layer, inputs, outputs, training),
            lambda: f"inputs={inputs!r} and outputs={outputs!r}",
        )


def _find_calling_classes(layers: Iterable[Any]) -> set[type]:
    """Return the classes that define ``__call__`` for the layers."""
    return {
        next(cls for cls in type(layer).__mro__ if "__call__" in cls.__dict__)
        for layer in layers
        if callable(layer) and is_layer(layer)
    }


def _find_shape(leaf: Any) -> tuple[Any, ...]:
    """Return the shape of a tensor, or of a variable of Keras' that is passed as one."""
    shape = tf.TensorShape(leaf.shape)
    return () if shape.rank is None else tuple(shape.as_list())


def infos_in(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure; an unknown dimension is None."""
    return tuple(
        TensorInfo(_find_shape(leaf), tf.as_dtype(leaf.dtype).name) for leaf in tensors_in(structure, tf.is_tensor)
    )


def layer_records(
    layers: Sequence[tuple[str, Any]],
    calls: Mapping[str, list[LayerCall]],
    trainable: Iterable[Any],
    further: Iterable[Any],
    packed: Mapping[int, int],
) -> tuple[LayerRecord, ...]:
    """Return a record for each layer, and for each further path under which a shared one was called.

    ``trainable`` are the variables that training changes; ``further`` are variables that a function captures, which
    belong to no layer and are added to the root. ``packed`` has by `identify` how many numbers a variable stands for
    that keeps several in one element.
    """
    identities: dict[int, int] = {}
    trained = {identify(variable) for variable in trainable}
    records = []
    for path, layer in list_shown_layers(layers, calls):
        variables, states = list(own_variables(layer)), list(own_states(layer))
        if not path:
            owned = [v for _, one_layer in layers for _, v, *_ in (*own_variables(one_layer), *own_states(one_layer))]
            of_layers = set(map(identify, owned))
            others = [v for v in further if identify(v) not in of_layers and not holds_random_state(v)]
            scales = set(map(id, quantization_data(others)))
            variables += [(_shorten(v.name), v) for v in others if id(v) not in scales]
            states += [(_shorten(v.name), v, True) for v in others if id(v) in scales]
        records.append(
            LayerRecord(
                path=path,
                type=type_name(layer),
                depth=count_depth(path),
                parameters=tuple(_record(name, v, identities, trained, packed) for name, v in variables),
                buffers=tuple(
                    replace(_record(name, state, identities, trained, packed), trainable=False, persistent=is_saved)
                    for name, state, is_saved in states
                ),
                calls=tuple(calls.get(path, ())),
            )
        )
    return tuple(records)


def _record(
    name: str, variable: Any, identities: dict[int, int], trained: Container[int], packed: Mapping[int, int]
) -> WeightRecord:
    """Return what reports say of one variable; two names of one variable have the same identity."""
    key = identify(variable)
    return WeightRecord(
        name=name,
        identity=identities.setdefault(key, len(identities)),
        count=packed.get(key) or count_elements(variable),
        bytes=count_bytes(variable),
        dtype=tf.as_dtype(variable.dtype).name,
        trainable=key in trained,
        shape=tuple(variable.shape.as_list()) if hasattr(variable.shape, "as_list") else tuple(variable.shape),
    )


def _shorten(name: str) -> str:
    return name.removesuffix(":0")
