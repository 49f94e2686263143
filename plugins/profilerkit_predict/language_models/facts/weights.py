"""The weights of a language model by kind, from the layers of its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from profilerkit.trace.layer_paths import parent_path, walk_outwards
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord, WeightRecord

from ...checkpoints.formats import WeightKind
from ...checkpoints.quantization import Formats
from ...checkpoints.stored_tensors import PackedLayer
from .laws import find_root_call
from .model_cache import find_layer_numbers
from .records import MatrixShape, ReadIn, Routing, WeightPart


class LayerWeight(NamedTuple):
    """A weight, the layer that holds it, and its kind: a part without sizes."""

    layer: LayerRecord
    weight: WeightRecord
    part: WeightPart


def list_layer_weights(
    trace: ModelTrace, decode: Iterable[OpRecord], batch: int, head: int | None = None, routing: Routing | None = None
) -> tuple[LayerWeight, ...]:
    """Return the weights of all layers with their kinds, tied weights once.

    A table is a weight that only layers of embeddings hold, and perhaps the head, whose identity is ``head``: such a
    table is the head, and read whole. Experts are weights of three dimensions of a layer that multiplies a token by a
    whole number of the experts in the first dimension: the operators of ``decode``, a step of one token for each
    sequence of the batch, tell the number. If all experts were run, ``routing`` of the configuration tells it.
    """
    macs = _sum_macs_by_layer(decode)
    tables = _find_tables(trace.layers, head)
    passes = find_passes(trace)
    weights: dict[int, LayerWeight] = {}  # by their identity
    for layer in trace.layers:
        layer_routing = _find_routing(layer, macs[layer.path], batch, routing)
        for weight in (*layer.parameters, *layer.buffers):
            if weight.identity not in weights:
                part = _describe(weight, layer, layer_routing, tables, head)
                weights[weight.identity] = LayerWeight(layer, weight, replace(part, read_in=passes[layer.path]))
    return tuple(weights.values())


def weight_parts(
    weights: Iterable[LayerWeight], formats: Formats, packed: Mapping[str, PackedLayer] | None
) -> tuple[WeightPart, ...]:
    """Return weights by kind and dtype.

    ``formats`` tells how the checkpoint stores the weights of a layer; ``packed`` has the bytes of layers whose files
    were looked at.
    """
    stored: list[tuple[str, WeightPart]] = []
    counted: set[str] = set()
    for layer, weight, part in weights:
        form = formats(layer.path, part.kind)
        size, dtype = (weight.bytes, part.dtype) if form is None else (form.count_bytes(weight.count), form.name)
        in_files = None if packed is None or part.kind is WeightKind.OTHER else packed.get(layer.path)
        if in_files is not None:
            size = 0 if layer.path in counted else in_files.bytes  # all of the layer's count with its first weight
            dtype = in_files.dtype if form is None else dtype
            counted.add(layer.path)
        stored.append((layer.path, replace(part, elements=weight.count, bytes=size, dtype=dtype)))
    return sum_parts(stored)


def sum_parts(parts: Iterable[tuple[str, WeightPart]]) -> tuple[WeightPart, ...]:
    """Return the sums of weights that are alike; before each stands its layer.

    A layer of experts counts once, however many weights it has.
    """
    sums: dict[WeightPart, WeightPart] = {}  # by the part without sizes
    with_experts: dict[WeightPart, dict[str, None]] = {}
    counted: set[str] = set()
    for layer, part in parts:
        kind = replace(part, elements=0, bytes=0, layers=0)
        total = sums.get(kind, kind)
        layers = 0 if part.routing is not None and layer in counted else 1
        if part.routing is not None:
            counted.add(layer)
            with_experts.setdefault(kind, {})[layer] = None
        elements, size = total.elements + part.elements, total.bytes + part.bytes
        sums[kind] = replace(kind, elements=elements, bytes=size, layers=total.layers + layers)
    for kind, layers_with_experts in with_experts.items():
        numbers = find_layer_numbers(layers_with_experts)
        if len(set(numbers)) == len(numbers):  # else of several stacks
            sums[kind] = replace(sums[kind], numbers=numbers)
    return tuple(sorted(sums.values(), key=lambda part: (part.kind, part.dtype, part.row_elements or 0, part.read_in)))


def list_matrices(weights: Iterable[LayerWeight]) -> tuple[MatrixShape, ...]:
    """Return the matrices of linear layers and of experts that every pass reads, by their names in a layer."""
    counts: Counter[MatrixShape] = Counter()
    for layer, weight, part in weights:
        if part.read_in is not ReadIn.ALL:
            continue
        if part.kind is WeightKind.EXPERTS:
            _, rows, columns = weight.shape
            counts[MatrixShape(weight.name, rows, columns, 1, part.routing)] += 1
        elif part.kind is WeightKind.MATRIX and ("Linear" in layer.type or "Conv1D" in layer.type):
            rows, columns = weight.shape[:2]
            counts[MatrixShape(layer.path.rpartition(".")[2], rows, columns, 1)] += 1
    return tuple(replace(matrix, count=count) for matrix, count in counts.items())


def find_passes(trace: ModelTrace) -> dict[str, ReadIn]:
    """Return which passes read the weights of each layer, by its path.

    A layer that is never called is read with the layer around it if nothing is inside it: models also use weights of a
    layer without a call. If there are others inside, and none of them is called, no pass reads it.
    """
    calls = {layer.path: layer.calls for layer in trace.layers}
    with_layers_inside = {parent_path(path) for path in calls}
    with_calls_inside = {outer for path, own_calls in calls.items() if own_calls for outer in walk_outwards(path)}
    roots: dict[tuple[str, int], int] = {}
    passes: dict[str, ReadIn] = {}
    for path, own_calls in calls.items():
        called_in = {find_root_call((path, index), calls, roots) for index in range(len(own_calls))}
        if called_in:  # the model's first call is the pass over the prompt
            passes[path] = ReadIn.FIRST if called_in == {0} else ReadIn.ALL
        elif path in with_layers_inside and path not in with_calls_inside:
            passes[path] = ReadIn.NONE
        else:
            passes[path] = passes.get(parent_path(path) or "", ReadIn.ALL)
    return passes


def _find_tables(layers: Iterable[LayerRecord], head: int | None) -> set[int]:
    """Return the identities of weights that layers of embeddings alone hold, or they and the head."""
    in_tables: set[int] = set()
    elsewhere: set[int] = set()
    for layer in layers:
        target = in_tables if "Embedding" in layer.type and layer.calls else elsewhere
        target.update(weight.identity for weight in layer.parameters if len(weight.shape) == 2)
    return in_tables - (elsewhere - {head})


def _sum_macs_by_layer(operators: Iterable[OpRecord]) -> Counter[str]:
    macs: Counter[str] = Counter()
    for operator in operators:
        macs[operator.layer] += operator.macs
    return macs


def count_unrouted_macs(trace: ModelTrace, decode: Iterable[OpRecord], batch: int, routing: Routing | None) -> int:
    """Return the multiply-accumulates of one token for experts that it is not sent to, if a library runs all."""
    if routing is None:
        return 0
    macs = _sum_macs_by_layer(decode)
    unrouted = 0
    for layer in trace.layers:
        run = _find_run(layer, macs[layer.path], batch)
        if run is not None and run.experts == run.run_for_a_token == routing.experts:
            unrouted += run.elements * (routing.experts - routing.experts_per_token)
    return unrouted


class _ExpertsRun(NamedTuple):
    """How many experts a layer has, the elements of each, and how many were run for a token."""

    experts: int
    elements: int
    run_for_a_token: int


def _find_run(layer: LayerRecord, macs: int, batch: int) -> _ExpertsRun | None:
    """Return how a layer ran its experts in a step, by its multiply-accumulates; None for a layer without any."""
    stacked = [weight for weight in layer.parameters if len(weight.shape) == 3]
    sizes = {weight.shape[0] for weight in stacked}
    if len(sizes) != 1 or not macs:
        return None
    experts = sizes.pop()
    elements = sum(weight.count for weight in stacked) // experts
    run, rest = divmod(macs, batch * elements)  # an expert multiplies a token with each of its elements once
    return _ExpertsRun(experts, elements, run) if not rest and 1 <= run <= experts else None


def _find_routing(layer: LayerRecord, macs: int, batch: int, routing: Routing | None) -> Routing | None:
    """Return how tokens are sent to the experts of a layer; None for a layer without experts.

    Where a library runs all experts, work does not tell: then ``routing``, by the configuration, does if it fits.
    """
    run = _find_run(layer, macs, batch)
    if run is None:
        return None
    if run.run_for_a_token < run.experts:
        return Routing(run.experts, run.run_for_a_token)
    return routing if routing is not None and routing.experts == run.experts else None


def _describe(
    weight: WeightRecord, layer: LayerRecord, routing: Routing | None, tables: Container[int], head: int | None
) -> WeightPart:
    """Return the kind of a weight, as a part without sizes; ``tables`` and ``head`` are identities of weights."""
    part, dimensions = WeightPart(WeightKind.OTHER, 0, 0, weight.dtype), len(weight.shape)
    if weight.identity == head or weight.identity in tables:
        kind = WeightKind.HEAD if weight.identity == head else WeightKind.EMBEDDING
        return replace(part, kind=kind, row_elements=weight.shape[1] if weight.identity in tables else None)
    if routing is not None and dimensions == 3:
        return replace(part, kind=WeightKind.EXPERTS, routing=replace(routing, experts=weight.shape[0]))
    if routing is not None and dimensions == 2 and "bias" in weight.name:  # biases of experts are read with them
        return replace(part, routing=replace(routing, experts=weight.shape[0]))
    is_matrix = dimensions >= 2 and weight in layer.parameters
    return replace(part, kind=WeightKind.MATRIX) if is_matrix else part
