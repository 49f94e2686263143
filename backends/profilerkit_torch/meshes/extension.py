"""The record of a step in which blocks were left out, extended to what all blocks do.

Of the equal blocks that ran, those between the two edges must have done the same: the same operators and collectives,
which changed the same of the bytes alive. Then each block that was left out does that as well: nothing is estimated.
What ``fully_shard`` gathers while a block runs is of the next ones, so that layers are compared, and copied, by how far
they are from the block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from profilerkit.trace.records import LayerCall, OpRecord

from .equal_blocks import EDGE, EqualBlocks
from .faults import note_growth
from .recorder import Change, Exchange, RankRecorder
from .skipped_blocks import DifferentBlocksError, Mark, SkippedBlocks

__all__ = ["extend_step"]


class _Event(NamedTuple):
    """An operator of a step, what it changes of the bytes alive, and the collective that it is, if it is one."""

    operator: OpRecord
    change: Change
    exchange: Exchange | None

    def name_layers(self, name: Callable[[str], str]) -> _Event:
        """Return the event with other names for its layers."""
        sizes = {purpose._replace(layer=name(purpose.layer)): size for purpose, size in self.change.sizes.items()}
        exchange = self.exchange and self.exchange._replace(layer=name(self.exchange.layer), source=None)
        operator = replace(self.operator, layer=name(self.operator.layer))
        return _Event(operator, self.change._replace(sizes=sizes), exchange)


class _Address(NamedTuple):
    """A layer, seen from a block: how many blocks later it is, and its path in that; None if it is in no such block."""

    distance: int | None
    inner: str


def extend_step(recorder: RankRecorder, skipped: SkippedBlocks) -> list[str]:
    """Extend what a recorder has to all blocks, and return notes of what each keeps alive after its forward pass.

    The weights of blocks that were left out get gradients like those of one that ran. Raises
    `DifferentBlocksError` where the blocks that ran did not do the same.
    """
    ways = sorted((_Way(*way) for way in skipped.ways), key=lambda way: way.begin)
    if not ways:
        return []
    events = [
        _Event(operator, recorder.changes[index], recorder.exchanged.get(index))
        for index, operator in enumerate(recorder.operators)
    ]
    extended: list[_Event] = []
    notes: dict[str, None] = {}
    done = 0
    for way in ways:
        if way.begin < done:
            raise DifferentBlocksError("equal blocks run within others")
        way.require_equal(events)
        extended.extend(events[done : way.begin])
        for index in way.indices:
            extended.extend(way.copy_for(index, events))
        _count_missed(recorder, way)
        if way.is_forward:
            notes[note_growth(*way.ends, way.find_growth(events))] = None
        done = way.end
    extended.extend(events[done:])
    _rewrite(recorder, extended)
    for blocks in skipped.equal:
        _copy_calls(recorder.layers.calls, blocks)
        _copy_gradients(recorder, blocks)
    return list(notes)


def _rewrite(recorder: RankRecorder, events: Sequence[_Event]) -> None:
    """Have a recorder hold these events in place of those that it has recorded."""
    recorder.rewrite([event.operator for event in events], [event.change for event in events])
    recorder.exchange_anew({index: event.exchange for index, event in enumerate(events) if event.exchange})


class _Way:
    """One way through equal blocks, forward or back: where each that ran began, in the order of time."""

    def __init__(self, blocks: EqualBlocks, marks: Sequence[Mark]) -> None:
        indices = [mark.block for mark in marks]
        if tuple(indices) not in (blocks.active, blocks.active[::-1]):
            raise DifferentBlocksError("blocks run in another order")
        self._blocks = blocks
        #: Where those between the edges begin, and where the edge does.
        self._marks = marks[EDGE : 1 - EDGE]
        self._addresses: dict[str, tuple[int | None, str]] = {}
        inner = range(EDGE, len(blocks.modules) - EDGE)
        self.is_forward: bool = indices[0] == 0
        self.indices: range = inner if self.is_forward else inner[::-1]

    @property
    def ends(self) -> tuple[str, str]:
        """The paths of the first and the last block."""
        return self._blocks.paths[0], self._blocks.paths[-1]

    @property
    def begin(self) -> int:
        """The operator with which the first of these blocks begins."""
        return self._marks[0].operators

    @property
    def end(self) -> int:
        """The operator with which the edge begins."""
        return self._marks[-1].operators

    @property
    def more(self) -> int:
        """How many blocks were left out."""
        return len(self._blocks.left_out)

    @property
    def gaps(self) -> Iterator[Counter[str]]:
        """What could not be counted in a block."""
        return map(_subtract, self._marks[1].missed, self._marks[0].missed)

    def find_growth(self, events: Sequence[_Event]) -> Counter[str]:
        """Return the bytes that are alive after a block and were not before, by what they are for."""
        growth: Counter[str] = Counter()
        for event in events[self._marks[0].operators : self._marks[1].operators]:
            for purpose, size in event.change.sizes.items():
                growth[purpose.part] += size
        return growth

    def require_equal(self, events: Sequence[_Event]) -> None:
        """Raise `DifferentBlocksError` if the blocks that ran did not do the same."""
        pairs = list(pairwise(self._marks))
        lengths = {later.operators - mark.operators for mark, later in pairs}
        if len(lengths) > 1:
            raise DifferentBlocksError("blocks have different numbers of operators")
        for number in range(lengths.pop()):
            seen = [self._relate(events[mark.operators + number], mark) for mark, _ in pairs]
            if any(other != seen[0] for other in seen):
                raise DifferentBlocksError("blocks do different things")

    def _relate(self, event: _Event, mark: Mark) -> _Event:
        """Return an event as it is seen from the block in which it is."""

        def name(path: str) -> str:
            address = self._find_address(path, mark.block)
            return path if address.distance is None else f"{address.distance:+}{address.inner}"

        return event.name_layers(name)

    def copy_for(self, index: int, events: Sequence[_Event]) -> Iterator[_Event]:
        """Yield what the first of these blocks does, as it is for the block of a place."""
        first, second = self._marks[:2]

        def name(path: str) -> str:
            address = self._find_address(path, first.block)
            return path if address.distance is None else self._blocks.paths[index + address.distance] + address.inner

        for event in events[first.operators : second.operators]:
            yield event.name_layers(name)

    def _find_address(self, path: str, index: int) -> _Address:
        """Return where a layer is, seen from the block of a place: neighbours are blocks that ran."""
        at = self._addresses.get(path)
        if at is None:
            at = self._addresses[path] = self._find_block(path)
        number, inner = at
        return _Address(None if number is None else number - self._blocks.active.index(index), inner)

    def _find_block(self, path: str) -> tuple[int | None, str]:
        """Return in which of the blocks that ran a layer is, and its path there."""
        for number, index in enumerate(self._blocks.active):
            outer = self._blocks.paths[index]
            if f"{path}.".startswith(f"{outer}."):
                return number, path[len(outer) :]
        return None, path


def _subtract(first: Mapping[str, int], second: Mapping[str, int]) -> Counter[str]:
    """Return by how much each number of the first mapping is larger than that of the second."""
    return Counter({name: number - second.get(name, 0) for name, number in first.items()})


def _count_missed(recorder: RankRecorder, way: _Way) -> None:
    """Count what could not be counted in the blocks that were left out."""
    for counter, missed in zip((recorder.uncounted, recorder.unsized, recorder.unknown), way.gaps, strict=True):
        for name, calls in missed.items():
            counter[name] += calls * way.more


def _copy_calls(calls: dict[str, list[LayerCall]], blocks: EqualBlocks) -> None:
    """Record calls of the layers in blocks that were left out, as of those in a block that ran."""
    pattern = blocks.paths[EDGE]
    inside = [path for path in calls if f"{path}.".startswith(f"{pattern}.")]
    for index in blocks.left_out:
        for path in inside:
            calls[blocks.paths[index] + path[len(pattern) :]] = [
                _move_caller(call, pattern, blocks.paths[index]) for call in calls[path]
            ]


def _move_caller(call: LayerCall, before: str, after: str) -> LayerCall:
    """Return a call whose caller is the layer at the same place in another block."""
    if call.caller is None or not f"{call.caller[0]}.".startswith(f"{before}."):
        return call
    path, number = call.caller
    return replace(call, caller=(after + path[len(before) :], number))


def _copy_gradients(recorder: RankRecorder, blocks: EqualBlocks) -> None:
    """Give weights of blocks that were left out the gradients of a block that ran: they count as many bytes."""
    pattern = list(blocks.modules[EDGE].parameters())
    for index in blocks.left_out:
        for like, parameter in zip(pattern, blocks.modules[index].parameters(), strict=True):
            parameter.grad = like.grad
            if id(like) in recorder.trained:
                recorder.trained.add(id(parameter))
