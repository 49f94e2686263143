"""The origins of the elements of values: known arrays, their slices, and equations.

A value has two origins, either of which may be unknown: the first computes it from weights alone, the second from the
inputs of the call and small arrays of the program alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from profilerkit import NotOfferedError

from ..compat import evaluate
from .values import Value

__all__ = [
    "Loop",
    "Origin",
    "Turns",
    "compute",
    "compute_from_inputs",
    "make_origin",
    "note_input_origins",
    "take_array",
    "take_number",
    "take_slice",
    "take_small_array",
]

#: How the names of primitives begin that make random numbers.
_RANDOM = ("random_", "rng_", "threefry")
#: The most elements of a value that is computed because a condition depends on it.
_LARGEST = 1 << 20
#: The most elements of an array of the program from which such a value is computed.
_LARGEST_STORED = 1 << 10


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop that takes slices of values.

    Attributes:
        length: How often it runs.
    """

    length: int


#: The turn that each loop is in.
Turns: TypeAlias = Mapping[Loop, int]


@dataclass(frozen=True, eq=False)
class Origin:
    """The source of the elements of a value.

    Attributes:
        make_array: Returns the elements of the value, from the elements of its inputs and the turn of each loop.
        inputs: The origins that it is computed from.
        loops: The loops around it in which it differs from turn to turn.
        is_stored: Whether it follows from elements of an array that the model or the program holds, and not from sizes
            and numbers alone.
    """

    make_array: Callable[[Sequence[Any], Turns], Any]
    inputs: tuple[Origin, ...] = ()
    loops: frozenset[Loop] = frozenset()
    is_stored: bool = False


def take_number(value: Value) -> Origin:
    """Return the origin of a value whose elements are all one number of the program."""
    return Origin(lambda inputs, turns: jnp.full(tuple(value.shape), value.scalar, value.dtype))


def take_array(stored: Any) -> Origin:
    """Return the origin of an array that the model or the program holds."""
    return Origin(lambda inputs, turns: jnp.asarray(stored), is_stored=True)


def take_small_array(stored: Any) -> Origin | None:
    """Return the origin of an array from which the values of conditions are computed; None for a large one."""
    return take_array(stored) if math.prod(stored.shape) <= _LARGEST_STORED else None


def take_slice(whole: Origin | None, loop: Loop) -> Origin | None:
    """Return the origin of the slice that one turn of a loop gets; None if the origin of the whole is not known."""
    if whole is None:
        return None
    return Origin(lambda inputs, turns: inputs[0][turns[loop]], (whole,), whole.loops | {loop}, whole.is_stored)


def make_origin(equation: Any, inputs: Sequence[Value], origins: Sequence[Origin | None], index: int) -> Origin | None:
    """Return the origin of an output of an equation.

    None if an input has none, and for an equation that has an effect or makes random numbers.
    """
    sources = [
        take_number(value) if origin is None and value.scalar is not None else origin
        for value, origin in zip(inputs, origins, strict=True)
    ]
    complete = tuple(source for source in sources if source is not None)
    if len(complete) < len(sources) or equation.effects or equation.primitive.name.startswith(_RANDOM):
        return None
    loops = frozenset[Loop]().union(*(source.loops for source in complete))
    is_stored = any(source.is_stored for source in complete)
    return Origin(lambda inputs, turns: _run(equation, inputs)[index], complete, loops, is_stored)


def _run(equation: Any, arrays: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs of an equation for the arrays that it reads."""
    try:
        # A GPU raises an error only when the results are requested.
        outputs: Sequence[Any] = jax.block_until_ready(evaluate(equation, arrays))
    except MemoryError:
        raise
    except Exception as error:
        raise NotOfferedError(
            f"the primitive {equation.primitive.name}, which makes weights of others, cannot be run by itself "
            f"({type(error).__name__}): which of these weights are zero is not known"
        ) from error
    return outputs


def note_input_origins(equation: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
    """Note the origins of the outputs of an equation that follow from the inputs of the call."""
    origins = [value.input_origin for value in inputs]
    for index, value in enumerate(outputs):
        if value.input_origin is None and value.scalar is None and value.shape.numel <= _LARGEST:
            value.input_origin = make_origin(equation, inputs, origins, index)


def compute_from_inputs(value: Value) -> Any:
    """Return the elements of a value that follows from the inputs of the call; None for others."""
    if value.input_origin is None or value.input_origin.loops:
        return None
    try:
        return compute(value.input_origin, {})
    except NotOfferedError:
        return None


def compute(origin: Origin, turns: Turns) -> Any:
    """Return the elements of a value of an origin, in one turn of each of its loops.

    Raises `NotOfferedError` for a primitive that cannot be run by itself.
    """
    arrays: dict[int, Any] = {}
    waiting = [origin]  # no recursion: a chain of equations may be longer than Python's stack
    while waiting:
        last = waiting[-1]
        needed = [source for source in last.inputs if id(source) not in arrays]
        if needed:
            waiting += needed
            continue
        waiting.pop()
        if id(last) not in arrays:  # several equations may read it, and wait for it
            arrays[id(last)] = last.make_array([arrays[id(source)] for source in last.inputs], turns)
    return arrays[id(origin)]
