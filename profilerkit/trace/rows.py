"""The rows of the tables of a trace: by layer, by call of a layer, and by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from .bounds import WORK, Sign, list_layer_bounds, read_bounds
from .layer_paths import order_as_tree, parent_path
from .layer_weights import sum_weights

if TYPE_CHECKING:
    from .records import LayerCall, LayerRecord, ModelTrace, OpRecord, TensorInfo

__all__ = [
    "TRAFFIC",
    "list_call_rows",
    "list_layer_rows",
    "list_operator_rows",
    "read_work",
]

#: The columns of bytes that an operator moves.
TRAFFIC = ("bytes_read", "bytes_written")
#: The work in an operator's record.
_COUNTS = (*WORK, *TRAFFIC)
#: The further columns of a training step: the part of each pass.
_PHASES = ("forward_macs", "forward_flops", "backward_macs", "backward_flops")
#: A layer by its path, or a call of a layer by the path and the index of the call.
_Key = TypeVar("_Key", bound=Hashable)
#: The numbers of all columns of work.
_Work: TypeAlias = tuple[int, ...]


# The columns of work --------------------------------------------------------------------------------------------------


class _WorkColumns(NamedTuple):
    """The columns of work in a trace's tables.

    Attributes:
        names: The names of the columns.
        read: Reads the numbers of the columns from an operator's record.
    """

    names: tuple[str, ...]
    read: Callable[[OpRecord], _Work]

    @property
    def zeros(self) -> _Work:
        """The numbers of a layer or a call that does no work."""
        return (0,) * len(self.names)

    def label(self, work: _Work, prefix: str = "") -> dict[str, int]:
        """Return numbers by the names of their columns."""
        return {f"{prefix}{name}": number for name, number in zip(self.names, work, strict=True)}

    def sum_by(self, find_key: Callable[[OpRecord], _Key], operators: Iterable[OpRecord]) -> dict[_Key, _Work]:
        """Return the work of the operators of each layer, or of each call: ``find_key`` returns that of an operator."""
        sums: dict[_Key, _Work] = {}
        for op in operators:
            key = find_key(op)
            sums[key] = _add(sums.get(key, self.zeros), self.read(op))
        return sums


def _choose_columns(trace: ModelTrace) -> _WorkColumns:
    is_step = any(op.phase == "backward" for op in trace.operators)
    return _WorkColumns((*_COUNTS, *_PHASES), _read_step) if is_step else _WorkColumns(_COUNTS, _read_counts)


_read_counts = attrgetter(*_COUNTS)


def _read_step(op: OpRecord) -> _Work:
    """Return the counts of an operator of a training step, and its work in the passes of `_PHASES`."""
    passes = (0, 0, op.macs, op.flops) if op.phase == "backward" else (op.macs, op.flops, 0, 0)
    return (*_read_counts(op), *passes)


def _add(work: _Work, more: _Work) -> _Work:
    return tuple(map(add, work, more))


def _add_inside(own_work: Mapping[_Key, _Work], around: Mapping[_Key, _Key | None]) -> dict[_Key, _Work]:
    """Return the work of each layer or call with the work inside it; ``around`` has the one around each."""
    work = dict(own_work)
    inside_left = Counter(around.values())
    complete = [key for key in around if key not in inside_left]
    while complete:
        key = complete.pop()
        outer = around[key]
        if outer is None:
            continue
        work[outer] = _add(work[outer], work[key])
        inside_left[outer] -= 1
        if not inside_left[outer]:
            complete.append(outer)
    return work


# The rows of layers ---------------------------------------------------------------------------------------------------


def list_layer_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each layer, with the work and the weights inside it and its own; the layers inside follow it.

    Of a model that did not run, or raised while it did, the weights are known, and the calls before the error; its
    further calls and its work are None. A share is None if the number of the whole model is not known exactly.
    """
    layers = {layer.path: layer for layer in trace.layers}
    weights, work = sum_weights(trace), _list_layer_work(trace)
    whole = {"params": weights[""].params, **_find_exact_work(work[""])}
    parents = set(map(parent_path, layers))
    is_configured = any(layer.configuration for layer in trace.layers)
    for path in order_as_tree(layers):
        layer, layer_weights, layer_work = layers[path], weights[path], work[path]
        counts = {"params": layer_weights.params, **layer_work.inside}
        yield {
            **_name_layer(layer, is_leaf=path not in parents),
            "calls": sum(call.times for call in layer.calls) if trace.failure is None or layer.calls else None,
            **counts,
            "own_params": layer_weights.own_params,
            **layer_work.own_work,
            **{f"{name}_share": _divide(counts[name], total) for name, total in whole.items()},
            "trainable_params": layer_weights.trainable_params,
            "params_by_dtype": layer_weights.params_by_dtype,
            "weight_bytes": layer_weights.weight_bytes,
            **layer_work.ends,
            **_describe_tensors(layer.calls[0] if layer.calls else None),
            **({"configuration": layer.configuration} if is_configured else {}),
        }


