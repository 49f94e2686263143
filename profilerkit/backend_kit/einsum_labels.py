"""The labels of an einsum's equation, with their sizes: what `profilerkit.costs.matmul` takes for its terms."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["read_sizes"]


def read_sizes(term: str, shape: Sequence[int]) -> dict[str, int]:
    """Return the size of each label of a term of an einsum; the dimensions of an ellipsis are numbered from the right.

    >>> read_sizes("b...k", (2, 5, 3, 4))
    {'b': 2, '...2': 5, '...1': 3, 'k': 4}
    """
    before, ellipsis, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after) if ellipsis else 0
    labels = [*before, *(f"...{position}" for position in range(hidden, 0, -1)), *after]
    return dict(zip(labels, shape, strict=True))
