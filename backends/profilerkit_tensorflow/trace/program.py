"""A model as a program: a private trace for one shape of inputs, from which all static metrics are computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from profilerkit import ModelInputs

from ..model.kinds import is_function, is_unbuilt, list_layers
from ..model.replicas import as_one_replica, find_strategy
from .building import build_symbolically, list_fed_types, put_back
from .folding import small_value
from .layers import LayerCalls
from .tensor_facts import PartialShape, static_shape
from .traced_calls import compute_traced_outputs, compute_training_step, functions_traced_anew, quietly

__all__ = ["Program", "ProgramInput", "trace_program"]


class ProgramInput(NamedTuple):
    """One tensor that a program takes.

    Attributes:
        shape: Its shape in the call that is profiled.
        numbers: Its content, if the caller has given it and it is small; otherwise None.
    """

    shape: PartialShape
    numbers: Any


@dataclass(frozen=True)
class Program:
    """A traced model.

    Attributes:
        concrete: Its concrete function.
        calls: The calls of its layers while it was traced.
        layers: Its layers by their paths, the model itself first.
        seconds: The seconds of the tracing.
        key: Equal for programs of the same model with the same settings for the same shapes.
        inputs: The inputs of the graph, in its order. A sparse or ragged tensor is several of them, because its type
            leaves open how many values there are.
        variables: The variables of its graph. They are kept here because a graph refers to its variables weakly and the
            restored model may not have them.
    """

    concrete: Any
    calls: LayerCalls
    layers: Sequence[tuple[str, Any]]
    seconds: float
    key: Any
    inputs: Sequence[ProgramInput]
    variables: Sequence[Any] = ()

    @property
    def graph(self) -> Any:
        """The operators."""
        return self.concrete.graph

    @property
    def model(self) -> Any:
        """The model that was traced."""
        return self.layers[0][1]

    def fits(self, model: Any, inputs: ModelInputs) -> bool:
        """Return whether it is the program of a model in its present state, in inference mode, on these inputs."""
        return self.model is model and self.key is not None and self.key == _make_key(self.layers, inputs)


def trace_program(
    model: Any,
    inputs: ModelInputs,
    *,
    training: bool = False,
    compiled: bool = False,
    followed: list[LayerCalls] | None = None,
) -> Program:
    """Trace the model for inputs of these shapes; an error of the model is raised as it is.

    Use inside `preserve`: a model that is not built is built until the end of that block, without values.

    Args:
        model: The model.
        inputs: Its inputs.
        training: Trace a training step: it returns a `TrainingStep`.
        compiled: Make it a program for XLA.
        followed: Gets the calls of layers, also the calls before an error.
    """
    start = time.perf_counter()
    unvalued = build_symbolically(model, inputs) if is_unbuilt(model) else []
    layers = list_layers(model)
    calls = LayerCalls(layers, training)
    if followed is not None:
        followed.append(calls)
    # Only a forward pass of a model with settings and values can be asked for again.
    is_asked_again = not (training or compiled or unvalued or is_function(model))
    key = _make_key(layers, inputs) if is_asked_again else None
    call = _follow_call(layers, inputs, calls)
    function = tf.function(call, autograph=False, jit_compile=True if compiled else None)
    with quietly():
        concrete = function.get_concrete_function(*list_fed_types(inputs))
        variables = tuple(concrete.graph.variables)
    return Program(concrete, calls, layers, time.perf_counter() - start, key, tuple(_list_inputs(inputs)), variables)


def _follow_call(layers: Sequence[tuple[str, Any]], inputs: ModelInputs, calls: LayerCalls) -> Callable[..., Any]:
    """Return a function of the tensors among the inputs which runs the model, while ``calls`` follow its layers."""
    model = layers[0][1]
    strategy = find_strategy(layers)

    def program(*tensors: Any) -> Any:
        calls.restart()  # TensorFlow may trace this twice
        model_inputs = put_back(inputs, tensors)
        with as_one_replica(strategy), calls.follow(), functions_traced_anew():
            if calls.training:
                return compute_training_step(layers, model_inputs, between=calls.end_forward)
            return compute_traced_outputs(model, model_inputs)

    return program


def _list_inputs(inputs: ModelInputs) -> Iterator[ProgramInput]:
    """Yield the inputs of a program: the tensors among the inputs, and the parts of sparse and ragged tensors."""
    for leaf in filter(tf.is_tensor, inputs.leaves()):
        dense_shape = leaf.dense_shape if isinstance(leaf, tf.SparseTensor) else None
        for part in tf.nest.flatten(leaf, expand_composites=True):
            is_given = not (inputs.are_random or isinstance(part, tf.Variable))
            is_known = is_given or part is dense_shape  # the shape of a sparse tensor is no value that was made up
            yield ProgramInput(static_shape(part), small_value(part) if is_known else None)


def _make_key(layers: Sequence[tuple[str, Any]], inputs: ModelInputs) -> Any:
    """Return the key of a trace: the settings of all layers and the shapes of the inputs."""
    settings = tuple(
        (path, id(layer), tuple((name, _write_setting(value)) for name, value in vars(layer).items()))
        for path, layer in layers
    )
    kinds = tuple(tf.type_spec_from_value(leaf) if tf.is_tensor(leaf) else repr(leaf) for leaf in inputs.leaves())
    return settings, inputs.function, kinds


def _write_setting(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, bytes, type(None))) else id(value)
