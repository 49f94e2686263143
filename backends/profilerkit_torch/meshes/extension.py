"""The record of a step in which blocks were left out, extended to what all blocks do.

Of the equal blocks that ran, those between the two edges must have done the same: the same operators and collectives,
which changed the same of the bytes alive. Then each block that was left out does that as well: nothing is estimated.
What ``fully_shard`` gathers while a block runs is of the next ones, so that layers are compared, and copied, by how far
they are from the block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from profilerkit.trace.records import LayerCall, OpRecord

from .equal_blocks import EDGE, EqualBlocks
from .faults import note_growth
from .recorder import Change, Exchange, Gaps, RankRecorder
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


class _Location(NamedTuple):
    """Where a layer is in the blocks that ran.

    Attributes:
        number: The number of its block among those that ran.
        inner: Its path in the block.
    """

    number: int
    inner: str


def extend_step(recorder: RankRecorder, skipped: SkippedBlocks) -> list[str]:
    """Extend what a recorder has to all blocks, and return notes of what each keeps alive after its forward pass.

    The weights of blocks that were left out get gradients like those of one that ran. Raises
    `DifferentBlocksError` where the blocks that ran did not do the same.
    """
    ways = sorted((_Way(blocks, marks) for blocks, marks in skipped.ways), key=lambda way: way.begin)
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
        way.count_gaps(recorder.gaps)
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
    recorder.exchanged = {index: event.exchange for index, event in enumerate(events) if event.exchange}


class _Way:
    """One way through equal blocks, forward or back: where each that ran began, in the order of time."""

    def __init__(self, blocks: EqualBlocks, marks: Sequence[Mark]) -> None:
        indices = [mark.block for mark in marks]
        if tuple(indices) not in (blocks.active, blocks.active[::-1]):
            raise DifferentBlocksError("blocks run in another order")
        self._blocks = blocks
        #: Where those between the edges begin, and where the edge does.
        self._marks = marks[EDGE : 1 - EDGE]
        #: The location of each layer that was looked for, by its path.
        self._locations: dict[str, _Location | None] = {}
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

    def count_gaps(self, gaps: Gaps) -> None:
        """Add to what could not be counted that of the blocks that were left out, as in the first that ran."""
        first, second = self._marks[:2]
        for total, before, after in zip(gaps, first.gaps, second.gaps, strict=True):
            for name, calls in after.items():
                total[name] += (calls - before[name]) * len(self._blocks.left_out)

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
            location = self._find_location(path)
            return path if location is None else f"{self._count_blocks_to(location, mark):+}{location.inner}"

        return event.name_layers(name)

    def copy_for(self, index: int, events: Sequence[_Event]) -> Iterator[_Event]:
        """Yield what the first of these blocks does, as it is for the block of a place."""
        first, second = self._marks[:2]

        def name(path: str) -> str:
            location = self._find_location(path)
            if location is None:
                return path
            return self._blocks.paths[index + self._count_blocks_to(location, first)] + location.inner

        for event in events[first.operators : second.operators]:
            yield event.name_layers(name)

    def _count_blocks_to(self, location: _Location, mark: Mark) -> int:
        """Return by how many blocks that ran a location is behind the block of a mark; negative if it is before."""
        return location.number - self._blocks.active.index(mark.block)

    def _find_location(self, path: str) -> _Location | None:
        """Return where in the blocks that ran a layer is; None for one in no such block."""
        if path not in self._locations:
            self._locations[path] = self._look_for_location(path)
        return self._locations[path]

    def _look_for_location(self, path: str) -> _Location | None:
        for number, index in enumerate(self._blocks.active):
            outer = self._blocks.paths[index]
            if f"{path}.".startswith(f"{outer}."):
                return _Location(number, path[len(outer) :])
        return None


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
