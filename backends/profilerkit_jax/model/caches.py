"""What JAX keeps of compiled functions: a block in which nothing is taken from it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import count

from jax.experimental.xla_metadata import set_xla_metadata

__all__ = ["trace_anew"]

#: The numbers of the blocks.
_numbers = count()


def trace_anew() -> AbstractContextManager[None]:
    """Return a block in which compiled functions are traced again, although JAX has them from an earlier trace."""
    # JAX keeps the jaxpr of a function by the metadata around the call, too.
    block: AbstractContextManager[None] = set_xla_metadata(profilerkit=str(next(_numbers)))
    return block
