"""One pass over a model: the trace of it, on shapes alone; neither weights nor activations are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, TypeProto, helper

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure, note_layer
from profilerkit.backend_kit.graph_traces import describe_constants, list_calls, trace_work
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.scoped_calls import layer_records, list_by_layer
from profilerkit.trace.records import LayerCall

from ..model.declared_inputs import bind_inputs, bind_sizes
from ..model.node_ids import name_nodes
from ..model.scopes import find_scopes
from ..model.types import LARGEST
from ..model.weights import list_constants, list_weights
from .control_flow import HANDLERS, holds_conditions
from .functions import list_functions
from .layer_settings import add_settings
from .node_outputs import Declarations
from .values import Value, find_value
from .walk import Walk

__all__ = ["list_operators", "trace_model"]

METHOD = "shapes inferred along the graph"
#: Operators whose output is their first input in another shape: it shares its buffer.
_VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def trace_model(model: ModelProto, inputs: ModelInputs | None, make_walk: Callable[..., Walk] = Walk) -> ModelTrace:
    """Trace one call; without inputs, or where they do not fit, the trace holds the layers alone.

    ``make_walk`` makes the walk over the graph: a subclass may count otherwise.
    """
    scopes = find_scopes(model)
    weights = list_by_layer(list_weights(model, scopes, list_constants(model)))
    if inputs is None:
        return ModelTrace(layer_records(scopes.types, weights))
    paths = [chain[-1].path for chain in scopes.chains]
    walk: Walk | None = None
    try:
        walk, received = _prepare(model, inputs, paths, make_walk)
        outputs = _walk_graph(walk, model, received)
        notes, names = tuple(describe_constants(walk.constants)), name_nodes(model.graph)
        values, chains, types = list(received.values()), scopes.chains, scopes.types
        trace = trace_work(walk.work, chains, types, weights, values, outputs, _VIEWS, METHOD, notes, names)
        return add_settings(trace, model.graph.node, paths)
    except Exception as error:  # whatever a damaged file leads to
        calls: dict[str, list[LayerCall]] = {}
        if walk is not None and walk.node >= 0:
            note_layer(error, scopes.chains[walk.node][-1].path)
            calls = _list_calls_before(walk, scopes)
        failure = explain_failure(error, inputs, "onnx", __package__ or "")
        return ModelTrace(layer_records(scopes.types, weights, calls), failure=failure)


def _list_calls_before(walk: Walk, scopes: Scopes) -> dict[str, list[LayerCall]]:
    """Return the calls of layers up to the node at which a walk has ended with an error."""
    return list_calls(scopes.chains[: walk.node + 1], walk.work.executed, (), ())


def list_operators(model: ModelProto, inputs: ModelInputs) -> dict[int, list[Executed]]:
    """Return what runs in one call, by the index of the node of the model's own graph that it comes from."""
    walk, received = _prepare(model, inputs)
    _walk_graph(walk, model, received)
    operators: dict[int, list[Executed]] = {}
    for op in walk.work.executed:
        operators.setdefault(op.node, []).append(op)
    return operators


class _PreparedWalk(NamedTuple):
    """A walk that is about to begin, and the values of the inputs by their names."""

    walk: Walk
    inputs: dict[str, Value]


def _prepare(
    model: ModelProto, inputs: ModelInputs, paths: Sequence[str] = (), make_walk: Callable[..., Walk] = Walk
) -> _PreparedWalk:
    """Return the walk for a call; ``paths`` are the layers of the nodes, for those who ask what each layer may do."""
    bound = bind_inputs(model, inputs.own_call())
    declared = Declarations(
        opsets={("" if entry.domain == "ai.onnx" else entry.domain): entry.version for entry in model.opset_import},
        types={value.name: value.type for value in (*model.graph.value_info, *model.graph.output)},
        sizes=bind_sizes(model, bound),
    )
    walk = make_walk(
        declared,
        functions=list_functions(model.functions),
        handlers=HANDLERS,
        paths=paths,
    )
    kinds = "" if inputs.are_random else "biuf" if holds_conditions(model) else "iu"
    return _PreparedWalk(walk, {name: _make_input(walk.take_number(), tensor, kinds) for name, tensor in bound.items()})


def _walk_graph(walk: Walk, model: ModelProto, inputs: dict[str, Value]) -> list[Value]:
    """Go over the graph of a model, and return its outputs."""
    values = {**walk.add_initializers(model.graph, {}), **inputs}
    walk.walk_model(model.graph.node, values)
    return [find_value(value.name, values) for value in model.graph.output]


def _make_input(number: int, tensor: Any, kinds: str) -> Value:
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
