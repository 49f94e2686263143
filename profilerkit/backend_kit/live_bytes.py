"""The bytes alive while each step of a program runs, by the lifetimes of its values.

A step stands for one call of one operator. A value stands for a tensor; it is a number that its maker gives out.
Values that share bytes (views) live as long as the last of them is needed. No framework is imported here: a backend
says what its operators make, share and reuse, and this module adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Step", "live_bytes"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of one operator.

    ``makes`` has (value, bytes) for each value it makes. ``aliases`` maps a value it makes to the value whose buffer
    it shares; such a value takes no bytes of its own. ``reuses`` are values among ``reads`` whose buffer an output of
    equal size may take over where nobody needs it later. ``scratch`` are bytes needed only while the step runs.
    """

    reads: tuple[int, ...] = ()
    makes: tuple[tuple[int, int], ...] = ()
    aliases: Mapping[int, int] = field(default_factory=dict)
    reuses: tuple[int, ...] = ()
    scratch: int = 0


def live_bytes(
    steps: Sequence[Step],
    given: Mapping[int, int],
    kept: Iterable[int] = (),
    spans: Iterable[tuple[int, int]] = (),
) -> tuple[int, ...]:
    """Return the bytes alive while each step runs: what it reads, what it makes and what others need later.

    ``given`` has the bytes of the values that the caller holds from start to end, inputs for instance; 0 for weights
    that are counted elsewhere. ``kept`` are results, alive from their making to the end. ``spans`` are the ranges of
    steps, [start, end), that run more than once, nested or apart: what is made before one and read inside lives to
    its end. The time taken grows with the number of steps alone.

    Raises:
        ValueError: a step reads, shares or reuses a value that is not given and that no step before it makes, or a
            span leaves the steps or the span around it.
    """
    buffers = _Buffers(steps, given, frozenset(kept), _OutermostSpans(spans, len(steps)))
    alive, totals = sum(given.values()), []
    ending: list[dict[int, None]] = [{} for _ in steps]
    for index, step in enumerate(steps):
        free = buffers.free_at(index, step.reuses) if step.reuses else {}
        for value, size in step.makes:
            if value in step.aliases:
                continue
            reused = free.pop(size, None)
            if reused in ending[index]:
                del ending[index][reused]
                buffers.size[value] = buffers.size[reused]
            else:
                alive += size
            if buffers.last[value] < len(steps):
                ending[buffers.last[value]][value] = None
        totals.append(alive + step.scratch)
        alive -= sum(buffers.size[buffer] for buffer in ending[index])
    return tuple(totals)


class _Buffers:
    """The buffer each value lies in, named after the first value in it; its bytes and the step that needs it last."""

    def __init__(
        self, steps: Sequence[Step], given: Mapping[int, int], kept: frozenset[int], spans: _OutermostSpans
    ) -> None:
        self.of: dict[int, int] = {value: value for value in given}
        self.size: dict[int, int] = dict(given)
        self.last: dict[int, int] = dict.fromkeys(given, len(steps))
        #: Bytes of each value: fewer than its buffer's for a slice.
        self._extent: dict[int, int] = dict(given)
        born: dict[int, int] = dict.fromkeys(given, -1)
        for index, step in enumerate(steps):
            for value in step.reads:
                buffer = self._buffer(value, index)
                self.last[buffer] = max(self.last[buffer], spans.end_of_need(born[buffer], index))
            for value, source in step.aliases.items():
                buffer = self.of[value] = self._buffer(source, index)
                self._extent[value] = self.size[buffer]
                self.last[buffer] = max(self.last[buffer], len(steps) if value in kept else index)
            for value, size in step.makes:
                self._extent[value] = size
                if value not in step.aliases:
                    self.of[value], self.size[value], born[value] = value, size, index
                    self.last[value] = len(steps) if value in kept else index

    def free_at(self, index: int, values: Iterable[int]) -> dict[int, int]:
        """Return, by the bytes of the value in it, each buffer that nobody needs after a step."""
        return {
            self._extent[value]: self._buffer(value, index)
            for value in values
            if self.last[self._buffer(value, index)] == index
        }

    def _buffer(self, value: int, index: int) -> int:
        buffer = self.of.get(value)
        if buffer is None:
            raise ValueError(
                f"step {index} needs value {value}, which is not given and which no step before it makes; "
                "give it, or put its step first"
            )
        return buffer


class _OutermostSpans:
    """The spans around each step, from which follows how long a value is needed that is read inside one."""

    def __init__(self, spans: Iterable[tuple[int, int]], steps: int) -> None:
        self.innermost: list[_Span | None] = [None] * steps
        self.any = False
        for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
            if start == end:
                continue
            around = self.innermost[start] if 0 <= start < end <= steps else None
            limit = steps if around is None else around.end
            if not 0 <= start < end <= limit:
                raise ValueError(
                    f"span [{start}, {end}) of {steps} steps leaves its surroundings; "
                    "spans lie within the steps, one inside another or apart"
                )
            self.any = True
            self.innermost[start:end] = [_Span(start, end, around)] * (end - start)

    def end_of_need(self, born: int, index: int) -> int:
        """Return the last step that needs what step ``born`` made and step ``index`` reads."""
        span = self.innermost[index] if self.any else None
        while span is not None and span.start > born:
            index, span = span.end - 1, span.around
        return index


@dataclass(frozen=True, slots=True)
class _Span:
    """Steps that run more than once, and the span around them."""

    start: int
    end: int
    around: _Span | None
