"""The rows of the tables of a trace: by layer, by call of a layer, and by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .bounds import WORK, list_layer_bounds
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


class _WorkColumns(NamedTuple):
    """The columns of work in a trace's tables.

    Attributes:
        names: The names of the columns.
        read: Reads the numbers of the columns from an operator's record.
    """

    names: tuple[str, ...]
    read: Callable[[OpRecord], tuple[int, ...]]

    @property
    def zeros(self) -> tuple[int, ...]:
        """The numbers of a layer or a call that does no work."""
        return (0,) * len(self.names)

    def label(self, numbers: Sequence[int], prefix: str = "", *, is_known: bool = True) -> dict[str, Any]:
        """Return numbers by the names of their columns; None for each of them if they are not known."""
        named = zip(self.names, numbers, strict=True)
        return {f"{prefix}{name}": number if is_known else None for name, number in named}


def _choose_columns(trace: ModelTrace) -> _WorkColumns:
    is_step = any(op.phase == "backward" for op in trace.operators)
    return _WorkColumns((*_COUNTS, *_PHASES), _read_step) if is_step else _WorkColumns(_COUNTS, _read_counts)


_read_counts = attrgetter(*_COUNTS)


def _read_step(op: OpRecord) -> tuple[int, ...]:
    """Return the counts of an operator of a training step, and its work in the passes of `_PHASES`."""
    passes = (0, 0, op.macs, op.flops) if op.phase == "backward" else (op.macs, op.flops, 0, 0)
    return (*_read_counts(op), *passes)


def list_layer_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each layer, with the work and the weights inside it and its own; the layers inside follow it.

    Of a model that did not run, or raised while it did, the weights are known, and the calls before the error; its
    further calls and its work are None.
    """
    columns = _choose_columns(trace)
    nested = _list_inner_first(trace.layers)
    own_work = _sum_own_work(trace, columns)
    work = _add_inner_work(own_work, nested)
    weights = sum_weights(trace, nested)
    did_run = trace.failure is None
    bounds = {}
    if did_run and (trace.choices or trace.uncounted):
        totals = {path: {**columns.label(work[path]), **columns.label(own_work[path], "own_")} for path in work}
        bounds = list_layer_bounds(trace, totals)
    parents = {pair.parent for pair in nested}
    model = {"params": trace.total_params, "macs": trace.macs, "flops": trace.flops}
    is_configured = any(layer.configuration for layer in trace.layers)
    layers = {layer.path: layer for layer in trace.layers}
    for path in order_as_tree(layers):
        layer, inside = layers[path], weights[path]
        counts = {"params": inside.params, **columns.label(work[path], is_known=did_run)}
        yield {
            **_name_layer(layer, is_leaf=path not in parents),
            "calls": sum(call.times for call in layer.calls) if did_run or layer.calls else None,
            **counts,
            "own_params": inside.own_params,
            **columns.label(own_work[path], "own_", is_known=did_run),
            **{f"{name}_share": _divide(counts[name], whole) for name, whole in model.items()},
            "trainable_params": inside.trainable_params,
            "params_by_dtype": inside.params_by_dtype,
            "weight_bytes": inside.weight_bytes,
            **bounds.get(path, {}),
            **_describe_tensors(layer.calls[0] if layer.calls else None),
            **({"configuration": layer.configuration} if is_configured else {}),
        }


def _name_layer(layer: LayerRecord, *, is_leaf: bool) -> dict[str, Any]:
    """Return the columns that identify the layer of a row."""
    return {"path": layer.path, "type": layer.type, "depth": layer.depth, "is_leaf": is_leaf}


class _Nested(NamedTuple):
    """The path of a layer, and the path of the layer around it."""

    path: str
    parent: str


def _list_inner_first(layers: Iterable[LayerRecord]) -> list[_Nested]:
    """Return the layers inside others, the deepest first: added up in this order, sums are complete."""
    by_depth = sorted(layers, key=lambda layer: -layer.depth)
    parents = ((layer.path, parent_path(layer.path)) for layer in by_depth)
    return [_Nested(path, parent) for path, parent in parents if parent is not None]


