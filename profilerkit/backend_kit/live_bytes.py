"""The bytes alive while each step of a program runs, by the lifetimes of its values.

A step is one call of one operator. A value is a number that stands for a tensor. Values that share bytes (views) live
until the last of them is no longer needed. No framework is imported here: a backend describes what its operators
create, share and reuse, and this module adds up the bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Step", "live_bytes"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of one operator.

    ``makes`` has (value, bytes) for each value that the step creates. ``aliases`` maps some of them to the value whose
    buffer they share; such a value needs no bytes of its own. ``reuses`` are the values among ``reads`` whose buffer an
    output of equal size may overwrite if no later step needs it. ``scratch`` are bytes that are needed only while the
    step runs.
    """

    reads: tuple[int, ...] = ()
    makes: tuple[tuple[int, int], ...] = ()
    aliases: Mapping[int, int] = field(default_factory=dict)
    reuses: tuple[int, ...] = ()
    scratch: int = 0


def live_bytes(
    steps: Sequence[Step],
    input_sizes: Mapping[int, int],
    kept: Iterable[int] = (),
    spans: Iterable[tuple[int, int]] = (),
) -> tuple[int, ...]:
    """Return the bytes alive while each step runs: what it reads, what it creates, and what later steps need.

    Args:
        steps: The steps in the order in which they run.
        input_sizes: The bytes of the values that the caller holds throughout, such as inputs; 0 for weights that are
            counted elsewhere.
        kept: The results: they live from their creation to the end.
        spans: The ranges of steps, [start, end), that run more than once; two spans are nested or disjoint. A value
            that is created before a span and needed inside it lives until the end of the span.

    The time is proportional to the number of steps.

    Raises:
        ValueError: A step reads, shares or reuses a value that is neither an input nor created by an earlier step, or a
            span is not within the steps or the span around it.
    """
    buffers = _find_buffers(steps, input_sizes, kept, _list_innermost(spans, len(steps)))
    sizes = {**input_sizes, **{value: size for step in steps for value, size in step.makes}}
    alive, totals = sum(input_sizes.values()), []
    freed = defaultdict[int, set[_Buffer]](set)  # by the index of a step, the buffers that are freed after it
    for index, step in enumerate(steps):
        for value, size in step.makes:
            if value in step.aliases:
                continue
            buffer = buffers[value]
            # A value of the output's size is overwritten; it may be a slice of a larger buffer, which stays whole.
            reusable = (buffers[source] for source in step.reuses if sizes[source] == size)
            overwritten = next((source for source in reusable if source in freed[index]), None)
            if overwritten is None:
                alive += size
            else:
                freed[index].remove(overwritten)  # no other output takes it
                buffer.size = overwritten.size
            freed[buffer.last].add(buffer)
        totals.append(alive + step.scratch)
        alive -= sum(buffer.size for buffer in freed[index])
    return tuple(totals)


@dataclass(eq=False, slots=True)
class _Buffer:
    """Bytes that one or several values share.

    Attributes:
        size: How many they are.
        created: The step that creates them; -1 for inputs.
        last: The last step that needs them; the number of all steps if they live to the end.
    """

    size: int
    created: int
    last: int


def _find_buffers(
    steps: Sequence[Step], input_sizes: Mapping[int, int], kept: Iterable[int], spans: Sequence[_Span | None]
) -> dict[int, _Buffer]:
    """Return the buffer of each value; ``spans`` are the innermost ones around the steps."""
    end = len(steps)
    buffers = {value: _Buffer(size, -1, end) for value, size in input_sizes.items()}
    for index, (step, span) in enumerate(zip(steps, spans, strict=True)):
        for value in (*step.reuses, *step.reads):
            _need_buffer(buffers, value, index, span)
        for value, source in step.aliases.items():
            buffers[value] = _need_buffer(buffers, source, index, span)
        for value, size in step.makes:
            if value not in step.aliases:
                buffers[value] = _Buffer(size, index, index)
    for value in buffers.keys() & set(kept):
        buffers[value].last = end
    return buffers


def _need_buffer(buffers: Mapping[int, _Buffer], value: int, index: int, span: _Span | None) -> _Buffer:
    """Return the buffer of a value that step ``index``, in a span, needs; it lives at least until then."""
    if value not in buffers:
        raise ValueError(
            f"step {index} needs value {value}, which is neither given nor made by an earlier step; "
            "add it to input_sizes, or put the step that makes it first"
        )
    buffer = buffers[value]
    buffer.last = max(buffer.last, _find_last_need(buffer.created, index, span))
    return buffer


@dataclass(frozen=True, slots=True)
class _Span:
    """Steps that run more than once, and the span around them."""

    start: int
    end: int
    around: _Span | None


def _list_innermost(spans: Iterable[tuple[int, int]], steps: int) -> list[_Span | None]:
    """Return the innermost span around each step; None for a step in no span."""
    innermost: list[_Span | None] = [None] * steps
    for start, end in sorted(set(spans), key=lambda span: (span[0], -span[1])):
        around = innermost[start] if 0 <= start < steps else None
        limit = steps if around is None else around.end
        if not 0 <= start <= end <= limit:
            raise ValueError(
                f"span [{start}, {end}) is not within its surroundings of {steps} steps; "
                "give spans within the steps, nested or disjoint"
            )
        innermost[start:end] = [_Span(start, end, around)] * (end - start)
    return innermost


def _find_last_need(created: int, index: int, span: _Span | None) -> int:
    """Return the last step that needs a value which step ``created`` makes and step ``index``, in a span, reads.

    A value from before the span is read in each run of it, so until its end; so it is in the spans around it.
    """
    while span is not None and span.start > created:
        index, span = span.end - 1, span.around
    return index
