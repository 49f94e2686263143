"""The turns of a ``while`` loop, found by running only the equations that its condition needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from operator import or_
from typing import Any, NamedTuple

import jax

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


class _Needed(NamedTuple):
    """The parts of a loop that its condition needs, in all turns, and whether it needs each carried value."""

    condition: NeededPart
    body: NeededPart
    carried: list[bool]


def count_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often the body of a loop runs, if the program and given inputs decide it; otherwise None.

    None too if the parts that the condition needs have an effect, or cannot be run by themselves, if their inputs are
    large, and for the loops that ``jax.vmap`` maps, whose samples end one by one.
    """
    needed = _find_needed(loop)
    if needed is None or needed.condition.jaxpr.effects or needed.body.jaxpr.effects:
        return None
    condition_consts = list(compress(loop.condition_consts, needed.condition.reads))
    body_consts = list(compress(loop.body_consts, needed.body.reads))
    initial = list(compress(loop.initial, needed.carried))
    read = [*condition_consts, *body_consts, *initial]
    is_mapped = needed.condition.jaxpr.out_avals[0].shape != ()
    if is_mapped or sum(value.shape.numel for value in read) > _LARGEST:
        return None
    elements = {value.number: walk.compute_elements(value) for value in read}
    if any(array is None for array in elements.values()):
        return None

    def bind(part: NeededPart, consts: Sequence[Value], of_all: int) -> Callable[[list[Any]], Sequence[Any]]:
        """Return a part as a function of the needed carried values, which follow ``of_all`` constants in its inputs."""
        arrays = [elements[value.number] for value in consts]
        reads = list(compress(part.reads[of_all:], needed.carried))
        return lambda carried: make_function(part.jaxpr)(*arrays, *compress(carried, reads))

    test = bind(needed.condition, condition_consts, len(loop.condition_consts))
    take_turn = bind(needed.body, body_consts, len(loop.body_consts))
    try:
        turns, _ = jax.lax.while_loop(
            lambda state: test(state[1])[0] & (state[0] < _MOST_TURNS),
            lambda state: (state[0] + 1, list(take_turn(state[1]))),
            (0, [elements[value.number] for value in initial]),
        )
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself
        return None
    return None if int(turns) == _MOST_TURNS else int(turns)


def _find_needed(loop: WhileLoop) -> _Needed | None:
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
            return _Needed(condition, body, carried)
        carried = further  # a needed value may be made of further values of the turn before
