"""The turns of a ``while`` loop, found by running only the equations that its condition needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
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


class _NeededTurn(NamedTuple):
    """The parts of a loop that its condition needs, in all turns, and whether it needs each carried value."""

    condition: NeededPart
    body: NeededPart
    carried: list[bool]


def count_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often the body of a loop runs, by running only the equations that its condition needs.

    None if they have an effect, or if their inputs are large or depend on more than the program and given inputs.
    """
    needed = _find_needed_turn(loop)
    if needed is None or needed.condition.jaxpr.effects or needed.body.jaxpr.effects:
        return None
    condition_consts = list(compress(loop.condition_consts, needed.condition.reads))
    body_consts = list(compress(loop.body_consts, needed.body.reads))
    initial = list(compress(loop.initial, needed.carried))
    read = [*condition_consts, *body_consts, *initial]
    if sum(value.shape.numel for value in read) > _LARGEST:
        return None
    elements = {value.number: walk.compute_elements(value) for value in read}
    if any(array is None for array in elements.values()):
        return None

    def bind(part: NeededPart, consts: int, constants: Sequence[Value]) -> Callable[[list[Any]], Sequence[Any]]:
        """Return a part as a function of the needed carried values; its jaxpr has so many constants before these."""
        arrays = [elements[value.number] for value in constants]
        reads = list(compress(part.reads[consts:], needed.carried))
        return lambda carried: make_function(part.jaxpr)(*arrays, *compress(carried, reads))

    return _run(
        bind(needed.condition, len(loop.condition_consts), condition_consts),
        bind(needed.body, len(loop.body_consts), body_consts),
        [elements[value.number] for value in initial],
    )


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
            return _NeededTurn(condition, body, carried)
        carried = further  # a needed value may be made of further values of the turn before


def _run(test: Callable[[Any], Any], take_turn: Callable[[Any], Any], start: list[Any]) -> int | None:
    """Return how many turns a loop makes; None if it cannot be run, or does not end.

    The condition of a loop that ``jax.vmap`` maps has an element for each sample: the loop goes on while any is true,
    and the carried values of the other samples stay.
    """

    def repeat(state: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
        turns, carried = state
        [is_on] = test(carried)
        return turns + 1, [
            jnp.where(is_on.reshape(is_on.shape + (1,) * (before.ndim - is_on.ndim)), after, before)
            for before, after in zip(carried, take_turn(carried), strict=True)
        ]

    try:
        [turns, _] = jax.lax.while_loop(
            lambda state: jnp.any(test(state[1])[0]) & (state[0] < _MOST_TURNS), repeat, (0, start)
        )
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself
        return None
    return None if int(turns) == _MOST_TURNS else int(turns)
