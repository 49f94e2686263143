"""How often a ``while`` loop runs: read off a counter, or found by running what its condition depends on alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..compat import find_needed_part, make_function, open_jaxpr, parameters
from .values import Value
from .walk import Walk

__all__ = ["WhileLoop", "count_turns"]

#: How far beyond its bound a growing counter ends a loop, by the comparison under which the loop goes on: while it is
#: less than the bound, at the bound itself.
_BEYOND_OF_GROWING = {"lt": 0, "le": 1, "ne": 0}
#: The same of a counter that falls.
_BEYOND_OF_FALLING = {"gt": 0, "ge": 1, "ne": 0}
#: The comparisons with their sides exchanged.
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}
#: The most elements that a condition may depend on.
_LARGEST = 1 << 12
#: The most turns that are run to count them.
_MOST_TURNS = 100_000


class WhileLoop(NamedTuple):
    """A ``while`` equation: two jaxprs, what each of them closes over, and the values that they carry.

    Attributes:
        condition: The closed jaxpr that says whether the loop goes on.
        body: The closed jaxpr of one turn.
        condition_consts: What the condition closes over.
        body_consts: What the body closes over.
        initial: What the first turn gets of the values that are carried from turn to turn.
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


def count_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often the body of a loop runs; None where that follows from more than what is known."""
    turns = _read_turns(walk, loop)
    return _run_turns(walk, loop) if turns is None else turns


# Read off a counter ---------------------------------------------------------------------------------------------------


class _Comparison(NamedTuple):
    """The condition of a loop that compares a counter with a bound.

    Attributes:
        name: How: "lt" goes on while the counter is less than the bound.
        counter: Which of the carried values is the counter.
        bound: The number that it is compared with.
        carried_bound: Which of the carried values is the bound; None for one that is not carried.
    """

    name: str
    counter: int
    bound: int
    carried_bound: int | None


def _read_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often a loop runs that counts to a bound in equal steps; None for any other.

    None for a counter that leaves the range of its dtype, too: it goes on at the other end.
    """
    comparison = _find_comparison(walk, loop)
    if comparison is None:
        return None
    body = open_jaxpr(loop.body)
    carried = body.invars[len(loop.body_consts) :]
    bound = comparison.carried_bound
    if bound is not None and body.outvars[bound] is not carried[bound]:  # the body changes it
        return None
    counter = carried[comparison.counter]
    step = _find_step(body, counter, body.outvars[comparison.counter])
    start = walk.compute_elements(loop.initial[comparison.counter])
    if not step or start is None:
        return None
    turns = _count_steps(comparison, int(start), step)
    if turns is None:
        return None
    limits = np.iinfo(counter.aval.dtype)
    return turns if limits.min <= int(start) + turns * step <= limits.max else None


