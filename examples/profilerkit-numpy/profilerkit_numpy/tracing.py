"""One pass over a network. It is a run, layer by layer: numpy has no arrays that are shapes alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from profilerkit import ModelTrace
from profilerkit.backend_kit.live_bytes import Step, live_bytes
from profilerkit.costs import Cost, Numbers, Shape, apply_formula
from profilerkit.trace.records import LayerCall, LayerRecord, MemoryTimeline, OpRecord, TensorInfo, WeightRecord

from .layers import Array, Layer, Sequential


def trace_model(model: Sequential, x: Array) -> ModelTrace:
    """Return the trace of one forward pass in inference mode."""
    paths = {layer: str(index) for index, layer in enumerate(dict.fromkeys(model.layers))}
    calls: dict[Layer | None, list[LayerCall]] = defaultdict(list)
    operators, steps = list[OpRecord](), list[Step]()
    input_info, input_bytes = _info(x), x.nbytes
    for index, layer in enumerate(model.layers):
        out = layer.forward(x, **layer.weights)
        call = LayerCall((_info(x),), (_info(out),), ("", 0))
        formula, numbers = layer.cost or (lambda *shapes: Cost(0, 0)), Numbers.of((x.dtype.name, out.dtype.name))
        cost = apply_formula(formula, numbers, Shape(x.shape), Shape(out.shape))
        read = x.nbytes + sum(weight.nbytes for weight in layer.weights.values())
        missing = layer.type if layer.cost is None else ""
        where = layer.type, paths[layer], len(calls[layer])
        operators.append(OpRecord(*where, *cost, read, out.nbytes, call.outputs, missing=missing))
        shared = {index + 1: index} if np.may_share_memory(x, out) else {}
        steps.append(Step((index,), ((index + 1, out.nbytes),), shared))
        calls[layer].append(call)
        x = out
    calls[None].append(LayerCall((input_info,), (_info(x),)))
    weights = {id(array): array.nbytes for layer in model.layers for array in layer.weights.values()}
    memory = MemoryTimeline(sum(weights.values()), input_bytes, live_bytes(steps, {0: input_bytes}, [len(steps)]))
    uncounted = Counter(op.missing for op in operators if op.missing)
    return ModelTrace(layer_records(model, calls), tuple(operators), memory, uncounted, "a real run")


def layer_records(model: Sequential, calls: Mapping[Layer | None, Sequence[LayerCall]]) -> tuple[LayerRecord, ...]:
    """Return the model itself, whose calls are those of None, and its layers; one that stands twice is one layer."""
    records = [LayerRecord("", type(model).__name__, 0, calls=tuple(calls.get(None, ())))]
    for index, layer in enumerate(dict.fromkeys(model.layers)):
        weights = tuple(
            WeightRecord(name, id(array), array.size, array.nbytes, array.dtype.name, layer.trainable)
            for name, array in layer.weights.items()
        )
        records.append(LayerRecord(str(index), layer.type, 1, weights, calls=tuple(calls.get(layer, ()))))
    return tuple(records)


def _info(array: Array) -> TensorInfo:
    return TensorInfo(array.shape, array.dtype.name)
