"""The trace of a graph, made of what ran: operators, calls of layers, and bytes alive.

A backend hands over the `graph_work.Work` that it has noted. One with a form of its own for operators makes its trace
itself, with the functions of `graph_memory` and `graph_records`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..count_text import format_count
from ..trace.records import MemoryTimeline, ModelTrace
from .branch_memory import measure_memory
from .graph_memory import count_unsized, find_viewed, measure_live_bytes
from .graph_records import list_reads, make_record
from .graph_work import GraphValue, Work
from .named_layers import Scopes
from .program_parts import list_all
from .scoped_calls import PlacedWeight, count_weight_bytes, layer_calls, layer_records

__all__ = ["FOLLOWED", "GraphFormat", "WalkedGraph", "describe_constants", "trace_work"]

#: What a reader must know where the values of inputs decided.
FOLLOWED = (
    "branches and loops follow the values of the inputs that were given: others may take other branches and more turns"
)


class WalkedGraph(NamedTuple):
    """A graph that a walk has gone over for one call.

    Attributes:
        work: What runs.
        inputs: What the call gives.
        outputs: What the model returns.
    """

    work: Work
    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]


class GraphFormat(NamedTuple):
    """What is the same in all traces of a format.

    Attributes:
        method: As in `ModelTrace`.
        views: The operators whose output is their first input in another shape: it shares its buffer.
    """

    method: str
    views: Container[str]


def trace_work(
    walked: WalkedGraph,
    scopes: Scopes,
    weights: Iterable[PlacedWeight],
    form: GraphFormat,
    *,
    notes: Iterable[str] = (),
    names: Sequence[tuple[str, str] | None] = (),
    settings: Mapping[str, str] | None = None,
) -> ModelTrace:
    """Return the trace of a call of a model.

    Args:
        walked: What runs in the call.
        scopes: The layers of the model's own graph.
        weights: The parameters and buffers of the layers.
        form: The format of the model.
        notes: As in `ModelTrace`.
        names: What each node of the model's own graph is called in the file, as `OpRecord` has it.
        settings: What is known of how layers were created, by their paths.
    """
    work, inputs, outputs = walked
    executed = work.operators
    chains = [scopes.chains[op.node] for op in executed]
    calls = layer_calls(executed, chains, inputs, outputs, scopes.chains)
    layers = layer_records(scopes.types, weights, calls, settings)
    records = []
    for op, chain, reads in zip(executed, chains, list_reads(executed, inputs), strict=True):
        node = names[op.node] if names else None
        records.append(
            make_record(op, chain[-1], reads, node=node, is_masked=op.is_masked, multiplied=op.product_dtype)
        )
    find_sources = partial(find_viewed, views=form.views)
    timeline = partial(measure_live_bytes, inputs=inputs, outputs=outputs, find_sources=find_sources)
    input_bytes = sum(value.bytes for value in inputs)
    memory = measure_memory(work.parts, timeline, input_bytes)
    return ModelTrace(
        layers=layers,
        operators=tuple(records),
        memory=MemoryTimeline(
            weight_bytes=count_weight_bytes(layers),
            input_bytes=input_bytes,
            live_bytes=memory.live_bytes,
            note="along the order of the graph; a runtime may order and reuse otherwise",
            unsized=count_unsized(list_all(work.parts), inputs),
        ),
        uncounted=work.count_missing(),
        method=form.method,
        notes=tuple(notes),
        choices=tuple(work.choices),
        peak_spread=memory.peak_spread,
    )


def describe_constants(number: int) -> list[str]:
    """Return what is said of operators that are not counted, as they depend on constants and shapes alone."""
    if not number:
        return []
    operators = format_count(number, "operator")
    return [f"{operators} of constants and shapes alone: computed before the first run, and counted as nothing"]