def _count_steps(comparison: _Comparison, start: int, step: int) -> int | None:
    """Return how many equal steps a counter takes from its start; None where it never gets past the bound.

    From 0 by 3 while it is less than 10 it takes 4, the distance of 10 divided by 3 and rounded up.
    """
    if step > 0:
        distance, beyond = comparison.bound - start, _BEYOND_OF_GROWING.get(comparison.name)
    else:
        distance, beyond = start - comparison.bound, _BEYOND_OF_FALLING.get(comparison.name)
    if beyond is None:
        return None
    if comparison.name == "ne" and (distance < 0 or distance % step):  # it steps over the bound
        return None
    rounded_up = -(-(distance + beyond) // abs(step))
    return max(rounded_up, 0)


def _find_comparison(walk: Walk, loop: WhileLoop) -> _Comparison | None:
    """Return what a condition compares; None for one that is more than one comparison of a carried integer."""
    condition = open_jaxpr(loop.condition)
    if len(condition.eqns) != 1:
        return None
    [equation] = condition.eqns
    name = equation.primitive.name
    if name not in _MIRRORED or condition.outvars[0] is not equation.outvars[0]:
        return None
    left, right = equation.invars
    return _compare(walk, loop, name, left, right) or _compare(walk, loop, _MIRRORED[name], right, left)


def _compare(walk: Walk, loop: WhileLoop, name: str, counter: Any, bound: Any) -> _Comparison | None:
    """Return the comparison of two variables of a condition, if they are a carried integer and a number."""
    variables = open_jaxpr(loop.condition).invars
    places = {variable: index for index, variable in enumerate(variables[len(loop.condition_consts) :])}
    if hasattr(counter, "val") or counter not in places or counter.aval.dtype.kind not in "iu":
        return None
    if hasattr(bound, "val"):
        return _Comparison(name, places[counter], int(bound.val), None)
    values = dict(zip(variables, [*loop.condition_consts, *loop.initial], strict=True))
    number = walk.compute_elements(values[bound])
    return None if number is None else _Comparison(name, places[counter], int(number), places.get(bound))


def _find_step(body: Any, counter: Any, result: Any) -> int | None:
    """Return by how much a turn of a loop changes a carried integer; None if that is no fixed number."""
    equation = next((equation for equation in body.eqns if result in equation.outvars), None)
    if equation is None or equation.primitive.name not in ("add", "sub"):
        return None
    left, right = equation.invars
    if left is counter and hasattr(right, "val"):
        return int(right.val) if equation.primitive.name == "add" else -int(right.val)
    if right is counter and hasattr(left, "val") and equation.primitive.name == "add":
        return int(left.val)
    return None


# Found by running -----------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """The part of a jaxpr that some of its outputs need.

    Attributes:
        jaxpr: Its equations, as a closed jaxpr.
        consts: Which of the values that the whole jaxpr closes over it reads.
        carried: Which of the carried values it reads.
    """

    jaxpr: Any
    consts: list[int]
    carried: list[int]


class _NeededTurn(NamedTuple):
    """What a condition depends on: a part of it, a part of the body, and the carried values that this part makes."""

    condition: _Part
    body: _Part
    carried: list[int]


def _run_turns(walk: Walk, loop: WhileLoop) -> int | None:
    """Return how often a loop runs, by running what its condition depends on alone.

    None if that has an effect, is large, or follows from more than numbers of the program and inputs that were given.
    """
    turn = _find_needed_turn(loop)
    if turn is None or turn.condition.jaxpr.effects or turn.body.jaxpr.effects:
        return None
    of_condition = [loop.condition_consts[index] for index in turn.condition.consts]
    of_body = [loop.body_consts[index] for index in turn.body.consts]
    initial = [loop.initial[index] for index in turn.carried]
    if sum(value.shape.numel for value in (*of_condition, *of_body, *initial)) > _LARGEST:
        return None
    condition_consts, body_consts = _compute_all(walk, of_condition), _compute_all(walk, of_body)
    start = _compute_all(walk, initial)
    if condition_consts is None or body_consts is None or start is None:
        return None

    # The loop with these parts alone, and a count of its turns.

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


def _compute_all(walk: Walk, values: Sequence[Value]) -> list[Any] | None:
    """Return the elements of values; None if those of one of them are not known."""
    arrays = [walk.compute_elements(value) for value in values]
    return None if any(array is None for array in arrays) else arrays


def _find_needed_turn(loop: WhileLoop) -> _NeededTurn | None:
    """Return what the condition of a loop depends on, in all turns; None if this release of JAX does not tell."""
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
        needed.update(body.carried)  # what makes a needed value may need further ones of the turn before


def _find_needed(jaxpr: Any, outputs: Sequence[bool], consts: int) -> _Part | None:
    """Return the part of a jaxpr that some of its outputs need; its first inputs are those that it closes over."""
    part = find_needed_part(jaxpr, outputs)
    if part is None:
        return None
    read = [index for index, is_read in enumerate(part.reads) if is_read]
    of_consts = [index for index in read if index < consts]
    return _Part(part.jaxpr, of_consts, [index - consts for index in read if index >= consts])