def _sum_own_work(trace: ModelTrace, columns: _WorkColumns) -> dict[str, tuple[int, ...]]:
    own_work = {layer.path: columns.zeros for layer in trace.layers}
    for op in trace.operators:
        own_work[op.layer] = _add(own_work[op.layer], columns.read(op))
    return own_work


def _add_inner_work(own_work: Mapping[str, tuple[int, ...]], nested: Iterable[_Nested]) -> dict[str, tuple[int, ...]]:
    work = dict(own_work)
    for path, parent in nested:
        work[parent] = _add(work[parent], work[path])
    return work


#: A call of a layer: its path, and the index of the call.
_Call: TypeAlias = tuple[str, int]


def list_call_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each call of a layer, in the order of the layers.

    Further rows have the work outside every call of the model, if there is any.
    """
    columns = _choose_columns(trace)
    zeros = columns.zeros
    own_work: dict[_Call, tuple[int, ...]] = {}
    for op in trace.operators:
        key = (op.layer, op.call)
        own_work[key] = _add(own_work.get(key, zeros), columns.read(op))
    callers = {(layer.path, index): call.caller for layer in trace.layers for index, call in enumerate(layer.calls)}
    work = _add_inner_calls(own_work, callers, zeros)
    parents = set(callers.values())
    layers = {layer.path: layer for layer in trace.layers}
    outside = [key for key, done in own_work.items() if key not in callers and any(done)]
    for key in (*callers, *outside):
        path, index = key
        call = layers[path].calls[index] if key in callers else None
        yield {
            **_name_layer(layers[path], is_leaf=key not in parents and call is not None),
            "call": index,
            **columns.label(work[key]),
            **columns.label(own_work.get(key, zeros), "own_"),
            **_describe_tensors(call),
        }


def _add_inner_calls(
    own_work: Mapping[_Call, tuple[int, ...]], callers: Mapping[_Call, _Call | None], zeros: tuple[int, ...]
) -> dict[_Call, tuple[int, ...]]:
    """Return the work of each call with the calls that it made: a call is added up after all calls that it made."""
    work = {**dict.fromkeys(callers, zeros), **own_work}
    calls_left = Counter(callers.values())
    complete = [key for key in callers if key not in calls_left]
    while complete:
        key = complete.pop()
        caller = callers.get(key)
        if caller is not None:
            work[caller] = _add(work.get(caller, zeros), work[key])
            calls_left[caller] -= 1
            if not calls_left[caller]:
                complete.append(caller)
    return work


def _divide(count: int | None, total: int | None) -> float | None:
    return None if count is None or not total else count / total


def _add(work: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(add, work, more))


def _describe_tensors(call: LayerCall | None) -> dict[str, Any]:
    inputs: Sequence[TensorInfo] = call.inputs if call else ()
    outputs: Sequence[TensorInfo] = call.outputs if call else ()
    return {
        "input_shapes": tuple(tensor.shape for tensor in inputs),
        "output_shapes": tuple(tensor.shape for tensor in outputs),
        "input_dtypes": tuple(tensor.dtype for tensor in inputs),
        "output_dtypes": tuple(tensor.dtype for tensor in outputs),
    }


_COLUMNS = ("operator", "layer", "call", "phase", *WORK, *TRAFFIC)


def list_operator_rows(operators: Sequence[OpRecord], live: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each operator, with the bytes alive after it; rare columns only if the trace fills them."""
    has_nodes, has_reads = any(op.node for op in operators), any(op.reads for op in operators)
    has_gaps = any(op.missing for op in operators)
    for index, op in enumerate(operators):
        yield {
            **{name: getattr(op, name) for name in _COLUMNS},
            "live_bytes": live[index] if index < len(live) else None,
            **(dict(zip(("graph", "node"), op.node or ("", ""), strict=True)) if has_nodes else {}),
            **({"reads": op.reads} if has_reads else {}),
            **({"missing": op.missing and f"not counted: {op.missing}"} if has_gaps else {}),
        }


def read_work(row: Mapping[str, Any], column: str) -> Any:
    """Return a column of an operator's row; None for the MACs and FLOPs of an uncounted operator: they are unknown."""
    return None if column in WORK and row.get("missing") else row.get(column)
