"""One pass over a model: the trace of it, on shapes alone; neither weights nor activations are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, helper

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure, note_layer
from profilerkit.backend_kit.graph_traces import FOLLOWED, GraphFormat, WalkedGraph, describe_constants, trace_work
from profilerkit.backend_kit.graph_work import Executed
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.numpy_data import bind_inputs
from profilerkit.backend_kit.scoped_calls import PlacedWeight, layer_calls, layer_records
from profilerkit.piping.quantity import Scale, scale_value
from profilerkit.trace.records import LayerCall

from ..model.constants import list_constants
from ..model.declared_inputs import list_declared, name_sizes
from ..model.exported_module import ExportedModule
from ..model.nodes import list_nodes, name_nodes, read_settings
from ..model.scopes import find_scopes
from ..model.types import LARGEST, read_opsets, tensor_type
from ..model.uncounted_weights import describe_uncounted
from ..model.weights import list_weights
from .control_flow import HANDLERS
from .node_outputs import Declarations
from .values import Value, find_value
from .walk import Walk

__all__ = ["list_operators", "trace_model"]

_FORMAT = GraphFormat(
    "shapes inferred along the graph",
    views=("Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"),
)


def trace_model(model: ModelProto, inputs: ModelInputs | None) -> ModelTrace:
    """Trace one call; without inputs, or if they do not fit, the trace holds the layers alone."""
    scopes = find_scopes(model)
    constants = list_constants(model, scopes.paths)
    module = ExportedModule(model, constants)
    weights = list_weights(module, constants)
    if inputs is None:
        trace = ModelTrace(layer_records(scopes.types, weights))
    else:
        trace = _trace_call(model, inputs, scopes, weights, Walk(HANDLERS, scopes.paths))
    return replace(trace, unmade_weights=describe_uncounted(model, module, constants, weights))


def _trace_call(
    model: ModelProto, inputs: ModelInputs, scopes: Scopes, weights: Sequence[PlacedWeight], walk: Walk
) -> ModelTrace:
    try:
        walked = _walk_call(walk, model, inputs)
        return trace_work(
            walked,
            scopes,
            weights,
            _FORMAT,
            notes=[*describe_constants(walk.constants), *_write_notes(walk, walked)],
            names=name_nodes(model.graph),
            settings=read_settings(model.graph.node, scopes.paths),
        )
    except Exception as error:  # whatever a damaged file leads to
        calls: dict[str, list[LayerCall]] = {}
        if walk.node >= 0:
            note_layer(error, scopes.paths[walk.node])
            ran = walk.work.operators
            calls = layer_calls(ran, [scopes.chains[op.node] for op in ran], (), (), scopes.chains[: walk.node + 1])
        failure = explain_failure(error, inputs, "onnx", __package__ or "")
        return ModelTrace(layer_records(scopes.types, weights, calls), failure=failure)


def _write_notes(walk: Walk, walked: WalkedGraph) -> Iterator[str]:
    """Yield notes on inputs that decide what runs, and on the memory of constants that are computed before it does."""
    if walk.follows_inputs:
        yield FOLLOWED
    needed = {value.number for op in walk.work.operators for value in op.inputs}
    needed |= {value.number for value in walked.outputs}
    made_bytes = sum(size for number, size in walk.made_constants.items() if number in needed)
    if made_bytes:
        size = scale_value(made_bytes, "B", Scale.IEC)
        yield f"Memory Footprint: what operators make of constants may take {size} more: a runtime keeps it"


def list_operators(model: ModelProto, inputs: ModelInputs) -> dict[int, list[Executed]]:
    """Return the operators that run in one call, by the index of their node in the model's own graph."""
    walk = Walk(HANDLERS)
    _walk_call(walk, model, inputs)
    operators: dict[int, list[Executed]] = {}
    for op in walk.work.operators:
        operators.setdefault(op.node, []).append(op)
    return operators


def _walk_call(walk: Walk, model: ModelProto, inputs: ModelInputs) -> WalkedGraph:
    """Go over the graph of a model for a call."""
    graph = model.graph
    declared = list_declared(model)
    bound = bind_inputs(declared, inputs)
    walk.declared = Declarations(
        opsets=read_opsets(model.opset_import),
        types={value.name: value.type for value in (*graph.value_info, *graph.output)},
        sizes=name_sizes(declared, bound),
        functions={(function.domain, function.name, function.overload): function for function in model.functions},
    )
    values = walk.add_initializers(graph, {})
    kinds = ""  # of numbers whose given elements may decide which nodes run
    if not inputs.are_random:
        kinds = "biuf" if any(node.op_type in ("If", "Loop") for node in list_nodes(model)) else "iu"
    for value in graph.input:
        if value.name in bound:
            values[value.name] = _make_input(next(walk.numbers), bound[value.name], value.type, kinds)
    entries = [values[name] for name in bound]
    walk.walk_model(graph.node, values)
    return WalkedGraph(walk.work, entries, [find_value(value.name, values) for value in graph.output])


def _make_input(number: int, tensor: Any, declared: TypeProto, kinds: str) -> Value:
    """Return the value of an input, with its elements if these are few and of one of these kinds of numbers."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):  # a sequence, or a map
        return Value(number, declared)
    dtype = np.dtype(tensor.dtype)
    is_known = dtype.kind in kinds and math.prod(tensor.shape) <= LARGEST
    kind = tensor_type(helper.np_dtype_to_tensor_dtype(dtype), tuple(tensor.shape))
    return Value(number, kind, array=np.asarray(tensor) if is_known else None)
