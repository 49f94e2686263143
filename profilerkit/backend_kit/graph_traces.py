"""The trace of a graph, made of the operators that ran: calls of layers, and bytes alive.

A backend passes the `graph_work.Work` of its walk. A backend with its own form of operators makes its trace itself,
with the functions of `graph_memory` and `graph_records`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..count_text import format_count
from ..trace.records import MemoryTimeline, ModelTrace
from .graph_memory import count_unsized, find_viewed, measure_live_bytes
from .graph_records import list_reads, make_record
from .graph_work import GraphValue, Work
from .named_layers import Scopes
from .scoped_calls import PlacedWeight, count_weight_bytes, layer_calls, layer_records

__all__ = ["FOLLOWED", "NO_BACKWARD_PASS", "GraphFormat", "WalkedGraph", "describe_constants", "trace_work"]

#: The note of a trace in which values of inputs decided.
FOLLOWED = (
    "branches and loops follow the values of the inputs that were given: others may take other branches and more turns"
)
#: The note of a training step without gradients.
NO_BACKWARD_PASS = "no output depends on a trainable weight, so that there is no backward pass"


class WalkedGraph(NamedTuple):
    """A graph that was walked for one call.

    Attributes:
        work: The operators that run.
        inputs: The values that the call gives.
        outputs: The values that the model returns.
    """

    work: Work
    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]


class GraphFormat(NamedTuple):
    """The facts that are the same in all traces of a format.

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
        walked: The graph that was walked for the call.
        scopes: The layers of the model's own graph.
        weights: The parameters and buffers of the layers.
        form: The format of the model.
        notes: As in `ModelTrace`.
        names: The name of each node of the model's own graph in the file, in the form of `OpRecord`.
        settings: The known arguments with which layers were created, by their paths.
    """
    work, inputs, outputs = walked
    executed = work.operators
    chains = [scopes.chains[op.node] for op in executed]
    calls = layer_calls(executed, chains, inputs, outputs, scopes.chains)
    layers = layer_records(scopes.types, weights, calls, settings)
    records = [
        make_record(
            op,
            chain[-1],
            reads,
            node=names[op.node] if names else None,
            is_masked=op.is_masked,
            multiplied=op.product_dtype,
            is_view=bool(find_viewed(op, form.views)),
        )
        for op, chain, reads in zip(executed, chains, list_reads(executed, inputs), strict=True)
    ]
    find_sources = partial(find_viewed, views=form.views)
    memory = MemoryTimeline(
        weight_bytes=count_weight_bytes(layers),
        input_bytes=sum(value.bytes for value in inputs),
        live_bytes=measure_live_bytes(work, inputs, outputs, find_sources),
        note="along the order of the graph; a runtime may order and reuse otherwise",
        unsized=count_unsized(executed, inputs),
    )
    return ModelTrace(
        layers=layers,
        operators=tuple(records),
        memory=memory,
        uncounted=work.count_missing(),
        method=form.method,
        notes=tuple(notes),
        choices=tuple(work.choices),
        peak_spread=work.peak_spread,
    )


def describe_constants(number: int) -> list[str]:
    """Return the note on operators that are not counted because they depend only on constants and shapes."""
    if not number:
        return []
    operators = format_count(number, "operator")
    return [f"{operators} of constants and shapes alone: computed before the first run, and counted as nothing"]
