"""What this backend takes of JAX that is no public interface, and the releases that it is tested with.

No other file here has such names. Each says what it is for, and what happens without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["function_of", "needed_part"]


def needed_part(closed: Any, outputs: Sequence[bool], instantiate: bool = False) -> tuple[Any, list[bool]]:
    """Return the part of a closed jaxpr that some of its outputs need, and which of its inputs that reads.

    With ``instantiate`` it keeps all of its inputs.
    """
    from jax.interpreters import partial_eval

    part, needed = partial_eval.dce_jaxpr(closed.jaxpr, list(outputs), instantiate=instantiate)
    return closed.replace(jaxpr=part), list(needed)


def function_of(closed: Any) -> Callable[..., Sequence[Any]]:
    """Return a closed jaxpr as a function."""
    from jax.extend.core import jaxpr_as_fun

    function: Callable[..., Sequence[Any]] = jaxpr_as_fun(closed)
    return function