class _LayerWork(NamedTuple):
    """The columns of work of a layer, by their names: with the layers inside, without, and the ends of both."""

    inside: Mapping[str, int | None]
    own_work: Mapping[str, int | None]
    ends: Mapping[str, float | None]


def _list_layer_work(trace: ModelTrace) -> dict[str, _LayerWork]:
    """Return the work of each layer; it has ends only if some work of the model is not known exactly."""
    columns = _choose_columns(trace)
    paths = [layer.path for layer in trace.layers]
    if trace.failure is not None:
        own_names = [f"own_{name}" for name in columns.names]
        return dict.fromkeys(paths, _LayerWork(dict.fromkeys(columns.names), dict.fromkeys(own_names), {}))
    own_sums = {**dict.fromkeys(paths, columns.zeros), **columns.sum_by(attrgetter("layer"), trace.operators)}
    sums = _add_inside(own_sums, {path: parent_path(path) for path in paths})
    counts = {path: (columns.label(sums[path]), columns.label(own_sums[path], "own_")) for path in paths}
    ends: dict[str, dict[str, float | None]] = {path: {} for path in paths}
    if trace.choices or trace.uncounted:
        ends = list_layer_bounds(trace, {path: {**inside, **own_work} for path, (inside, own_work) in counts.items()})
    return {
        path: _LayerWork(_leave_out_unknown(inside, ends[path]), _leave_out_unknown(own_work, ends[path]), ends[path])
        for path, (inside, own_work) in counts.items()
    }


def _leave_out_unknown(work: Mapping[str, int], ends: Mapping[str, float | None]) -> dict[str, int | None]:
    """Return columns of work; the part of a pass is None if the work of both passes together lies between two ends."""
    names = {name: name.replace("forward_", "").replace("backward_", "") for name in work}
    inexact = {name for name in work for end in ("low", "high") if ends.get(f"{name}_{end}", work[name]) != work[name]}
    return {name: None if names[name] != name and names[name] in inexact else work[name] for name in work}


def _find_exact_work(work: _LayerWork) -> dict[str, int | None]:
    """Return the MACs and FLOPs of a layer with the layers inside; None for a number between two ends."""
    row = {**work.inside, **work.ends}
    signs = {column: read_bounds(row, column).sign(row[column] or 0) for column in WORK}
    return {column: work.inside[column] if sign is Sign.EXACT else None for column, sign in signs.items()}


def _name_layer(layer: LayerRecord, *, is_leaf: bool) -> dict[str, Any]:
    """Return the columns that identify the layer of a row."""
    return {"path": layer.path, "type": layer.type, "depth": layer.depth, "is_leaf": is_leaf}


def _divide(count: int | None, total: int | None) -> float | None:
    return None if count is None or not total else count / total


def _describe_tensors(call: LayerCall | None) -> dict[str, Any]:
    inputs: Sequence[TensorInfo] = call.inputs if call else ()
    outputs: Sequence[TensorInfo] = call.outputs if call else ()
    return {
        "input_shapes": tuple(tensor.shape for tensor in inputs),
        "output_shapes": tuple(tensor.shape for tensor in outputs),
        "input_dtypes": tuple(tensor.dtype for tensor in inputs),
        "output_dtypes": tuple(tensor.dtype for tensor in outputs),
    }


# The rows of calls ----------------------------------------------------------------------------------------------------


def list_call_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each call of a layer, in the order of the layers.

    Further rows have the work outside every call of the model, if there is any.
    """
    columns = _choose_columns(trace)
    layers = {layer.path: layer for layer in trace.layers}
    calls = {(layer.path, index): call for layer in trace.layers for index, call in enumerate(layer.calls)}
    callers = {key: call.caller for key, call in calls.items()}
    making_calls = set(callers.values())
    own_sums = {**dict.fromkeys(calls, columns.zeros), **columns.sum_by(attrgetter("layer", "call"), trace.operators)}
    sums = _add_inside(own_sums, callers)
    for key, own_work in own_sums.items():
        if key not in calls and not any(own_work):
            continue
        path, index = key
        yield {
            **_name_layer(layers[path], is_leaf=key in calls and key not in making_calls),
            "call": index,
            **columns.label(sums[key]),
            **columns.label(own_work, "own_"),
            **_describe_tensors(calls.get(key)),
        }


# The rows of operators ------------------------------------------------------------------------------------------------


_OPERATOR_COLUMNS = ("operator", "layer", "call", "phase", *_COUNTS)


def list_operator_rows(operators: Sequence[OpRecord], live: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each operator, with the bytes alive after it; rare columns only if the trace fills them."""
    has_nodes, has_reads = any(op.node for op in operators), any(op.reads for op in operators)
    has_gaps = any(op.missing for op in operators)
    for op, live_bytes in zip_longest(operators, live):  # a trace without a timeline has no bytes
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
