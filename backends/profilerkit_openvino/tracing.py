"""The static pass: a walk over the graph in its order, with the shapes that OpenVINO itself infers for the inputs.

The weights are shared with the model and not read; nothing is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.failures import explain_failure
from profilerkit.backend_kit.graph_traces import GraphFormat, WalkedGraph, describe_constants, trace_work
from profilerkit.backend_kit.numpy_data import Declared, bind_inputs, number_names
from profilerkit.backend_kit.scoped_calls import layer_records
from profilerkit.count_text import format_count

from .layers import find_layers
from .nodes import dtype_name
from .roles import Role
from .runtime import openvino
from .walk import Values, Walk, read_inputs
from .weights import Weight, identify_weights, place_weights

__all__ = ["declare", "trace_model", "walk_call"]

_FORMAT = GraphFormat("shapes inferred by OpenVINO", views=("Reshape", "Squeeze", "Unsqueeze", "Identity"))


def declare(model: Any) -> list[Declared]:
    """Return the inputs that a model declares, by the names of its parameters; of two equal names one gets a number."""
    nodes, declared = model.get_parameters(), []
    for node, name in zip(nodes, number_names(node.get_friendly_name() for node in nodes), strict=True):
        partial = node.get_output_partial_shape(0)
        dims = [dim.get_length() if dim.is_static else None for dim in partial] if partial.rank.is_static else None
        declared.append(Declared(name, dims, dtype_name(node.get_output_element_type(0)) or "string"))
    return declared


def trace_model(model: Any, inputs: ModelInputs | None) -> ModelTrace:
    """Trace one call; without inputs, or if they do not fit, the trace holds the layers alone."""
    layers = find_layers(model)
    paths = {node.get_name(): path for node, path in zip(model.get_ordered_ops(), layers.paths, strict=True)}
    identities = identify_weights(layers.weights)
    weights = list(place_weights(layers.weights, identities, paths))
    if inputs is None:
        return ModelTrace(layer_records(layers.types, weights))
    walk = Walk(layers.paths)
    try:
        graph = walk_call(walk, model, inputs)
    except Exception as error:  # whatever a damaged file leads to
        failure = explain_failure(error, inputs, "openvino", __package__ or "")
        return ModelTrace(layer_records(layers.types, weights), failure=failure)
    notes = [*describe_constants(walk.constants), *_describe_equal(layers.weights, identities)]
    if layers.unnamed:
        notes.append(
            f"{layers.unnamed} of the operators lost the names of their layers when the converter fused them with "
            "others: each counts in the layer that reads its result"
        )
    return trace_work(graph, layers, weights, _FORMAT, notes=notes)


def _describe_equal(weights: Sequence[Weight], identities: Sequence[int]) -> list[str]:
    """Return the note on parameters that are counted as another one with the same elements."""
    numbered = enumerate(zip(weights, identities, strict=True))
    equal = sum(weight.role is Role.PARAMETER and identity != number for number, (weight, identity) in numbered)
    if not equal:
        return []
    return [
        f"{format_count(equal, 'weight')} with the same elements as another: each counts as the same weight, also "
        "if both are of copies of a layer that were not trained"
    ]


def walk_call(walk: Walk, model: Any, inputs: ModelInputs) -> WalkedGraph:
    """Go over the graph of a model for a call, with the shapes that OpenVINO infers for its inputs."""
    bound = bind_inputs(declare(model), inputs)
    shaped = model.clone()
    for parameter, array in zip(shaped.get_parameters(), bound.values(), strict=True):
        parameter.set_partial_shape(openvino.PartialShape(list(array.shape)))
    shaped.validate_nodes_and_infer_types()  # `reshape` would rewrite the graph too
    values: Values = {(node.get_name(), 0): walk.make_value(node.output(0)) for node in shaped.get_parameters()}
    entries = list(values.values())
    walk.walk_model(shaped.get_ordered_ops(), values)
    return WalkedGraph(walk.work, entries, [read_inputs(result, values)[0] for result in shaped.get_results()])
