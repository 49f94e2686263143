"""The turns of a ``while`` loop, found by running only the equations that its condition needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress
from operator import or_
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compat import NeededPart, find_needed_part, make_function, parameters
from .values import Value
from .walk import Walk

__all__ = ["WhileLoop", "count_turns"]

#: The most elements that a condition may depend on.
_LARGEST = 1 << 12
#: The most turns that are run to count them.
_MOST_TURNS = 1 << 20


class WhileLoop(NamedTuple):
    """A ``while`` equation: two jaxprs, the constants of each, and the carried values.

    Attributes:
        condition: The closed jaxpr that decides whether the loop goes on.
        body: The closed jaxpr of one turn.
        condition_consts: The constants of the condition.
        body_consts: The constants of the body.
        initial: The carried values before the first turn.
    """

    condition: Any
    body: Any
    condition_consts: Sequence[Value]
    body_consts: Sequence[Value]
    initial: Sequence[Value]

    @classmethod
    def read(cls, equation: Any, inputs: Sequence[Value]) -> WhileLoop:
        """Return the loop of an equation that gets these inputs."""
        params = parameters(equation)
        first_of_body = params["cond_nconsts"]
        first_carried = first_of_body + params["body_nconsts"]
        return cls(
            params["cond_jaxpr"],
            params["body_jaxpr"],
            inputs[:first_of_body],
            inputs[first_of_body:first_carried],
            inputs[first_carried:],
        )


class _Part(NamedTuple):
    """The needed part of a condition or of a body.

    Attributes:
        program: Its closed jaxpr.
        constants: The constants that it reads, which come first among its inputs.
        reads: Which of the needed carried values it reads; they come after the constants.
    """

    program: Any
    constants: list[Value]
    reads: list[bool]

    @classmethod
    def of(cls, needed: NeededPart, constants: Sequence[Value], carried: Sequence[bool]) -> _Part:
        """Return a part of a jaxpr with these constants, in a loop that needs these of its carried values."""
        reads_carried = needed.reads[len(constants) :]
        return cls(needed.jaxpr, list(compress(constants, needed.reads)), list(compress(reads_carried, carried)))


class _NeededTurn(NamedTuple):
    """The parts of a loop that its condition needs, in all turns, and whether it needs each carried value."""

    condition: _Part
    body: _Part
    carried: list[bool]


def count_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often the body of a loop runs, by running only the equations that its condition needs.

    None if they have an effect, or if their inputs are large or depend on more than the program and given inputs.
    """
    needed = _find_needed_turn(loop)
    if needed is None or needed.condition.program.effects or needed.body.program.effects:
        return None
    condition, body, carried = needed
    values = (condition.constants, body.constants, list(compress(loop.initial, carried)))
    if sum(value.shape.numel for value in chain(*values)) > _LARGEST:
        return None
    condition_constants, body_constants, initial = ([walk.compute_elements(value) for value in part] for part in values)
    if any(array is None for array in chain(condition_constants, body_constants, initial)):
        return None

    def goes_on(carried: list[Any]) -> Any:
        [is_true] = make_function(condition.program)(*condition_constants, *compress(carried, condition.reads))
        return is_true

    def take_turn(carried: list[Any]) -> list[Any]:
        return list(make_function(body.program)(*body_constants, *compress(carried, body.reads)))

    return _run(goes_on, take_turn, initial)


def _find_needed_turn(loop: WhileLoop) -> _NeededTurn | None:
    """Return the parts that the condition of a loop needs; None if this release of JAX does not tell."""
    condition = find_needed_part(loop.condition, [True])
    if condition is None:
        return None
    carried = condition.reads[len(loop.condition_consts) :]
    while True:
        body = find_needed_part(loop.body, carried)
        if body is None:
            return None
        further = list(map(or_, carried, body.reads[len(loop.body_consts) :]))
        if further == carried:
            of_condition = _Part.of(condition, loop.condition_consts, carried)
            return _NeededTurn(of_condition, _Part.of(body, loop.body_consts, carried), carried)
        carried = further  # a needed value may be made of further values of the turn before


def _run(goes_on: Callable[[Any], Any], take_turn: Callable[[Any], Any], start: list[Any]) -> int | None:
    """Return how many turns a loop makes; None if it cannot be run, or does not end.

    The condition of a loop that ``jax.vmap`` maps has an element for each sample: the loop goes on while any is true,
    and the carried values of the other samples stay.
    """

    def repeat(state: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
        turns, carried = state
        is_on = goes_on(carried)
        return turns + 1, [
            jnp.where(is_on.reshape(is_on.shape + (1,) * (before.ndim - is_on.ndim)), after, before)
            for before, after in zip(carried, take_turn(carried), strict=True)
        ]

    try:
        [turns, _] = jax.lax.while_loop(
            lambda state: jnp.any(goes_on(state[1])) & (state[0] < _MOST_TURNS), repeat, (0, start)
        )
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself
        return None
    return None if int(turns) == _MOST_TURNS else int(turns)
