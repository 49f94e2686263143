"""The record of a step in which blocks were left out, extended to what all blocks do.

Of the equal blocks that ran, those between the two edges must have done the same: the same operators and collectives,
which changed the same of the bytes alive. Then each block that was left out does that as well: nothing is estimated.
What ``fully_shard`` gathers while a block runs is of the next ones, so that layers are compared, and copied, by how far
they are from the block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from profilerkit.trace.layer_paths import walk_outwards
from profilerkit.trace.records import LayerCall, OpRecord

from .block_calls import DifferentBlocksError
from .equal_blocks import EDGE, EqualBlocks
from .faults import note_growth
from .recorder import Change, Exchange, Gaps, RankRecorder
from .skipped_blocks import Mark, Passage, SkippedBlocks

__all__ = ["extend_step"]


def extend_step(recorder: RankRecorder, skipped: SkippedBlocks) -> list[str]:
    """Extend what a recorder has to all blocks, and return notes of what each keeps alive after its forward pass.

    The weights of blocks that were left out get gradients like those of one that ran. Raises
    `DifferentBlocksError` where the blocks that ran did not do the same.
    """
    inner = sorted((_InnerBlocks(passage) for passage in skipped.passages), key=lambda inner: inner.begin)
    if not inner:
        return []
    if any(later.begin < earlier.end for earlier, later in pairwise(inner)):
        raise DifferentBlocksError("equal blocks run within others")
    events = _list_events(recorder)
    for blocks in inner:
        blocks.require_equal(events)
    _rewrite(recorder, list(_extend(events, inner)))
    for blocks in inner:
        blocks.count_gaps(recorder.gaps)
    for equal in skipped.equal:
        _copy_calls(recorder.layers.calls, equal)
        _copy_gradients(recorder, equal)
    return list(dict.fromkeys(blocks.describe_growth(events) for blocks in inner if blocks.is_forward))


# What happens in a step ----------------------------------------------------------------------------------------------


class _Event(NamedTuple):
    """An operator of a step, what it changes of the bytes alive, and the collective that it is, if it is one."""

    operator: OpRecord
    change: Change
    exchange: Exchange | None

    def rename_layers(self, name_layer: Callable[[str], str]) -> _Event:
        """Return the event with other paths for its layers."""
        sizes = {purpose._replace(layer=name_layer(purpose.layer)): size for purpose, size in self.change.sizes.items()}
        exchange = self.exchange and self.exchange._replace(layer=name_layer(self.exchange.layer), source=None)
        operator = replace(self.operator, layer=name_layer(self.operator.layer))
        return _Event(operator, self.change._replace(sizes=sizes), exchange)


def _list_events(recorder: RankRecorder) -> list[_Event]:
    return [
        _Event(operator, recorder.changes[index], recorder.exchanged.get(index))
        for index, operator in enumerate(recorder.operators)
    ]


def _extend(events: Sequence[_Event], inner: Sequence[_InnerBlocks]) -> Iterator[_Event]:
    """Yield the events of a step in which all blocks run, in the order of time."""
    done = 0
    for blocks in inner:
        yield from events[done : blocks.begin]
        for index in blocks.indices:
            yield from blocks.copy_for(index, events)
        done = blocks.end
    yield from events[done:]


def _rewrite(recorder: RankRecorder, events: Sequence[_Event]) -> None:
    """Have a recorder hold these events in place of those that it has recorded."""
    recorder.rewrite([event.operator for event in events], [event.change for event in events])
    recorder.exchanged = {index: event.exchange for index, event in enumerate(events) if event.exchange}


# The blocks between the edges -----------------------------------------------------------------------------------------


class _Location(NamedTuple):
    """Where a layer is in the blocks that ran.

    Attributes:
        number: The number of its block among those that ran.
        inner: What its path has behind that of the block.
    """

    number: int
    inner: str


class _InnerBlocks:
    """The blocks between the two edges, in one passage through equal blocks: those that ran, and those left out."""

    def __init__(self, passage: Passage) -> None:
        self._blocks = passage.blocks
        order = tuple(mark.block for mark in passage.marks)
        self.is_forward: bool = order == self._blocks.active
        if not self.is_forward and order != self._blocks.active[::-1]:
            raise DifferentBlocksError("blocks run in another order")
        indices = range(EDGE, len(self._blocks.modules) - EDGE)
        #: All of these blocks, in the order of time.
        self.indices: range = indices if self.is_forward else indices[::-1]
        #: Where those that ran begin, and where the edge behind them does.
        self._marks = passage.marks[EDGE : 1 - EDGE]
        self._numbers = {self._blocks.paths[index]: number for number, index in enumerate(self._blocks.active)}

    @property
    def begin(self) -> int:
        """The operator with which the first of these blocks begins."""
        return self._marks[0].operators

    @property
    def end(self) -> int:
        """The operator with which the edge behind them begins."""
        return self._marks[-1].operators

    def require_equal(self, events: Sequence[_Event]) -> None:
        """Raise `DifferentBlocksError` if the blocks that ran did not do the same."""
        ran = []
        for mark, following in pairwise(self._marks):
            name_layer = self._rename_from(mark, "{:+}".format)  # such as "+0.attention" in "blocks.5.attention"
            ran.append([event.rename_layers(name_layer) for event in events[mark.operators : following.operators]])
        first = ran[0]
        if any(len(other) != len(first) for other in ran):
            raise DifferentBlocksError("blocks have different numbers of operators")
        if any(other != first for other in ran):
            raise DifferentBlocksError("blocks do different things")

    def copy_for(self, index: int, events: Sequence[_Event]) -> Iterator[_Event]:
        """Yield what the first of these blocks does, as it is for the block of a place."""
        name_layer = self._rename_from(self._marks[0], lambda distance: self._blocks.paths[index + distance])
        for event in self._list_first(events):
            yield event.rename_layers(name_layer)

    def count_gaps(self, gaps: Gaps) -> None:
        """Add to what could not be counted that of the blocks that were left out, as in the first that ran."""
        first, second = self._marks[:2]
        for total, before, after in zip(gaps, first.gaps, second.gaps, strict=True):
            for name, calls in after.items():
                total[name] += (calls - before[name]) * len(self._blocks.left_out)

    def describe_growth(self, events: Sequence[_Event]) -> str:
        """Return a note of the bytes that are alive after each block and were not before, by what they are for."""
        growth: Counter[str] = Counter()
        for event in self._list_first(events):
            for purpose, size in event.change.sizes.items():
                growth[purpose.part] += size
        return note_growth(self._blocks.paths[0], self._blocks.paths[-1], growth)

    def _list_first(self, events: Sequence[_Event]) -> Sequence[_Event]:
        """Return the events of the first of these blocks."""
        first, second = self._marks[:2]
        return events[first.operators : second.operators]

    def _rename_from(self, mark: Mark, name: Callable[[int], str]) -> Callable[[str], str]:
        """Return what gives layers in blocks that ran other paths.

        ``name`` returns the path of a block by its distance: how many blocks that ran it is behind that of the mark.
        """
        origin = self._blocks.active.index(mark.block)

        def name_layer(path: str) -> str:
            location = self._find_location(path)
            return path if location is None else name(location.number - origin) + location.inner

        return cache(name_layer)

    def _find_location(self, path: str) -> _Location | None:
        """Return where in the blocks that ran a layer is; None for one in no such block."""
        outer = next((outer for outer in walk_outwards(path) if outer in self._numbers), None)
        return None if outer is None else _Location(self._numbers[outer], path[len(outer) :])


# What else is known of the blocks that ran ----------------------------------------------------------------------------


def _copy_calls(calls: dict[str, list[LayerCall]], blocks: EqualBlocks) -> None:
    """Record calls of the layers in blocks that were left out, as of those in a block that ran."""
    block = blocks.paths[EDGE]
    inside = [path for path in calls if block in walk_outwards(path)]
    for index in blocks.left_out:
        for path in inside:
            moved = [_move_caller(call, block, blocks.paths[index]) for call in calls[path]]
            calls[blocks.paths[index] + path[len(block) :]] = moved


def _move_caller(call: LayerCall, block: str, other: str) -> LayerCall:
    """Return a call whose caller, if that is in a block, is the layer at the same place in another block."""
    if call.caller is None:
        return call
    path, number = call.caller
    return replace(call, caller=(other + path[len(block) :], number)) if block in walk_outwards(path) else call


def _copy_gradients(recorder: RankRecorder, blocks: EqualBlocks) -> None:
    """Give weights of blocks that were left out the gradients of a block that ran: they count as many bytes."""
    trained = list(blocks.modules[EDGE].parameters())
    for index in blocks.left_out:
        for like, parameter in zip(trained, blocks.modules[index].parameters(), strict=True):
            parameter.grad = like.grad
            if id(like) in recorder.trained:
                recorder.trained.add(id(parameter))
