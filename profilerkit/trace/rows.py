"""The rows of the tables of a trace: by layer, by call of a layer, and by operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from .columns import COUNTS, WORK, is_exact
from .facts import LayerCall, TraceFacts
from .layer_paths import describe_layers, order_as_tree
from .layer_weights import sum_weights
from .layer_work import WorkColumns, add_inside, list_layer_work

__all__ = ["divide_known", "list_call_rows", "list_layer_rows", "list_operator_rows", "read_work"]


# The rows of layers ---------------------------------------------------------------------------------------------------


def list_layer_rows(trace: TraceFacts) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each layer, with the work and the weights inside it and its own; the layers inside follow it.

    Of a model that did not run, or raised while it did, the weights are known, and the calls before the error; its
    further calls and its work are None. A share is None if the number of the whole model is not known exactly.
    """
    layers = {layer.path: layer for layer in trace.layers}
    identities = describe_layers({path: layer.type for path, layer in layers.items()})
    weights, work = sum_weights(trace), list_layer_work(trace)
    of_model = {**work[""].inside, **work[""].ends}
    whole = {
        "params": weights[""].params,
        **{name: of_model[name] if is_exact(of_model, name) else None for name in WORK},
    }
    is_configured = any(layer.configuration for layer in trace.layers)
    for path in order_as_tree(layers):
        layer, layer_weights, layer_work = layers[path], weights[path], work[path]
        counts = {"params": layer_weights.params, **layer_work.inside}
        yield {
            **identities[path],
            "calls": layer.call_count if trace.failure is None or layer.calls else None,
            **counts,
            "own_params": layer_weights.own_params,
            **layer_work.own_work,
            **{f"{name}_share": divide_known(counts[name], total) for name, total in whole.items()},
            "trainable_params": layer_weights.trainable_params,
            "params_by_dtype": layer_weights.params_by_dtype,
            "weight_bytes": layer_weights.weight_bytes,
            **layer_work.ends,
            **_describe_tensors(layer.calls[0] if layer.calls else None),
            **({"configuration": layer.configuration} if is_configured else {}),
        }


def divide_known(count: float | None, total: float | None) -> float | None:
    """Return a share or a rate; None if one of both is not known, or the divisor is zero."""
    return None if count is None or not total else count / total


def _describe_tensors(call: LayerCall | None) -> dict[str, Any]:
    inputs, outputs = (call.inputs, call.outputs) if call else ((), ())
    return {
        "input_shapes": tuple(tensor.shape for tensor in inputs),
        "output_shapes": tuple(tensor.shape for tensor in outputs),
        "input_dtypes": tuple(tensor.dtype for tensor in inputs),
        "output_dtypes": tuple(tensor.dtype for tensor in outputs),
    }


# The rows of calls ----------------------------------------------------------------------------------------------------


def list_call_rows(trace: TraceFacts) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each call of a layer, in the order of the layers.

    Further rows have the work outside every call of the model, if there is any.
    """
    columns = WorkColumns.choose(trace.operators)
    identities = describe_layers({layer.path: layer.type for layer in trace.layers})
    calls = {(layer.path, index): call for layer in trace.layers for index, call in enumerate(layer.calls)}
    own_sums = {**dict.fromkeys(calls, columns.zeros), **columns.sum_by(attrgetter("layer", "call"), trace.operators)}
    sums = add_inside(own_sums, {key: call.caller for key, call in calls.items()})
    callers = {call.caller for call in calls.values()}
    for key, own_work in own_sums.items():
        call = calls.get(key)
        if call is None and not any(own_work):
            continue
        path, index = key
        yield {
            **identities[path],
            "is_leaf": call is not None and key not in callers,
            "call": index,
            **columns.label(sums[key]),
            **columns.label(own_work, "own_"),
            **_describe_tensors(call),
        }


# The rows of operators ------------------------------------------------------------------------------------------------


_OPERATOR_COLUMNS = ("operator", "layer", "call", "phase", *COUNTS)


def list_operator_rows(trace: TraceFacts) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each operator, with the bytes alive after it; rare columns only if the trace fills them."""
    operators = trace.operators
    has_nodes, has_reads = any(op.node for op in operators), any(op.reads for op in operators)
    has_gaps = any(op.missing for op in operators)
    for op, live_bytes in zip_longest(operators, trace.memory.live_bytes):  # a trace without a timeline has no bytes
        row = {name: getattr(op, name) for name in _OPERATOR_COLUMNS} | {"live_bytes": live_bytes}
        if has_nodes:
            row["graph"], row["node"] = op.node or ("", "")
        if has_reads:
            row["reads"] = op.reads
        if has_gaps:
            row["missing"] = op.missing and f"not counted: {op.missing}"
        yield row


def read_work(row: Mapping[str, Any], column: str) -> Any:
    """Return a column of an operator's row; None for the MACs and FLOPs of an uncounted operator: they are unknown."""
    return None if column in WORK and row.get("missing") else row.get(column)
