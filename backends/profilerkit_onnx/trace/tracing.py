"""One pass over a model: the trace of it, on shapes alone; neither weights nor activations are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, helper

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure, note_layer
from profilerkit.backend_kit.graph_work import Executed, calls_of_layers, describe_constants, trace_work
from profilerkit.backend_kit.scoped_calls import Weights, layer_records
from profilerkit.trace.records import LayerCall

from ..model.declared_inputs import bind_inputs, bind_sizes
from ..model.scopes import Scopes, find_scopes
from ..model.types import LARGEST
from ..model.weights import list_constants, weight_records
from .control_flow import HANDLERS, holds_conditions
from .functions import functions_by_key
from .values import Value
from .walk import Walk, find_value

__all__ = ["operators_by_node", "trace_model"]

METHOD = "shapes inferred along the graph"
#: Operators whose output is their first input in another shape: it shares its buffer.
_VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def trace_model(model: ModelProto, inputs: ModelInputs | None, kind: Callable[..., Walk] = Walk) -> ModelTrace:
    """Trace one call; without inputs, or where they do not fit, the trace holds the layers alone.

    ``kind`` makes the walk over the graph: a subclass may count otherwise.
    """
    scopes = find_scopes(model)
    weights = weight_records(model, scopes, list_constants(model))
    if inputs is None:
        return ModelTrace(layer_records(scopes.types, weights))
    walks: list[Walk] = []
    try:
        return _trace(model, inputs, scopes, weights, walks, kind)
    except Exception as error:  # whatever a damaged file leads to
        if walks and walks[0].node >= 0:
            note_layer(error, scopes.chains[walks[0].node][-1].path)
        failure = explain_failure(error, inputs, "onnx", __package__ or "")
        return ModelTrace(layer_records(scopes.types, weights, _calls_before(walks, scopes)), failure=failure)


def _calls_before(walks: list[Walk], scopes: Scopes) -> dict[str, list[LayerCall]]:
    """Return the calls of layers up to the node at which a walk has ended with an error."""
    if not walks or walks[0].node < 0:
        return {}
    begun = Scopes(scopes.chains[: walks[0].node + 1], scopes.types)
    return calls_of_layers(begun.chains, walks[0].work.executed, (), ())


def operators_by_node(model: ModelProto, inputs: ModelInputs) -> dict[int, list[Executed]]:
    """Return what runs in one call, by the index of the node of the model's own graph that it comes from."""
    operators: dict[int, list[Executed]] = {}
    for op in _walk_graph(model, inputs)[0].work.executed:
        operators.setdefault(op.node, []).append(op)
    return operators


def _walk_graph(
    model: ModelProto,
    inputs: ModelInputs,
    paths: Sequence[str] = (),
    walks: list[Walk] | None = None,
    kind: Callable[..., Walk] = Walk,
) -> tuple[Walk, dict[str, Value], list[Value]]:
    """Go over the graph for a call; return the walk, the values that the call gives, and the outputs.

    ``paths`` are the layers of the model's own nodes, for those who ask what each layer may do. ``walks`` gets the
    walk, also one that ends with an error.
    """
    bound = bind_inputs(model, inputs.own_call())
    walk = kind(
        {("" if entry.domain == "ai.onnx" else entry.domain): entry.version for entry in model.opset_import},
        functions_by_key(model.functions),
        {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)},
        bind_sizes(model, bound),
        HANDLERS,
        paths,
    )
    if walks is not None:
        walks.append(walk)
    kinds = "" if inputs.are_random else "biuf" if holds_conditions(model) else "iu"
    input_values = {name: _input_value(walk.number(), tensor, kinds) for name, tensor in bound.items()}
    values = {**walk.with_initializers(model.graph, {}), **input_values}
    walk.over(model.graph.node, values, top=True)
    return walk, input_values, [find_value(value.name, values) for value in model.graph.output]


def _trace(
    model: ModelProto,
    inputs: ModelInputs,
    scopes: Scopes,
    weights: Weights,
    walks: list[Walk],
    kind: Callable[..., Walk],
) -> ModelTrace:
    """Return the trace of a call that the model can do."""
    walk, values, outputs = _walk_graph(model, inputs, [chain[-1].path for chain in scopes.chains], walks, kind)
    return trace_work(
        walk.work,
        scopes.chains,
        scopes.types,
        weights,
        list(values.values()),
        outputs,
        _VIEWS,
        METHOD,
        tuple(_notes(walk)),
    )


def _input_value(number: int, tensor: Any, kinds: str) -> Value:
    """Return the value of an input, with its elements if these are few and of one of these kinds of numbers."""
    kind = _find_type(tensor)
    dtype = np.dtype(tensor.dtype) if kind.WhichOneof("value") else None
    is_known = dtype is not None and dtype.kind in kinds and math.prod(tensor.shape) <= LARGEST
    return Value(number, kind, array=np.asarray(tensor) if is_known else None, from_inputs=is_known)


def _find_type(tensor: object) -> TypeProto:
    """Return the type of an array that is given; of anything else an unknown one."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
        return TypeProto()
    element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_type_proto(element, tuple(tensor.shape))


def _notes(walk: Walk) -> list[str]:
    return [*dict.fromkeys(walk.notes), *describe_constants(walk.constants)]
