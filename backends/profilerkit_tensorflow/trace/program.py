"""A model as a program: a private trace for one shape of inputs, from which all static metrics are computed."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from profilerkit import ModelInputs
from profilerkit.backend_kit.keras_layers import call_arguments, is_keras, is_legacy_keras
from profilerkit.process.restoring import restored

from ..compat import FuncGraph, makes_unallocated
from ..model.call_signatures import takes_training
from ..model.calls import call_model, check_outputs
from ..model.kinds import is_function, is_unbuilt, list_layers
from ..model.replicas import as_one_replica, find_strategy
from ..model.unallocated import collect_unallocated, make_without_values
from ..model.weights import list_trainable_variables
from ..untouched.preservation import preserve
from .conversion import convert_callable, functions_traced_anew
from .first_call import FirstTrace, as_before_the_call
from .folding import small_value
from .layers import LayerCalls
from .values import PartialShape, static_shape

__all__ = ["Program", "build_symbolically", "loss_and_gradients", "quietly", "trace_program"]


@dataclass(frozen=True)
class Program:
    """A traced model: its concrete function, the calls of its layers while it was traced, the seconds tracing took.

    Attributes:
        key: Equal for programs of the same model with the same settings for the same shapes.
        input_shapes: The shape of each input of the graph, in its order, with its value if that was given and is small,
            or None. A sparse or ragged tensor is several inputs, since its type leaves open how many values there are.
    """

    concrete: Any
    calls: LayerCalls
    layers: Sequence[tuple[str, Any]]
    seconds: float
    key: Any
    input_shapes: Sequence[tuple[PartialShape, Any]]
    #: Kept here, since a graph refers to its variables weakly and the restored model may not have them.
    variables: Sequence[Any] = ()

    @property
    def graph(self) -> Any:
        """The operators."""
        return self.concrete.graph

    def is_like(self, other: Program) -> bool:
        """Return whether two traces of one model have the same operators, which call no functions."""
        pairs = zip(self.graph.get_operations(), other.graph.get_operations(), strict=False)
        same_number = self.graph.version == other.graph.version
        return same_number and all(_kind(operator) == _kind(twin) != _CALLING for operator, twin in pairs)

    def fits(self, model: Any, inputs: ModelInputs) -> bool:
        """Return whether it is the program of a model in its present state, in inference mode, on these inputs."""
        return self.layers[0][1] is model and self.key is not None and self.key == _key(self.layers, inputs)


#: Stands for every operator that calls functions, whose graphs would have to be compared as well.
_CALLING = ("", ())
_CALLS = ("Call", "While", "If", "Case")


def _kind(operator: Any) -> tuple[str, tuple[PartialShape, ...]]:
    if operator.type.endswith(_CALLS):
        return _CALLING
    return operator.type, tuple(map(static_shape, operator.outputs))


def trace_program(
    model: Any,
    inputs: ModelInputs,
    *,
    training: bool = False,
    compiled: bool = False,
    anew: bool = True,
    apart: bool = False,
    followed: list[LayerCalls] | None = None,
) -> Program:
    """Trace the model for inputs of these shapes; an error of the model is raised as it is.

    In training the program returns the sum of the outputs and its gradients by the trainable variables. ``compiled``
    makes it one for XLA. With ``anew`` the model's own ``tf.function``s are traced anew, so that their layers and
    shapes are seen. ``apart`` hands the model back right after the trace: one that is traced again would find in its
    caches what this trace has put there. ``followed`` gets the calls of layers, also those before an error. Use inside
    `preserve`: a model that is not built is built until the end of that block, without values.
    """
    start = time.perf_counter()
    unbuilt = is_unbuilt(model)
    unvalued = build_symbolically(model, inputs) if unbuilt else []
    layers = list_layers(model)
    calls = LayerCalls(layers, training)
    if followed is not None:
        followed.append(calls)
    key = None if training or compiled or unvalued or is_function(model) else _key(layers, inputs)
    specs, rebuild = _flatten(inputs)
    strategy = find_strategy(layers)
    first = FirstTrace(layers)

    def program(*leaves: Any) -> Any:
        calls.restart()
        first.begin()
        model_inputs = rebuild(leaves)
        with as_one_replica(strategy), calls.follow(), functions_traced_anew() if anew else nullcontext():
            if training:
                return loss_and_gradients(layers, model_inputs)
            return check_outputs(_forward(model, model_inputs))

    function = tf.function(program, autograph=False, jit_compile=True if compiled else None)
    with preserve(model) if apart and not unbuilt else nullcontext(), quietly():
        concrete = function.get_concrete_function(*specs)
        variables = tuple(concrete.graph.variables)
    return Program(concrete, calls, layers, time.perf_counter() - start, key, tuple(_list_shapes(inputs)), variables)


def _list_shapes(inputs: ModelInputs) -> Iterator[tuple[PartialShape, Any]]:
    for leaf in filter(_is_fed, inputs.leaves()):
        dense_shape = leaf.dense_shape if isinstance(leaf, tf.SparseTensor) else None
        for part in tf.nest.flatten(leaf, expand_composites=True):
            is_known = part is dense_shape or not (inputs.are_random or isinstance(part, tf.Variable))
            yield static_shape(part), small_value(part) if is_known else None


def _key(layers: Sequence[tuple[str, Any]], inputs: ModelInputs) -> Any:
    """Return what a trace depends on: the settings of all layers and the shapes of the inputs."""
    settings = tuple(
        (path, id(layer), tuple((name, _write_setting(value)) for name, value in vars(layer).items()))
        for path, layer in layers
    )
    kinds = tuple(tf.type_spec_from_value(leaf) if _is_fed(leaf) else repr(leaf) for leaf in inputs.leaves())
    return settings, inputs.function, kinds


def _write_setting(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, bytes, type(None))) else id(value)


def _flatten(inputs: ModelInputs) -> tuple[list[Any], Callable[[Sequence[Any]], ModelInputs]]:
    """Return the types of the tensors among the inputs, and a function that puts tensors back at their positions."""
    leaves = list(inputs.leaves())
    tensors = [leaf for leaf in leaves if _is_fed(leaf)]

    def rebuild(values: Sequence[Any]) -> ModelInputs:
        waiting = iter(values)
        return inputs.map(lambda leaf: next(waiting) if _is_fed(leaf) else leaf)

    return [tf.type_spec_from_value(leaf) for leaf in tensors], rebuild


def _is_fed(leaf: Any) -> bool:
    return tf.is_tensor(leaf) or isinstance(leaf, tf.Variable)


def build_symbolically(model: Any, inputs: ModelInputs) -> list[Any]:
    """Build a Keras model without allocating its weights; return the variables that were made without a value.

    Where this release of TensorFlow or Keras has no such variables, the model is called, and its weights get values.

    They are variables like all others but for the value, which a trace does not need: gradients are taken by them, also
    inside functions with gradients of their own (``keras.remat``, ``tf.recompute_grad``).
    """
    if not makes_unallocated():
        with as_before_the_call(model):
            inputs.run(model)
        return []
    specs, rebuild = _flatten(inputs)
    making = collect_unallocated() if is_legacy_keras(model) else make_without_values()
    with making as made, FuncGraph("build").as_default():  # it may read variables of the layers it builds
        model_inputs = rebuild([_placeholder(spec) for spec in specs])
        if inputs.function is None and is_keras(model):
            args, kwargs = call_arguments(model, model_inputs.args, model_inputs.kwargs)
            model_inputs = ModelInputs(*args, **kwargs)
        with as_before_the_call(model):
            model_inputs.run(model)
    return made


def _placeholder(spec: Any) -> Any:
    """Return a stand-in for a tensor of any type: a sparse or ragged one has several parts."""
    if isinstance(spec, tf.TensorSpec):
        return tf.compat.v1.placeholder(spec.dtype, spec.shape)
    parts = [tf.compat.v1.placeholder(part.dtype, part.shape) for part in tf.nest.flatten(spec, expand_composites=True)]
    return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)


def _forward(model: Any, inputs: ModelInputs) -> Any:
    with _stateless(model):
        return _call_model(model, inputs, training=False)


def loss_and_gradients(
    layers: Sequence[tuple[str, Any]], inputs: ModelInputs, between: Callable[[], object] = nullcontext
) -> Any:
    """Return the loss, its gradients, and the values that the forward pass would give to what is not trained.

    The loss is returned because a training step reports it: of a sum no gradient needs the last layer's outputs.
    ``between`` is called once the loss is there, before its gradients.
    """
    model = layers[0][1]
    with _stateless(model) as scope, tf.GradientTape() as tape:
        outputs = _call_model(model, inputs, training=True)
        floats = [leaf for leaf in tf.nest.flatten(outputs) if tf.is_tensor(leaf) and leaf.dtype.is_floating]
        loss = tf.add_n([tf.reduce_sum(tf.cast(leaf, tf.float32)) for leaf in floats])
        watched = [_current(variable, scope) for variable in list_trainable_variables(layers, tape.watched_variables())]
    updates = [] if scope is None else [_current(v, scope) for v in model.non_trainable_variables]
    between()
    return loss, tape.gradient(loss, watched), updates


def _current(variable: Any, scope: Any) -> Any:
    """Return what stands for a variable on the tape: TensorFlow's variable, or the value that replaces it."""
    current = scope.get_current_value(variable) if scope is not None else None
    if current is not None:
        return current
    return variable.value if not isinstance(variable, tf.Variable) else variable


def _stateless(model: Any) -> AbstractContextManager[Any]:
    """Return a context that keeps a Keras model from writing to its variables, and initializes none of them."""
    if not is_keras(model):
        return nullcontext()
    scope: AbstractContextManager[Any] = sys.modules["keras"].StatelessScope(initialize_variables=False)
    return scope


def _call_model(model: Any, inputs: ModelInputs, training: bool) -> Any:
    if inputs.function is not None:
        target = convert_callable(model) if is_function(model) else model
        return convert_callable(inputs.function)(target, *inputs.args, **inputs.kwargs)
    if not is_keras(model):
        named = {"training": True} if training and takes_training(model) else {}
        return call_model(
            convert_callable(model) if is_function(model) else model, inputs.args, {**named, **inputs.kwargs}
        )
    args, kwargs = call_arguments(model, inputs.args, inputs.kwargs)
    return model(*args, **{"training": training, **kwargs})


@contextmanager
def quietly() -> Iterator[None]:
    """Keep what autograph cannot convert from being logged: such code is run as it is."""
    log = logging.getLogger("tensorflow")
    with restored(partial(log.setLevel, log.level), in_child=False):
        log.setLevel(logging.ERROR)
        yield
