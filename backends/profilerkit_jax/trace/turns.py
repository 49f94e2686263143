"""The turns of a ``while`` loop, found by running only the equations that its condition needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from ..compat import find_needed_part, make_function, parameters
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
    """The part of a jaxpr that some of its outputs need.

    Attributes:
        jaxpr: Its equations, as a closed jaxpr.
        consts: The indices of the closure's values that it reads.
        carried: The indices of the carried values that it reads.
    """

    jaxpr: Any
    consts: list[int]
    carried: list[int]


class _NeededTurn(NamedTuple):
    """The needs of a condition: a part of it, a part of the body, and the carried values that this part makes."""

    condition: _Part
    body: _Part
    carried: list[int]


def count_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often the body of a loop runs, by running only the equations that its condition needs.

    None if they have an effect, or if their inputs are large or depend on more than the program and given inputs.
    """
    turn = _find_needed_turn(loop)
    if turn is None or turn.condition.jaxpr.effects or turn.body.jaxpr.effects:
        return None
    of_condition = [loop.condition_consts[index] for index in turn.condition.consts]
    of_body = [loop.body_consts[index] for index in turn.body.consts]
    initial = [loop.initial[index] for index in turn.carried]
    values = [*of_condition, *of_body, *initial]
    if sum(value.shape.numel for value in values) > _LARGEST:
        return None
    arrays = [walk.compute_elements(value) for value in values]
    if any(array is None for array in arrays):
        return None
    after_condition, after_body = len(of_condition), len(of_condition) + len(of_body)
    return _run(turn, arrays[:after_condition], arrays[after_condition:after_body], arrays[after_body:])


def _run(turn: _NeededTurn, condition_consts: list[Any], body_consts: list[Any], start: list[Any]) -> int | None:
    """Return how many turns a loop of these parts alone makes; None if it cannot be run, or does not end."""

    def goes_on(state: tuple[Any, dict[int, Any]]) -> Any:
        count, carried = state
        inputs = [*condition_consts, *(carried[index] for index in turn.condition.carried)]
        [is_true] = make_function(turn.condition.jaxpr)(*inputs)
        return is_true & (count < _MOST_TURNS)

    def take_turn(state: tuple[Any, dict[int, Any]]) -> tuple[Any, dict[int, Any]]:
        count, carried = state
        inputs = [*body_consts, *(carried[index] for index in turn.body.carried)]
        return count + 1, dict(zip(turn.carried, make_function(turn.body.jaxpr)(*inputs), strict=True))

    try:
        [turns, _] = jax.lax.while_loop(goes_on, take_turn, (0, dict(zip(turn.carried, start, strict=True))))
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself
        return None
    return None if int(turns) == _MOST_TURNS else int(turns)


def _find_needed_turn(loop: WhileLoop) -> _NeededTurn | None:
    """Return the needs of the condition of a loop, in all turns; None if this release of JAX does not tell."""
    condition = _find_needed(loop.condition, [True], len(loop.condition_consts))
    if condition is None:
        return None
    needed = set(condition.carried)
    while True:
        outputs = [index in needed for index in range(len(loop.initial))]
        body = _find_needed(loop.body, outputs, len(loop.body_consts))
        if body is None:
            return None
        if needed.issuperset(body.carried):
            return _NeededTurn(condition, body, sorted(needed))
        needed.update(body.carried)  # a needed value may be made of further values of the turn before


def _find_needed(jaxpr: Any, outputs: Sequence[bool], consts: int) -> _Part | None:
    """Return the part of a jaxpr that some of its outputs need; its first inputs are its closure."""
    part = find_needed_part(jaxpr, outputs)
    if part is None:
        return None
    read = [index for index, is_read in enumerate(part.reads) if is_read]
    of_consts = [index for index in read if index < consts]
    return _Part(part.jaxpr, of_consts, [index - consts for index in read if index >= consts])
