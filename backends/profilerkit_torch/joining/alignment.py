"""Names of operators in a profile and in a trace, aligned: equal names in the same order, the products first."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from difflib import SequenceMatcher

__all__ = ["align", "match"]


def align(profiled: Sequence[str], traced: Sequence[str], products: Container[str]) -> Iterator[tuple[int, int]]:
    """Yield the positions of equal names in the same order: the products are aligned first, then names between them.

    A version of torch that has one more operator beside every product would otherwise shift the products.

    >>> list(align(["relu", "mm", "add", "mm"], ["mm", "add", "relu", "mm"], {"mm"}))
    [(1, 0), (2, 1), (3, 3)]
    """
    positions = [index for index, name in enumerate(profiled) if name in products]
    traced_positions = [index for index, name in enumerate(traced) if name in products]
    matched = match([profiled[index] for index in positions], [traced[index] for index in traced_positions])
    begin = begin_traced = 0  # behind the product before
    for index, traced_index in matched:
        end, end_traced = positions[index], traced_positions[traced_index]
        for before, traced_before in match(profiled[begin:end], traced[begin_traced:end_traced]):
            yield begin + before, begin_traced + traced_before
        yield end, end_traced
        begin, begin_traced = end + 1, end_traced + 1
    for behind, traced_behind in match(profiled[begin:], traced[begin_traced:]):
        yield begin + behind, begin_traced + traced_behind


def match(profiled: Sequence[str], traced: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the positions of equal names in the same order."""
    if profiled == traced:  # true of most profiles; the search below takes quadratic time
        yield from ((index, index) for index in range(len(profiled)))
        return
    for begin, begin_traced, size in SequenceMatcher(None, profiled, traced, autojunk=False).get_matching_blocks():
        yield from ((begin + index, begin_traced + index) for index in range(size))
