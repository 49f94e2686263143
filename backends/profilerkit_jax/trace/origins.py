"""What the elements of weights follow from: arrays that the model or the program holds, their slices, and equations.

An origin says how to compute a value from weights alone; a value that an input has part in has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax.numpy as jnp
from jax.api_util import debug_info
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from profilerkit import NotOfferedError

from .values import Value

__all__ = ["Loop", "Made", "Origin", "Slice", "Stored", "Turns", "computed", "made"]

#: Primitives whose results differ from run to run, once their key does.
_RANDOM = ("random_", "rng_", "threefry")


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop that takes slices of values: how often it runs."""

    length: int


#: The turn that each loop is in.
Turns: TypeAlias = Mapping[Loop, int]


@dataclass(frozen=True, eq=False)
class Origin(ABC):
    """What the elements of a value follow from.

    Attributes:
        inputs: The values that it is computed of.
        loops: The loops in each turn of which it is another.
        is_stored: Whether elements of an array that the model or the program holds are among them; others follow from
            sizes and numbers alone.
    """

    inputs: tuple[Value, ...]
    loops: frozenset[Loop]
    is_stored: bool

    @abstractmethod
    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        """Return the elements, from those of the inputs."""


@dataclass(frozen=True, eq=False)
class Stored(Origin):
    """An array that the model or the program holds."""

    stored: Any

    @classmethod
    def of(cls, stored: Any) -> Stored:
        """Return the origin of an array."""
        return cls((), frozenset(), True, stored)

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        return jnp.asarray(self.stored)


@dataclass(frozen=True, eq=False)
class Slice(Origin):
    """The slice of a value that one turn of a loop gets."""

    loop: Loop

    @classmethod
    def of(cls, stacked: Value, loop: Loop) -> Slice | None:
        """Return the origin of a slice; None if that of the whole is not known."""
        whole = stacked.origin
        return None if whole is None else cls((stacked,), whole.loops | {loop}, whole.is_stored, loop)

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        return inputs[0][turns[self.loop]]


@dataclass(frozen=True, eq=False)
class Made(Origin):
    """An output of an equation whose inputs all have origins, or are numbers of the program."""

    equation: Any
    index: int

    def array(self, inputs: Sequence[Any], turns: Turns) -> Any:
        variables, arrays = [], []
        for variable, array in zip(self.equation.invars, inputs, strict=True):
            if not isinstance(variable, Literal) and variable not in variables:
                variables.append(variable)
                arrays.append(array)
        about = debug_info("a weight", jaxpr_as_fun, (), {}, result_paths_thunk=lambda: ())
        jaxpr = Jaxpr((), variables, self.equation.outvars, [self.equation], debug_info=about)
        try:
            return jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*arrays)[self.index]
        except Exception as error:
            raise NotOfferedError(
                f"the primitive {self.equation.primitive.name}, which makes weights of others, cannot be run by itself "
                f"({type(error).__name__}): which of these weights are zero is not known"
            ) from error


def made(equation: Any, inputs: Sequence[Value], index: int) -> Made | None:
    """Return the origin of an output of an equation; None if an input, an effect or chance has part in it."""
    is_random = equation.primitive.name.startswith(_RANDOM)
    if is_random or equation.effects or any(value.origin is None and value.scalar is None for value in inputs):
        return None
    origins = [value.origin for value in inputs if value.origin is not None]
    loops = frozenset[Loop]().union(*(origin.loops for origin in origins))
    return Made(tuple(inputs), loops, any(origin.is_stored for origin in origins), equation, index)


def computed(value: Value, turns: Turns) -> Any:
    """Return the elements of a value that has an origin, in one turn of each of its loops.

    Raises `NotOfferedError` for a primitive that cannot be run by itself.
    """
    arrays: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        each = waiting[-1]
        needed = [] if each.origin is None else [source for source in each.origin.inputs if source.number not in arrays]
        if needed:
            waiting += needed
            continue
        waiting.pop()
        arrays[each.number] = _elements(each, arrays, turns)
    return arrays[value.number]


def _elements(value: Value, arrays: Mapping[int, Any], turns: Turns) -> Any:
    if value.origin is None:
        return jnp.full(tuple(value.shape), value.scalar, value.dtype)
    return value.origin.array([arrays[source.number] for source in value.origin.inputs], turns)
