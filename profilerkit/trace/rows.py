"""The rows of the layer tables, worked out from a trace: one for each layer, one for each call of a layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .bounds import WORK
from .inner_weights import InnerWeights, find_shared_weights
from .layer_bounds import list_layer_bounds
from .layer_paths import parent_path
from .operator_rows import TRAFFIC

if TYPE_CHECKING:
    from .records import LayerCall, LayerRecord, ModelTrace, OpRecord, TensorInfo

__all__ = ["list_call_rows", "list_layer_rows"]

#: What an operator's record says of its work.
_COUNTS = (*WORK, *TRAFFIC)
#: What the rows of a training step tell besides: the part of each pass.
_PHASES = ("forward_macs", "forward_flops", "backward_macs", "backward_flops")


class _WorkColumns(NamedTuple):
    """The columns of work in a trace's tables.

    Attributes:
        names: The names of the columns.
        own_names: The names of the columns with a layer's own work.
        read: Reads the numbers of the columns from an operator's record.
    """

    names: tuple[str, ...]
    own_names: tuple[str, ...]
    read: Callable[[OpRecord], tuple[int, ...]]


def _choose_columns(trace: ModelTrace) -> _WorkColumns:
    is_step = any(op.phase == "backward" for op in trace.operators)
    names = (*_COUNTS, *_PHASES) if is_step else _COUNTS
    return _WorkColumns(names, tuple(f"own_{name}" for name in names), _read_step if is_step else _read_counts)


_read_counts = attrgetter(*_COUNTS)


def _read_step(op: OpRecord) -> tuple[int, ...]:
    """Return the counts of an operator of a training step, and its work in the passes of `_PHASES`."""
    passes = (0, 0, op.macs, op.flops) if op.phase == "backward" else (op.macs, op.flops, 0, 0)
    return (*_read_counts(op), *passes)


def _sum_own_work(trace: ModelTrace, columns: _WorkColumns) -> dict[str, tuple[int, ...]]:
    own_work = {layer.path: (0,) * len(columns.names) for layer in trace.layers}
    for op in trace.operators:
        own_work[op.layer] = _add(own_work[op.layer], columns.read(op))
    return own_work


def list_layer_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each layer, with the work and the weights inside it and its own.

    Of a model that did not run, or raised while it did, the weights are known, and the calls before the error; its
    further calls and its work are None. Where weights are made by the first call only, so are the numbers of the
    weights of layers without any, and around them.
    """
    columns = _choose_columns(trace)
    own_work = _sum_own_work(trace, columns)
    shared = find_shared_weights(trace.layers)
    weights = {layer.path: InnerWeights(layer, shared) for layer in trace.layers}
    own_params: dict[str, int] = {path: own_weights.totals()["params"] for path, own_weights in weights.items()}

    work = dict(own_work)
    parents: set[str] = set()
    for path, parent in _list_inner_first(trace.layers):
        parents.add(parent)
        work[parent] = _add(work[parent], work[path])
        weights[parent].add(weights[path])

    lacking = _find_lacking_weights(trace, own_params)
    bounds = _find_bounds(trace, work)
    did_run = trace.failure is None
    unknown = (None,) * len(columns.names)
    totals = {"params": trace.total_params, "macs": trace.macs, "flops": trace.flops}
    is_configured = any(layer.configuration for layer in trace.layers)
    for layer in trace.layers:
        path = layer.path
        inside = weights[path].totals()
        if path in lacking:
            inside = {**dict.fromkeys(inside), "params_by_dtype": inside["params_by_dtype"]}
        counts = {
            "params": inside.pop("params"),
            **dict(zip(columns.names, work[path] if did_run else unknown, strict=True)),
        }
        yield {
            **_identify(layer, path not in parents, did_run),
            **counts,
            "own_params": None if path in lacking and not own_params[path] else own_params[path],
            **dict(zip(columns.own_names, own_work[path] if did_run else unknown, strict=True)),
            **{f"{name}_share": _divide(counts[name], total) for name, total in totals.items()},
            **inside,
            **bounds.get(path, {}),
            **_describe_tensors(layer.calls[0] if layer.calls else None),
            **({"configuration": layer.configuration} if is_configured else {}),
        }


def _list_inner_first(layers: Iterable[LayerRecord]) -> Iterator[tuple[str, str]]:
    """Yield each layer's path with that of the layer around it: the deepest layers first, so that sums are complete."""
    for layer in sorted(layers, key=lambda layer: -layer.depth):
        parent = parent_path(layer.path)
        if parent is not None:
            yield layer.path, parent


def _identify(layer: LayerRecord, is_leaf: bool, did_run: bool) -> dict[str, Any]:
    return {
        "path": layer.path,
        "type": layer.type,
        "depth": layer.depth,
        "is_leaf": is_leaf,
        "calls": sum(call.times for call in layer.calls) if did_run or layer.calls else None,
    }


def _find_bounds(trace: ModelTrace, work: Mapping[str, Sequence[int]]) -> dict[str, dict[str, float | None]]:
    """Return by path the columns with the two ends of the counts; nothing if all that decides them is known."""
    if not (trace.choices or trace.uncounted):
        return {}
    return list_layer_bounds(trace, {path: dict(zip(_COUNTS, counts, strict=False)) for path, counts in work.items()})


def _find_lacking_weights(trace: ModelTrace, own_params: Mapping[str, int]) -> set[str]:
    """Return the layers whose weights may not be made yet, and those around them: their numbers are unknown, not 0."""
    lacking: set[str] = set()
    if trace.unmade_weights:
        path: str | None
        for path in (path for path, params in own_params.items() if not params):
            while path is not None and path not in lacking:
                lacking.add(path)
                path = parent_path(path)
    return lacking


#: A call of a layer: its path, and the index of the call.
_Call: TypeAlias = tuple[str, int]


def list_call_rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each call of a layer, in the order of the layers.

    A last row has what was done outside every call of the model, if anything was.
    """
    columns = _choose_columns(trace)
    nothing = (0,) * len(columns.names)
    own_work: dict[_Call, tuple[int, ...]] = {}
    for op in trace.operators:
        key = (op.layer, op.call)
        own_work[key] = _add(own_work.get(key, nothing), columns.read(op))
    callers = {(layer.path, index): call.caller for layer in trace.layers for index, call in enumerate(layer.calls)}
    work = _add_inner_calls(own_work, callers, nothing)
    parents = set(callers.values())
    layers = {layer.path: layer for layer in trace.layers}
    outside = [key for key, done in own_work.items() if key not in callers and any(done)]
    for key in (*callers, *outside):
        path, index = key
        call = layers[path].calls[index] if key in callers else None
        yield {
            "path": path,
            "type": layers[path].type,
            "depth": layers[path].depth,
            "is_leaf": key not in parents and call is not None,
            "call": index,
            **dict(zip(columns.names, work[key], strict=True)),
            **dict(zip(columns.own_names, own_work.get(key, nothing), strict=True)),
            **_describe_tensors(call),
        }


def _add_inner_calls(
    own_work: Mapping[_Call, tuple[int, ...]], callers: Mapping[_Call, _Call | None], nothing: tuple[int, ...]
) -> dict[_Call, tuple[int, ...]]:
    """Return the work of each call with that of the calls that it made: each is added up after all that it made."""
    work = {**dict.fromkeys(callers, nothing), **own_work}
    calls_left = Counter(callers.values())
    complete = [key for key in callers if key not in calls_left]
    while complete:
        key = complete.pop()
        caller = callers.get(key)
        if caller is not None:
            work[caller] = _add(work.get(caller, nothing), work[key])
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
