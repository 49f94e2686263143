"""The trace of a graph, made of what ran: operators, calls of layers, and bytes alive.

A backend hands over the `graph_work.Work` that it has noted; one with a form of its own for operators makes its trace
itself, and uses the parts of this one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from ..count_text import format_count
from ..trace.dtypes import product_dtype
from ..trace.records import MemoryTimeline, ModelTrace, OpRecord
from .graph_work import HANDING_ON, Countable, Executed, GraphValue, Work
from .live_bytes import Step, live_bytes
from .named_layers import Scopes
from .program_parts import list_all, measure_memory
from .scoped_calls import LayerWeights, Scope, layer_calls, layer_records

__all__ = [
    "FOLLOWED",
    "count_weight_bytes",
    "describe_constants",
    "list_reads",
    "list_reads_by_number",
    "make_record",
    "measure_live_bytes",
    "trace_work",
]


class _Ran(Protocol):
    """An operator that ran: what it reads, and what it makes."""

    @property
    def inputs(self) -> Sequence[GraphValue]: ...

    @property
    def outputs(self) -> Sequence[GraphValue]: ...


class _Counted(_Ran, Countable, Protocol):
    """The same with its name and its work."""

    operator: str


Ran = TypeVar("Ran", bound=_Ran)


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
    reads = list_reads(executed, inputs)
    timeline = partial(
        measure_live_bytes, inputs=inputs, outputs=outputs, find_sources=partial(_find_viewed, views=views)
    )
    input_bytes = sum(value.bytes for value in inputs)
    memory = measure_memory(work.parts, timeline, input_bytes)
    return ModelTrace(
        layers=layer_records(scopes.types, weights, calls, settings),
        operators=tuple(
            make_record(
                op,
                chain[-1],
                op_reads,
                node=names[op.node] if names else None,
                is_masked=op.is_masked,
                multiplied=op.product_dtype,
            )
            for op, chain, op_reads in zip(executed, chains, reads, strict=True)
        ),
        memory=MemoryTimeline(
            weight_bytes=count_weight_bytes(weights),
            input_bytes=input_bytes,
            live_bytes=memory.live_bytes,
            note="along the order of the graph; a runtime may order and reuse otherwise",
            unsized=_count_unsized(list_all(work.parts), inputs),
        ),
        uncounted=work.count_missing(),
        method=method,
        notes=tuple(notes),
        choices=tuple(work.choices),
        peak_spread=memory.peak_spread,
    )


def _count_unsized(operators: Iterable[Executed], inputs: Iterable[GraphValue]) -> Counter[str]:
    """Return what makes values of unknown size, with its calls.

    A value that is handed on is not named again.
    """
    unsized = Counter("an input" for value in inputs if value.shape is None)
    for op in operators:
        if op.operator != HANDING_ON and any(value.shape is None for value in op.outputs):
            unsized[op.operator] += max(op.times, 1)
    return unsized


def _find_viewed(op: Executed, views: Container[str]) -> dict[int, int]:
    """Return the value whose buffer an operator's output shares, by the output's number; nothing if it has its own.

    What is handed on stays in its buffer, also in place of a value of another size. Another operator whose output has
    another size has copied, or converted. What is computed is no view either, as by a dropout that trains.
    """
    if not op.inputs or not op.outputs:
        return {}
    source, output = op.inputs[0], op.outputs[0]
    is_view = op.operator in views and not op.flops and source.bytes == output.bytes
    return {output.number: source.number} if is_view or op.operator == HANDING_ON else {}


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


def measure_live_bytes(
    executed: Sequence[Ran],
    spans: Sequence[tuple[int, int]],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
    find_sources: Callable[[Ran], Mapping[int, int]],
) -> tuple[int, ...]:
    """Return the bytes alive after each operator: inputs and activations. Constants are weights, counted elsewhere.

    Args:
        executed: The operators in the order of running.
        spans: The ranges of operators that run more than once, as `live_bytes` takes them.
        inputs: The values that the call gives.
        outputs: The values that the model returns.
        find_sources: Returns the values whose buffers the outputs of an operator share, by the outputs' numbers.
    """
    input_sizes = {value.number: value.bytes for value in inputs}
    activations = set(input_sizes)  # the numbers of the values whose bytes count
    steps = []
    for op in executed:
        reads = tuple(value.number for value in op.inputs if value.number in activations)
        made = [value for value in op.outputs if not value.constant and value.number not in activations]
        sources = find_sources(op)
        shared = {value.number: sources[value.number] for value in made if sources.get(value.number) in activations}
        steps.append(Step(reads, tuple((value.number, value.bytes) for value in made), shared))
        activations.update(value.number for value in made)
    kept = [value.number for value in outputs if value.number in activations]
    return live_bytes(steps, input_sizes, kept, spans)


def list_reads(executed: Iterable[_Ran], inputs: Iterable[GraphValue]) -> list[tuple[int, ...]]:
    """Return for each operator those whose results it reads, as `OpRecord.reads` has them."""
    steps = (([value.number for value in op.inputs], [value.number for value in op.outputs]) for op in executed)
    return list_reads_by_number(steps, [value.number for value in inputs])


def list_reads_by_number(
    steps: Iterable[tuple[Iterable[int], Iterable[int]]],
    inputs: Iterable[int],
    hidden: Container[int] = (),
) -> list[tuple[int, ...]]:
    """Return for each operator that reports show the operators whose results it reads, as `OpRecord.reads` has them.

    Args:
        steps: The numbers of the values that each operator reads, and of those that it makes, in the order of running.
        inputs: The numbers of the values that the call gives.
        hidden: The places of operators that reports do not show: what they hand on is of those before them.
    """
    makers: dict[int, tuple[int, ...]] = dict.fromkeys(inputs, (-1,))
    reads: list[tuple[int, ...]] = []
    for index, (taken, made) in enumerate(steps):
        sources = tuple(sorted({maker for number in taken for maker in makers.get(number, ())}))
        if index in hidden:
            makers.update(dict.fromkeys(made, sources))
        else:
            makers.update(dict.fromkeys(made, (len(reads),)))
            reads.append(sources)
    return reads


def make_record(
    op: _Counted,
    scope: Scope,
    reads: tuple[int, ...],
    *,
    node: tuple[str, str] | None = None,
    phase: str = "forward",
    is_masked: bool = False,
    multiplied: str | None = None,
) -> OpRecord:
    """Return what reports say of one operator, in a call of a layer; the other arguments are fields of `OpRecord`.

    ``multiplied`` is the dtype that a product multiplies where its inputs and outputs do not tell.
    """
    infos = tuple(value.info for value in op.outputs)
    if op.macs and multiplied is None:
        multiplied = product_dtype([value.info.dtype for value in op.inputs], infos[0].dtype)
    return OpRecord(
        operator=op.operator,
        layer=scope.path,
        call=scope.call,
        macs=op.macs,
        flops=op.flops,
        bytes_read=sum(value.bytes for value in op.inputs) * op.times,
        bytes_written=sum(value.bytes for value in op.outputs) * op.times,
        outputs=infos,
        phase=phase,
        is_masked=is_masked,
        product_dtype=multiplied,
        node=node,
        reads=reads,
        missing=op.missing,
    )
