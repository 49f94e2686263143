"""The rows of the layer tables, worked out from a trace: one for each layer, one for each call of a layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trace import LayerCall, LayerRecord, ModelTrace, OpRecord, TensorInfo, WeightRecord

__all__ = ["of_calls", "of_layers", "parent_path"]

#: What an operator's record says of its work.
_WORK = ("macs", "flops", "bytes_read", "bytes_written")
#: What the rows of a training step tell besides: the part of each pass.
_PHASES = ("forward_macs", "forward_flops", "backward_macs", "backward_flops")


def _columns(trace: ModelTrace) -> tuple[str, ...]:
    return (*_WORK, *_PHASES) if any(op.phase == "backward" for op in trace.operators) else _WORK


def _work(op: OpRecord) -> tuple[int, ...]:
    passes = (0, 0, op.macs, op.flops) if op.phase == "backward" else (op.macs, op.flops, 0, 0)
    return (op.macs, op.flops, op.bytes_read, op.bytes_written, *passes)


def parent_path(path: str) -> str | None:
    """Return the path of the layer around a layer, or None for the root."""
    return path.rpartition(".")[0] if path else None


def of_layers(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each layer, with the work and the weights inside it and its own."""
    columns, nothing = _columns(trace), [0] * len((*_WORK, *_PHASES))
    own: dict[str, list[int]] = {layer.path: list(nothing) for layer in trace.layers}
    for op in trace.operators:
        _add(own[op.layer], _work(op))
    whole = {path: list(work) for path, work in own.items()}
    params = {layer.path: {w.identity: w for w in layer.parameters} for layer in trace.layers}
    held = {layer.path: _saved(layer) for layer in trace.layers}
    parents: set[str] = set()
    for layer in sorted(trace.layers, key=lambda layer: -layer.depth):
        parent = parent_path(layer.path)
        if parent is None:
            continue
        parents.add(parent)
        _add(whole[parent], whole[layer.path])
        params[parent].update(params[layer.path])
        held[parent].update(held[layer.path])
    totals = {"params": trace.total_params, "macs": trace.macs, "flops": trace.flops}
    for layer in trace.layers:
        inside = list(params[layer.path].values())
        work = dict(zip(columns, whole[layer.path], strict=False))
        counts = {"params": sum(weight.count for weight in inside), **work}
        yield {
            "path": layer.path,
            "type": layer.type,
            "depth": layer.depth,
            "is_leaf": layer.path not in parents,
            "calls": len(layer.calls),
            **counts,
            "own_params": sum({weight.identity: weight.count for weight in layer.parameters}.values()),
            **{f"own_{name}": number for name, number in zip(columns, own[layer.path], strict=False)},
            **{f"{name}_share": counts[name] / total if total else None for name, total in totals.items()},
            "trainable_params": sum(weight.count for weight in inside if weight.trainable),
            "params_by_dtype": _by_dtype(inside),
            "weight_bytes": sum(weight.bytes for weight in held[layer.path].values()),
            **_tensors(layer.calls[0] if layer.calls else None),
        }


def of_calls(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each call of a layer, in the order of the layers.

    A last row has what was done outside every call of the model, if anything was.
    """
    columns, nothing = _columns(trace), [0] * len((*_WORK, *_PHASES))
    own: dict[tuple[str, int], list[int]] = {}
    for op in trace.operators:
        key = (op.layer, op.call)
        _add(own.setdefault(key, list(nothing)), _work(op))
    callers = {(layer.path, index): call.caller for layer in trace.layers for index, call in enumerate(layer.calls)}
    whole = {key: list(nothing) for key in callers} | {key: list(work) for key, work in own.items()}
    for key, work in own.items():
        caller = callers.get(key)
        while caller is not None:
            _add(whole.setdefault(caller, list(nothing)), work)
            caller = callers.get(caller)
    parents = {caller for caller in callers.values() if caller is not None}
    records = {layer.path: layer for layer in trace.layers}
    outside = [key for key, work in own.items() if key not in callers and any(work)]
    for path, index in (*callers, *outside):
        layer = records[path]
        call = layer.calls[index] if (path, index) in callers else None
        work = own.get((path, index), nothing)
        yield {
            "path": path,
            "type": layer.type,
            "depth": layer.depth,
            "is_leaf": (path, index) not in parents and call is not None,
            "call": index,
            **dict(zip(columns, whole[path, index], strict=False)),
            **{f"own_{name}": number for name, number in zip(columns, work, strict=False)},
            **_tensors(call),
        }


def _add(work: list[int], more: Sequence[int]) -> None:
    for place, number in enumerate(more):
        work[place] += number


def _saved(layer: LayerRecord) -> dict[int, WeightRecord]:
    """Return the weights of a layer that are saved with the model, by identity; what is a parameter too goes first."""
    return {w.identity: w for w in (*layer.buffers, *layer.parameters) if w.persistent}


def _by_dtype(weights: Sequence[WeightRecord]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for weight in weights:
        counts[weight.dtype] += weight.count
    return dict(counts)


def _tensors(call: LayerCall | None) -> dict[str, Any]:
    inputs: Sequence[TensorInfo] = call.inputs if call else ()
    outputs: Sequence[TensorInfo] = call.outputs if call else ()
    return {
        "input_shapes": tuple(info.shape for info in inputs),
        "output_shapes": tuple(info.shape for info in outputs),
        "input_dtypes": tuple(info.dtype for info in inputs),
        "output_dtypes": tuple(info.dtype for info in outputs),
    }
