"""The weights of a language model by kind, from the layers of its trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from profilerkit.trace.layer_paths import parent_path, walk_outwards
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord, WeightRecord

from ..checkpoints.placing import PackedLayer
from ..checkpoints.quantization import Formats
from .laws import find_root_call
from .records import WeightPart

__all__ = ["Routing", "count_unrouted_macs", "find_passes", "weight_parts"]

#: How many experts a layer has, and to how many a token is sent, by the configuration.
Routing = tuple[int, int]
#: Kind, dtype, elements of a row, experts, experts per token, and which passes read it.
_Key = tuple[str, str, int, int, int, str]


def weight_parts(
    trace: ModelTrace,
    decode: Iterable[OpRecord],
    batch: int,
    head: int | None = None,
    routing: Routing | None = None,
    formats: Formats = lambda path, kind: None,
    packed: Mapping[str, PackedLayer] | None = None,
) -> tuple[WeightPart, ...]:
    """Return the weights by kind and dtype, tied ones once.

    A table is a weight that only layers of embeddings hold; one that is tied to the head is the head, and read whole.
    Experts are weights of three dimensions of a layer that multiplies a token by a whole number of the first one:
    ``decode``, the operators of a step of one token for each of ``batch`` sequences, tell how many. Where all were run,
    ``routing`` says to how many a token is sent. ``head`` is the identity of the weight that makes logits, if it is
    known. ``formats`` tells how the checkpoint stores the weights of a layer; ``packed``
    has the bytes of layers whose files were looked at.
    """
    macs = _macs_by_layer(decode)
    parts: defaultdict[_Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    tables = _tables(trace.layers)
    passes = find_passes(trace)
    seen: set[int] = set()
    counted: set[str] = set()
    for layer in trace.layers:
        chosen = _experts_per_token(layer, macs[layer.path], batch, routing)
        met = False
        for weight in (*layer.parameters, *layer.buffers):
            if weight.identity in seen:
                continue
            seen.add(weight.identity)
            kind = _find_kind(weight, layer, chosen, weight.identity in tables, weight.identity == head)
            key: _Key = (*kind, passes[layer.path])
            size, form = weight.bytes, formats(layer.path, key[0])
            if form is not None:
                key, size = (key[0], form.name, *key[2:]), form.count_bytes(weight.count)
            seen_in_files = (packed or {}).get(layer.path)
            if seen_in_files is not None and key[0] != "other":
                # All bytes of the layer count with its first weight.
                name = seen_in_files.dtype if form is None else form.name
                key, size = (key[0], name, *key[2:]), 0 if layer.path in counted else seen_in_files.bytes
                counted.add(layer.path)
            parts[key][0] += weight.count
            parts[key][1] += size
            parts[key][2] += not met or key[0] != "experts"
            met = met or key[0] == "experts"
    return tuple(
        WeightPart(kind, elements, stored, dtype, row, experts, per_token, layers, read_in)
        for (kind, dtype, row, experts, per_token, read_in), (elements, stored, layers) in sorted(parts.items())
    )


def find_passes(trace: ModelTrace) -> dict[str, str]:
    """Return which passes read the weights of each layer, by its path; see `WeightPart`.

    A layer that is never called is read with the layer around it if nothing is inside it: models also use weights of a
    layer without a call. If there are others inside, and none of them is called, no pass reads it.
    """
    calls = {layer.path: layer.calls for layer in trace.layers}
    inside = {parent_path(layer.path) for layer in trace.layers}
    around_called = {path for layer in trace.layers if layer.calls for path in walk_outwards(layer.path)}
    roots: dict[tuple[str, int], int] = {}
    passes: dict[str, str] = {}
    for layer in trace.layers:
        path = layer.path
        if layer.calls:
            called_in = {find_root_call((path, index), calls, roots) for index in range(len(layer.calls))}
            passes[path] = "all" if called_in - {0} else "first"
        elif path in around_called or path not in inside:
            passes[path] = passes.get(parent_path(path) or "", "all")
        else:
            passes[path] = "none"
    return passes


def _tables(layers: Iterable[LayerRecord]) -> set[int]:
    """Return the identities of weights that layers of embeddings alone hold."""
    in_tables: set[int] = set()
    elsewhere: set[int] = set()
    for layer in layers:
        target = in_tables if "Embedding" in layer.type and layer.calls else elsewhere
        target.update(weight.identity for weight in layer.parameters if len(weight.shape) == 2)
    return in_tables - elsewhere


def _macs_by_layer(operators: Iterable[OpRecord]) -> Counter[str]:
    macs: Counter[str] = Counter()
    for operator in operators:
        macs[operator.layer] += operator.macs
    return macs


def count_unrouted_macs(trace: ModelTrace, decode: Iterable[OpRecord], batch: int, routing: Routing | None) -> int:
    """Return the multiply-accumulates of one token for experts that it is not sent to, where a library runs all."""
    if routing is None:
        return 0
    macs, (experts, chosen) = _macs_by_layer(decode), routing
    run = (_experts_run(layer, macs[layer.path], batch) for layer in trace.layers)
    return sum((experts - chosen) * size for count, size, times in run if (count, times) == (experts, experts))


def _experts_run(layer: LayerRecord, macs: int, batch: int) -> tuple[int, int, int]:
    """Return how many experts a layer has, the elements of each, and how many were run for a token; zeros for none."""
    stacked = [weight for weight in layer.parameters if len(weight.shape) == 3]
    sizes = {weight.shape[0] for weight in stacked}
    if len(sizes) != 1 or not macs:
        return 0, 0, 0
    experts = sizes.pop()
    elements = sum(weight.count for weight in stacked) // experts
    run, rest = divmod(macs, batch * elements)
    return (experts, elements, run) if not rest and 1 <= run <= experts else (0, 0, 0)


def _experts_per_token(layer: LayerRecord, macs: int, batch: int, routing: Routing | None) -> int:
    """Return how many experts of a layer each token is sent to; 0 for a layer without experts."""
    experts, _, run = _experts_run(layer, macs, batch)
    if run < experts:
        return run
    return routing[1] if routing is not None and routing[0] == experts else 0


def _find_kind(
    weight: WeightRecord, layer: LayerRecord, chosen: int, is_table: bool, is_head: bool
) -> tuple[str, str, int, int, int]:
    if is_head:
        return "head", weight.dtype, 0, 0, 0
    if is_table:
        return "embedding", weight.dtype, weight.shape[1], 0, 0
    if len(weight.shape) == 3 and chosen:
        return "experts", weight.dtype, 0, weight.shape[0], chosen
    is_matrix = weight in layer.parameters and len(weight.shape) >= 2
    return ("matrix" if is_matrix else "other"), weight.dtype, 0, 0, 0
