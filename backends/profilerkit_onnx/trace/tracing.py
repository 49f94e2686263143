"""One pass over a model: the trace of it, on shapes alone; neither weights nor activations are made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, helper

from profilerkit import ModelInputs, ModelTrace
from profilerkit.backend_kit.branch_memory import spread_of_forks
from profilerkit.backend_kit.failures import failure_of, note_layer
from profilerkit.backend_kit.product_dtypes import product_dtype
from profilerkit.backend_kit.scoped_calls import Weights, layer_records
from profilerkit.trace.bounds import PeakSpread
from profilerkit.trace.records import LayerCall, MemoryTimeline, OpRecord

from ..model.declared_inputs import bound_inputs, bound_sizes, graph_inputs
from ..model.scopes import Scopes, scopes_of
from ..model.types import LARGEST
from ..model.weights import constants_of, weight_records
from .control_flow import holds_conditions, missing_of, with_initializers
from .functions import functions_by_key
from .layers import layer_calls
from .live_bytes import bytes_along
from .values import Executed, Value
from .walk import Walk, made_before

__all__ = ["operators_by_node", "trace_model"]

METHOD = "shapes inferred along the graph"


def trace_model(model: ModelProto, inputs: ModelInputs | None, kind: Callable[..., Walk] = Walk) -> ModelTrace:
    """Trace one call; without inputs, or where they do not fit, the trace holds the layers alone.

    ``kind`` makes the walk over the graph: a subclass may count otherwise.
    """
    scopes = scopes_of(model)
    weights = weight_records(model, scopes, constants_of(model))
    if inputs is None:
        return ModelTrace(layer_records(scopes.types, weights))
    walks: list[Walk] = []
    try:
        return _traced(model, inputs, scopes, weights, walks, kind)
    except Exception as error:  # whatever a damaged file leads to
        if walks and walks[0].node >= 0:
            note_layer(error, scopes.chains[walks[0].node][-1].path)
        failure = failure_of(error, inputs, "onnx", __package__ or "")
        return ModelTrace(layer_records(scopes.types, weights, _calls_before(walks, scopes)), failure=failure)


def _calls_before(walks: list[Walk], scopes: Scopes) -> dict[str, list[LayerCall]]:
    """Return the calls of layers up to the node at which a walk has ended with an error."""
    if not walks or walks[0].node < 0:
        return {}
    begun = Scopes(scopes.chains[: walks[0].node + 1], scopes.types)
    return layer_calls(begun, walks[0].executed, (), ())


def operators_by_node(model: ModelProto, inputs: ModelInputs) -> dict[int, list[Executed]]:
    """Return what runs in one call, by the index of the node of the model's own graph that it comes from."""
    operators: dict[int, list[Executed]] = {}
    for each in _walked(model, inputs)[0].executed:
        operators.setdefault(each.node, []).append(each)
    return operators


def _walked(
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
    bound = bound_inputs(model, inputs.own_call())
    walk = kind(
        {("" if entry.domain == "ai.onnx" else entry.domain): entry.version for entry in model.opset_import},
        functions_by_key(model.functions),
        {value.name: value.type for value in (*model.graph.value_info, *model.graph.output)},
        bound_sizes(graph_inputs(model), bound),
        paths=paths,
    )
    if walks is not None:
        walks.append(walk)
    kinds = "" if inputs.are_random else "biuf" if holds_conditions(model) else "iu"
    input_values = {name: _input_value(walk.number(), tensor, kinds) for name, tensor in bound.items()}
    values = {**with_initializers(walk, model.graph, {}), **input_values}
    walk.over(model.graph.node, values, top=True)
    return walk, input_values, [made_before(value.name, values) for value in model.graph.output]


def _traced(
    model: ModelProto,
    inputs: ModelInputs,
    scopes: Scopes,
    weights: Weights,
    walks: list[Walk],
    kind: Callable[..., Walk],
) -> ModelTrace:
    walk, input_values, outputs = _walked(model, inputs, [chain[-1].path for chain in scopes.chains], walks, kind)
    calls = layer_calls(scopes, walk.executed, input_values.values(), outputs)
    return ModelTrace(
        layer_records(scopes.types, weights, calls),
        tuple(_record(each, scopes) for each in walk.executed),
        _memory(walk, input_values, outputs, weights),
        missing_of(walk.executed) + walk.missed,
        METHOD,
        tuple(_notes(walk)),
        choices=tuple(walk.choices),
        peak_spread=_peak_spread(walk, input_values, outputs),
    )


def _input_value(number: int, tensor: Any, kinds: str) -> Value:
    """Return the value of an input, with its elements if these are few and of one of these kinds of numbers."""
    kind = _type_of(tensor)
    dtype = np.dtype(tensor.dtype) if kind.WhichOneof("value") else None
    is_known = dtype is not None and dtype.kind in kinds and math.prod(tensor.shape) <= LARGEST
    return Value(number, kind, array=np.asarray(tensor) if is_known else None, from_inputs=is_known)


def _type_of(tensor: object) -> TypeProto:
    """Return the type of an array that is given; of anything else an unknown one."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
        return TypeProto()
    element = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype))
    return helper.make_tensor_type_proto(element, tuple(tensor.shape))


def _record(each: Executed, scopes: Scopes) -> OpRecord:
    scope = scopes.chains[each.node][-1]
    return OpRecord(
        each.operator,
        scope.path,
        scope.call,
        each.macs * each.times,
        each.flops * each.times,
        sum(value.bytes for value in each.inputs) * each.times,
        sum(value.bytes for value in each.outputs) * each.times,
        tuple(value.info for value in each.outputs),
        product_dtype=_multiplied(each) if each.macs else None,
    )


def _multiplied(each: Executed) -> str | None:
    """Return the dtype of what a product multiplies if that is narrower than what it writes; otherwise None."""
    return product_dtype([value.info.dtype for value in each.inputs], each.outputs[0].info.dtype)


def _peak_spread(walk: Walk, input_values: Mapping[str, Value], outputs: list[Value]) -> PeakSpread:
    def timeline(executed: Sequence[Executed], spans: Sequence[tuple[int, int]]) -> Sequence[int]:
        return bytes_along(executed, input_values, outputs, spans)

    input_bytes = sum(value.bytes for value in input_values.values())
    return spread_of_forks(walk.executed, walk.spans, walk.forks, timeline, input_bytes)


def _memory(walk: Walk, input_values: Mapping[str, Value], outputs: list[Value], weights: Weights) -> MemoryTimeline:
    every = {record.identity: record.bytes for lists in weights.values() for each in lists for record in each}
    unsized = Counter(each.operator for each in walk.executed for value in each.outputs if value.shape is None)
    return MemoryTimeline(
        sum(every.values()),
        sum(value.bytes for value in input_values.values()),
        bytes_along(walk.executed, input_values, outputs, walk.spans),
        "along the order of the graph; a runtime may order and reuse otherwise",
        unsized,
    )


def _notes(walk: Walk) -> list[str]:
    notes = list(dict.fromkeys(walk.notes))
    if walk.constants:
        notes.append(
            f"{walk.constants} operators depend on constants and shapes alone: they are computed before the first run, "
            "and count as nothing"
        )
    return notes
