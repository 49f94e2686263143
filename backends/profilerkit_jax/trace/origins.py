"""The origins of the elements of values: known arrays, their slices, and equations.

A value has two origins, either of which may be unknown: the first computes it from weights alone, the second from the
inputs of the call and small arrays of the program alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from profilerkit import NotOfferedError

from ..compat import evaluate
from .values import Value

__all__ = [
    "Loop",
    "Number",
    "Origin",
    "Slice",
    "Stored",
    "compute",
    "compute_from_inputs",
    "make_origin",
    "note_input_origins",
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
class Origin(ABC):
    """The source of the elements of a value.

    Attributes:
        inputs: The origins that it is computed from.
        loops: The loops around it in which it differs from turn to turn.
        is_stored: Whether it follows from elements of an array that the model or the program holds, and not from sizes
            and numbers alone.
    """

    inputs: tuple[Origin, ...] = field(default=(), kw_only=True)
    loops: frozenset[Loop] = field(default=frozenset(), kw_only=True)
    is_stored: bool = field(default=False, kw_only=True)

    @abstractmethod
    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        """Return the elements of the value, from the elements of its inputs."""


@dataclass(frozen=True, eq=False)
class Number(Origin):
    """An array whose elements are all one number of the program."""

    value: Value

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        return jnp.full(tuple(self.value.shape), self.value.scalar, self.value.dtype)


@dataclass(frozen=True, eq=False)
class Stored(Origin):
    """An array that the model or the program holds."""

    stored: Any
    is_stored: bool = field(default=True, kw_only=True)

    @classmethod
    def if_small(cls, stored: Any) -> Stored | None:
        """Return the origin of an array from which the values of conditions are computed; None for a large one."""
        return cls(stored) if math.prod(stored.shape) <= _LARGEST_STORED else None

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        return jnp.asarray(self.stored)


@dataclass(frozen=True, eq=False)
class Slice(Origin):
    """The slice of a value that one turn of a loop gets."""

    loop: Loop

    @classmethod
    def of(cls, whole: Origin | None, loop: Loop) -> Slice | None:
        """Return the origin of a slice; None if the origin of the whole is not known."""
        if whole is None:
            return None
        return cls(loop, inputs=(whole,), loops=whole.loops | {loop}, is_stored=whole.is_stored)

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        return inputs[0][turns[self.loop]]


@dataclass(frozen=True, eq=False)
class Made(Origin):
    """An output of an equation whose inputs all have origins, or are numbers of the program."""

    equation: Any
    index: int

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        try:
            # A GPU raises an error only when the results are requested.
            return jax.block_until_ready(evaluate(self.equation, inputs)[self.index])
        except MemoryError:
            raise
        except Exception as error:
            raise NotOfferedError(
                f"the primitive {self.equation.primitive.name}, which makes weights of others, cannot be run by itself "
                f"({type(error).__name__}): which of these weights are zero is not known"
            ) from error


def make_origin(equation: Any, inputs: Sequence[Value], origins: Sequence[Origin | None], index: int) -> Made | None:
    """Return the origin of an output of an equation.

    None if an input has none, and for an equation that has an effect or makes random numbers.
    """
    sources = [
        Number(value) if origin is None and value.scalar is not None else origin
        for value, origin in zip(inputs, origins, strict=True)
    ]
    complete = [source for source in sources if source is not None]
    if len(complete) < len(sources) or equation.effects or equation.primitive.name.startswith(_RANDOM):
        return None
    loops = frozenset[Loop]().union(*(source.loops for source in complete))
    is_stored = any(source.is_stored for source in complete)
    return Made(equation, index, inputs=tuple(complete), loops=loops, is_stored=is_stored)


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
            arrays[id(last)] = last.array([arrays[id(source)] for source in last.inputs], turns)
    return arrays[id(origin)]
