"""What runs when a graph of operators runs, and the trace that follows from it.

A backend that goes over a graph in its order notes each operator as `Executed` in a `Work`, with the loops and
branches around it. `trace_work` makes the trace of it: operators, calls of layers, and bytes alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from ..trace.bounds import Branch, Choice, PeakSpread
from ..trace.records import LayerCall, MemoryTimeline, ModelTrace, OpRecord
from .branch_memory import Fork, Side, spread_of_forks
from .live_bytes import Step, live_bytes
from .product_dtypes import product_dtype
from .scoped_calls import LayerWeights, Scope, ScopedValue, layer_calls, layer_records

__all__ = [
    "Body",
    "Executed",
    "GraphValue",
    "RunningOrder",
    "Work",
    "bytes_along",
    "calls_of_layers",
    "count_first",
    "describe_constants",
    "list_reads",
    "note_apart",
    "trace_work",
]

#: The operator that returns the values of one body as those of another: they share their buffers.
_HANDING_ON = "Identity"


class GraphValue(ScopedValue, Protocol):
    """A value of a graph, with what is known of its size before the model runs."""

    @property
    def shape(self) -> Any:
        """Its shape; None where a size is not known."""

    @property
    def bytes(self) -> int:
        """The bytes that it takes; 0 where its shape is not known."""


V = TypeVar("V", bound=GraphValue)


@dataclass(eq=False)
class Executed:
    """One operator that a walk came by, in the order of execution.

    Attributes:
        operator: Its name: "Conv", "com.microsoft::Gelu".
        node: The index of the node of the model's own graph that it comes from.
        inputs: The values that it reads.
        outputs: The values that it makes.
        times: How many times it runs.
        macs: Multiply-accumulates of all its runs together.
        flops: Floating-point operations of all its runs together.
        missing: What is not counted of it, in words; empty where all is.
    """

    operator: str
    node: int
    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]
    times: int = 1
    macs: int = 0
    flops: int = 0
    missing: str = ""


class Countable(Protocol):
    """An operator with its work in all of its runs, and what is not counted of it, in words."""

    times: int
    macs: int
    flops: int
    missing: str


Op = TypeVar("Op", bound=Countable)
C = TypeVar("C")


@dataclass
class RunningOrder(Generic[Op, C]):
    """Operators in the order in which they run, and where among them are loops, and branches of which one runs.

    Attributes:
        executed: The operators, in order.
        spans: Where in ``executed`` loops begin and end.
        choices: Where the model does one of several things, and which one is not known.
        forks: The same, for the bytes alive.
        missed: What is not counted beside the operators, with its calls: what only branches have that are not counted
            themselves, and loops that run nobody knows how often.
    """

    executed: list[Op] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    choices: list[C] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Self) -> None:
        """Add what runs next."""
        start = len(self.executed)
        self.executed += other.executed
        self.spans += [(start + begin, start + end) for begin, end in other.spans]
        self.choices += other.choices
        self.forks += [fork.shift(start) for fork in other.forks]
        self.missed += other.missed

    def add_loop(self, body: Self) -> None:
        """Add what runs next, and may run more than once."""
        start = len(self.executed)
        self.add(body)
        self.spans.append((start, len(self.executed)))

    @property
    def price(self) -> tuple[int, int]:
        """The key by which branches are compared: FLOPs, then MACs."""
        return sum(op.flops for op in self.executed), sum(op.macs for op in self.executed)

    def count_missing(self) -> Counter[str]:
        """What is not counted, with its calls."""
        missing = self.missed.copy()
        for op in self.executed:
            if op.missing:
                missing[op.missing] += max(op.times, 1)
        return missing

    def as_side(self, *further: Op) -> Side:
        """Return it as one side of a fork; the operators ``further`` run after it."""
        return Side((*self.executed, *further), tuple(self.spans), tuple(self.forks))


@dataclass
class Work(RunningOrder[Executed, Choice]):
    """What runs when a graph runs, and what is known of it only while it runs."""

    def as_branch(self, path: str) -> Branch:
        """Return it as one side of a choice, all of it in the layer at this path."""
        return Branch.of(((path, op.macs, op.flops) for op in self.executed), self.choices)


@dataclass(frozen=True)
class Body(Generic[V]):
    """What a graph inside an operator does, and the values that it returns."""

    work: Work
    outputs: Sequence[V]


W = TypeVar("W", bound=RunningOrder[Any, Any])


class NotesWork(Protocol[W]):
    """A walk over a graph, which notes what runs."""

    work: W


@contextmanager
def note_apart(walk: NotesWork[W]) -> Iterator[W]:
    """Yield the work of what a walk goes over inside, which is not added to its work so far."""
    work_so_far, walk.work = walk.work, type(walk.work)()
    try:
        yield walk.work
    finally:
        walk.work = work_so_far


def count_first(first: Body[V], second: Body[V], node: int, path: str, reason: str) -> Work:
    """Return the work of an operator that runs one of two bodies: that of the first, and how the second one differs.

    Args:
        first: The body that is counted.
        second: The body that may run instead; it returns its values as those of the first.
        node: The index of the node of the model's own graph that the operator comes from.
        path: The path of the operator's layer.
        reason: Why it is not known which one runs, and which one is counted.
    """
    handing_on = [
        Executed(_HANDING_ON, node, (value,), (result,))
        for value, result in zip(second.outputs, first.outputs, strict=True)
        if value is not result
    ]
    branches = first.work.as_branch(path), second.work.as_branch(path)
    return replace(
        first.work,
        choices=first.work.choices if branches[0] == branches[1] else [Choice(branches, 0, reason)],
        forks=[Fork(0, first.work.as_side(), [second.work.as_side(*handing_on)], reason)],
        missed=first.work.missed + (second.work.count_missing() - first.work.count_missing()),
    )


def describe_constants(number: int) -> list[str]:
    """Return what is said of operators that are not counted, as they depend on constants and shapes alone."""
    before = "they are computed before the first run, and count as nothing"
    return [f"{number} operators depend on constants and shapes alone: {before}"] if number else []


class _Placed(NamedTuple):
    """An operator that runs, with the calls of layers that its node is in."""

    inputs: Sequence[GraphValue]
    outputs: Sequence[GraphValue]
    chain: Sequence[Scope]


def calls_of_layers(
    chains: Sequence[Sequence[Scope]],
    executed: Sequence[Executed],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
) -> dict[str, list[LayerCall]]:
    """Return the calls of each layer, in order, also those whose nodes are all constants.

    ``chains`` has the calls of layers that each node of the graph is in.
    """
    operators = [_Placed(op.inputs, op.outputs, chains[op.node]) for op in executed]
    return layer_calls(operators, inputs, outputs, chains)


def bytes_along(
    executed: Sequence[Executed],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
    views: Container[str],
    spans: Sequence[tuple[int, int]] = (),
) -> tuple[int, ...]:
    """Return the bytes alive after each operator: inputs and activations; constants are weights, counted elsewhere.

    ``views`` are the operators whose output is their first input in another shape: it shares its buffer.
    """
    input_sizes = {value.number: value.bytes for value in inputs}
    tracked = set(input_sizes)
    steps = []
    for op in executed:
        reads = tuple(value.number for value in op.inputs if value.number in tracked)
        made = [value for value in op.outputs if not value.constant and value.number not in tracked]
        aliases = {}
        if (op.operator in views or op.operator == _HANDING_ON) and reads and made:
            source = op.inputs[0].number
            if source in tracked and op.inputs[0].bytes == made[0].bytes:
                aliases = {made[0].number: source}
        steps.append(Step(reads, tuple((value.number, value.bytes) for value in made), aliases))
        tracked.update(value.number for value in made)
    kept = [value.number for value in outputs if value.number in tracked]
    return live_bytes(steps, input_sizes, kept, spans)


def trace_work(
    work: Work,
    chains: Sequence[Sequence[Scope]],
    types: Mapping[str, str],
    weights: Mapping[str, LayerWeights],
    inputs: Sequence[GraphValue],
    outputs: Sequence[GraphValue],
    views: Container[str],
    method: str,
    notes: tuple[str, ...] = (),
    names: Sequence[tuple[str, str] | None] = (),
) -> ModelTrace:
    """Return the trace of a call of a model.

    Args:
        work: What runs.
        chains: The calls of layers that each node of the model's own graph is in.
        types: The type of each layer by its path, the model itself first.
        weights: The parameters and buffers of each layer, by its path.
        inputs: What the call gives.
        outputs: What the model returns.
        views: As `bytes_along` takes them.
        method: As in `ModelTrace`.
        notes: As in `ModelTrace`.
        names: What each node of the model's own graph is called in the file, as `OpRecord` has it.
    """

    def timeline(executed: Sequence[Executed], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        return bytes_along(executed, inputs, outputs, views, spans)

    records = {record.identity: record.bytes for lists in weights.values() for one in lists for record in one}
    input_bytes = sum(value.bytes for value in inputs)
    memory = MemoryTimeline(
        sum(records.values()),
        input_bytes,
        timeline(work.executed, work.spans),
        "along the order of the graph; a runtime may order and reuse otherwise",
        Counter(op.operator for op in work.executed for value in op.outputs if value.shape is None),
    )
    spread: PeakSpread = spread_of_forks(work.executed, work.spans, work.forks, timeline, input_bytes)
    return ModelTrace(
        layer_records(types, weights, calls_of_layers(chains, work.executed, inputs, outputs)),
        tuple(
            _record(op, chains[op.node][-1], names[op.node] if names else None, read)
            for op, read in zip(work.executed, _list_reads(work.executed, inputs), strict=True)
        ),
        memory,
        work.count_missing(),
        method,
        notes,
        choices=tuple(work.choices),
        peak_spread=spread,
    )


def list_reads(
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


def _list_reads(executed: Sequence[Executed], inputs: Sequence[GraphValue]) -> list[tuple[int, ...]]:
    steps = (([value.number for value in op.inputs], [value.number for value in op.outputs]) for op in executed)
    return list_reads(steps, [value.number for value in inputs])


def _record(op: Executed, scope: Scope, name: tuple[str, str] | None, reads: tuple[int, ...]) -> OpRecord:
    """Return what reports say of one operator, in a call of a layer."""
    infos = tuple(value.info for value in op.outputs)
    return OpRecord(
        op.operator,
        scope.path,
        scope.call,
        op.macs,
        op.flops,
        sum(value.bytes for value in op.inputs) * op.times,
        sum(value.bytes for value in op.outputs) * op.times,
        infos,
        product_dtype=product_dtype([value.info.dtype for value in op.inputs], infos[0].dtype) if op.macs else None,
        node=name,
        reads=reads,
        missing=op.missing,
    )
