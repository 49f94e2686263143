"""One pass over a model: the trace of it, on shapes alone; neither weights are read nor activations made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure, note_layer
from profilerkit.backend_kit.graph_traces import GraphFormat, WalkedGraph, describe_constants, trace_work
from profilerkit.backend_kit.named_layers import Scopes
from profilerkit.backend_kit.numpy_data import bind_inputs
from profilerkit.backend_kit.scoped_calls import layer_records
from profilerkit.count_text import format_count

from ..model.graphs import Graph
from ..model.inputs import list_declared
from ..model.reading import LiteRTModel
from ..model.scopes import find_scopes
from ..model.weights import list_weights
from .control_flow import HANDLERS
from .values import Value
from .walk import Walk

__all__ = ["read_layers", "trace_model", "walk_call"]

_FORMAT = GraphFormat("shapes inferred along the graph", views=("BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"))
#: The most integers in an input that may be sizes.
_MOST_SIZES = 64


def trace_model(model: LiteRTModel, inputs: ModelInputs | None) -> ModelTrace:
    """Trace one call; without inputs, or if they do not fit, the trace holds the layers alone."""
    graph = model.graphs[model.signature.graph]
    scopes = read_layers(model)
    weights = list(list_weights(model, scopes))
    without_calls = ModelTrace(layer_records(scopes.types, weights), unmade_weights=_describe_variables(graph))
    if inputs is None:
        return without_calls
    walk = Walk(model, scopes.paths, HANDLERS)
    try:
        values, outputs = walk_call(walk, inputs)
        walked = WalkedGraph(walk.work, values, outputs)
        trace = trace_work(walked, scopes, weights, _FORMAT, notes=_write_notes(walk), names=_name_nodes(model))
        return replace(trace, unmade_weights=without_calls.unmade_weights)
    except Exception as error:  # whatever a damaged file leads to
        if walk.node >= 0:
            note_layer(error, walk.paths[walk.node])
        failure = explain_failure(error, inputs, "litert", __package__ or "")
        return replace(without_calls, failure=failure)


def read_layers(model: LiteRTModel) -> Scopes:
    """Return the layers of the graph that is profiled."""
    return find_scopes(model.graphs[model.signature.graph], model.name)


def walk_call(walk: Walk, inputs: ModelInputs) -> tuple[list[Value], list[Value]]:
    """Walk the graph for a call; return the inputs of the call and the outputs of the model."""
    model = walk.model
    bound = bind_inputs(list_declared(model), inputs)
    values = [_make_value(walk, model, index, bound[name]) for name, index in model.signature.inputs.items()]
    return values, walk.walk_graph(model.graphs[model.signature.graph], values)


def _name_nodes(model: LiteRTModel) -> list[tuple[str, str]]:
    """Return the graph and the id of each operator as Model Explorer has them: its index in its graph.

    A graph without a name is named by its first signature, or by its index.
    """
    index = model.signature.graph
    graph = model.graphs[index]
    key = next((entry.key for entry in model.signatures.values() if entry.graph == index), "")
    name = graph.name or key or (f"subgraph_{index}" if index else "main")
    return [(name, str(position)) for position in range(len(graph.operators))]


def _describe_variables(graph: Graph) -> str:
    """Return a text about the weights of a graph that the file lacks: variables that no graph prepares."""
    names = [operator.name for operator in graph.operators]
    number = 0 if "CALL_ONCE" in names else names.count("VAR_HANDLE")
    return f"{format_count(number, 'variable')}, whose values are not in the file" if number else ""


def _make_value(walk: Walk, model: LiteRTModel, index: int, tensor: Any) -> Value:
    """Return the value of an input; integers that are given may be sizes, and are known."""
    declared = model.graphs[model.signature.graph].tensors[index]
    array = np.asarray(tensor)
    is_known = array.dtype.kind in "iub" and array.size <= _MOST_SIZES
    return walk.make_value(declared, array.shape, array=array if is_known else None)


def _write_notes(walk: Walk) -> list[str]:
    notes = list(walk.notes)
    signatures = walk.model.signatures
    if len(signatures) > 1:
        names = ", ".join(map(repr, signatures))
        notes.append(
            f"of the signatures {names}, {walk.model.signature.key!r} is counted; with_signature chooses another"
        )
    return [*notes, *describe_constants(walk.constants)]
