"""The trace of a graph, made of what ran: operators, calls of layers, and bytes alive.

A backend hands over the `graph_work.Work` that it has noted. One with a form of its own for operators makes its trace
itself, with the functions of `graph_memory` and `graph_records`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial

from ..count_text import format_count
from ..trace.records import MemoryTimeline, ModelTrace
from .graph_memory import count_unsized, find_viewed, measure_live_bytes
from .graph_records import list_reads, make_record
from .graph_work import GraphValue, Work
from .named_layers import Scopes
from .program_parts import list_all, measure_memory
from .scoped_calls import LayerWeights, layer_calls, layer_records

__all__ = [
    "FOLLOWED",
    "count_weight_bytes",
    "describe_constants",
    "trace_work",
]


def trace_work(
    work: Work,
    scopes: Scopes,
    weights: Mapping[str, LayerWeights],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
    views: Container[str],
    method: str,
    notes: Iterable[str] = (),
    names: Sequence[tuple[str, str] | None] = (),
    settings: Mapping[str, str] | None = None,
) -> ModelTrace:
    """Return the trace of a call of a model.

    Args:
        work: What runs.
        scopes: The layers of the model's own graph.
        weights: The parameters and buffers of each layer, by its path.
        inputs: What the call gives.
        outputs: What the model returns.
        views: The operators whose output is their first input in another shape: it shares its buffer.
        method: As in `ModelTrace`.
        notes: As in `ModelTrace`.
        names: What each node of the model's own graph is called in the file, as `OpRecord` has it.
        settings: What is known of how layers were created, by their paths.
    """
    executed = work.operators
    chains = [scopes.chains[op.node] for op in executed]
    calls = layer_calls(executed, chains, inputs, outputs, scopes.chains)
    records = [
        make_record(
            op,
            chain[-1],
            reads,
            node=names[op.node] if names else None,
            is_masked=op.is_masked,
            multiplied=op.product_dtype,
        )
        for op, chain, reads in zip(executed, chains, list_reads(executed, inputs), strict=True)
    ]
    timeline = partial(
        measure_live_bytes, inputs=inputs, outputs=outputs, find_sources=partial(find_viewed, views=views)
    )
    input_bytes = sum(value.bytes for value in inputs)
    memory = measure_memory(work.parts, timeline, input_bytes)
    return ModelTrace(
        layers=layer_records(scopes.types, weights, calls, settings),
        operators=tuple(records),
        memory=MemoryTimeline(
            weight_bytes=count_weight_bytes(weights),
            input_bytes=input_bytes,
            live_bytes=memory.live_bytes,
            note="along the order of the graph; a runtime may order and reuse otherwise",
            unsized=count_unsized(list_all(work.parts), inputs),
        ),
        uncounted=work.count_missing(),
        method=method,
        notes=tuple(notes),
        choices=tuple(work.choices),
        peak_spread=memory.peak_spread,
    )


#: What a reader must know where the values of inputs decided.
FOLLOWED = (
    "branches and loops follow the values of the inputs that were given: others may take other branches and more turns"
)


def count_weight_bytes(weights: Mapping[str, LayerWeights]) -> int:
    """Return the bytes of the weights of layers, of those that several layers use once."""
    sizes = {
        record.identity: record.bytes for layer in weights.values() for record in (*layer.parameters, *layer.buffers)
    }
    return sum(sizes.values())


def describe_constants(number: int) -> list[str]:
    """Return what is said of operators that are not counted, as they depend on constants and shapes alone."""
    if not number:
        return []
    operators = format_count(number, "operator")
    return [f"{operators} of constants and shapes alone: computed before the first run, and counted as nothing"]
