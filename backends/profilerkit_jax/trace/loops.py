"""Loops: ``scan`` runs its body as often as its length says, ``while`` as often as can be read from its condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from profilerkit.backend_kit.branch_memory import Fork

from ..compat import find_needed_part, make_function, parameters
from .origins import Loop
from .sides import Tried
from .values import PendingChoice, Value

__all__ = ["scan", "while_loop"]

#: The walk that goes over these equations, and where they stand; `trace.walk` has both classes.
Walk: TypeAlias = Any
Context: TypeAlias = Any
#: How often a loop runs from start to bound, by the comparison that keeps it running and the sign of the step.
_COMPARISONS = {("lt", 1): 0, ("le", 1): 1, ("gt", -1): 0, ("ge", -1): 1, ("ne", 1): 0, ("ne", -1): 0}
#: The most elements that a condition may depend on, and the most turns that are run to count them.
_LARGEST, _MOST_TURNS = 1 << 12, 100_000
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def scan(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over the body once, and count it for each turn."""
    params = parameters(equation)
    body, length = params["jaxpr"], int(params["length"])
    inner = getattr(body, "jaxpr", body)
    carried = len(inner.outvars) - _count_stacked(equation.outvars, inner.outvars)
    sliced = len(inputs) - _count_stacked(equation.invars, inner.invars)
    consts = sliced - carried
    stacked, loop = inputs[sliced:], Loop(length)
    slices = [
        walk.slice(variable.aval, value, loop) for variable, value in zip(inner.invars[sliced:], stacked, strict=True)
    ]
    state = _carry(body, consts, inputs[consts:sliced])
    sources = {piece.number: value.number for piece, value in zip(slices, stacked, strict=True)}
    if slices:
        walk.note("scan", stacked, slices, context.repeat(length), sources=sources)
    start = len(walk.executed)
    returned = walk.inside(body, [*inputs[:consts], *state, *slices], context.repeat(length))
    walk.spans.append((start, len(walk.executed)))
    whole = [walk.value(variable.aval) for variable in equation.outvars[carried:]]
    walk.note("scan", returned[carried:], whole, context)
    final = [
        value if value is before else value.forget() for value, before in zip(returned[:carried], state, strict=True)
    ]
    return [*final, *whole]


def _count_stacked(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """Return how many values have one dimension more around a body than in it: a turn gets, or gives, a slice of them.

    They come last, behind those that the body closes over and those that it carries.
    """
    return sum(
        len(whole.aval.shape) > len(piece.aval.shape)
        for whole, piece in zip(outside, inside, strict=True)
        if hasattr(piece.aval, "shape")
    )


def while_loop(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over condition and body once, and count them for each turn; where the turns are not known, for one."""
    params = parameters(equation)
    cond_consts, body_consts = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = inputs[:cond_consts], inputs[cond_consts : cond_consts + body_consts]
    initial = inputs[cond_consts + body_consts :]
    trips = _trips(walk, params["cond_jaxpr"], params["body_jaxpr"], of_cond, body_consts, initial)
    if trips is None:
        trips = _count_turns(walk, params["cond_jaxpr"], params["body_jaxpr"], of_cond, of_body, initial)
    state = _carry(params["body_jaxpr"], body_consts, initial)
    start = len(walk.executed)
    walk.inside(params["cond_jaxpr"], [*of_cond, *state], context.repeat(1 if trips is None else trips + 1))
    starts = len(walk.executed), len(walk.spans), len(walk.choices), len(walk.forks)
    returned = walk.inside(params["body_jaxpr"], [*of_body, *state], context.repeat(1 if trips is None else trips))
    if trips is None:
        _perhaps(walk, starts, returned, state)
    walk.spans.append((start, len(walk.executed)))
    missing = "while: a loop of an unknown number of turns, counted once" if trips is None else ""
    outputs = [walk.value(variable.aval) for variable in equation.outvars]
    sources = {out.number: value.number for out, value in zip(outputs, returned, strict=True)}
    walk.note("while", returned, outputs, context, missing=missing, sources=sources)
    return outputs


def _perhaps(walk: Walk, starts: Sequence[int], returned: list[Value], before: list[Value]) -> None:
    """Note that what was added from these indices on may not run: then a loop returns what it had before."""
    lists = walk.executed, walk.spans, walk.choices, walk.forks
    executed, spans, choices, forks = (one_list[start:] for one_list, start in zip(lists, starts, strict=True))
    if not executed:
        return
    taken = Tried(starts[0], executed, spans, choices, forks, returned)
    instead = Tried(starts[0], [], [], [], [], before).make_side(taken)
    walk.choices[starts[2] :] = [PendingChoice([executed, []], [choices, []], 0, _MAY_NOT_RUN)]
    walk.forks[starts[3] :] = [] if instead is None else [Fork(starts[0], taken.side(), [instead], _MAY_NOT_RUN)]
    walk.knows_peaks &= instead is not None


_MAY_NOT_RUN = "a loop of an unknown number of turns may not run at all; it is counted once"


def _carry(body: Any, consts: int, initial: Sequence[Value]) -> list[Value]:
    """Return what a body gets of the values that it carries; one that it hands on as it is has the same elements."""
    inner = getattr(body, "jaxpr", body)
    carried = [value.forget() for value in initial]
    for value, before, variable, result in zip(carried, initial, inner.invars[consts:], inner.outvars, strict=False):
        value.origin = before.origin if result is variable else None
    return carried


def _count_turns(
    walk: Walk, cond: Any, body: Any, of_cond: Sequence[Value], of_body: Sequence[Value], initial: Sequence[Value]
) -> int | None:
    """Return how often a loop runs, by running what its condition depends on alone.

    None if that has an effect, is large, or follows from more than numbers of the program and inputs that were given.
    """
    part = find_needed_part(cond, [True])
    if part is None:
        return None
    of_condition, needed_by_condition = part
    carried = set(_indices(needed_by_condition[len(of_cond) :]))
    while True:
        part = find_needed_part(body, [index in carried for index in range(len(initial))])
        if part is None:
            return None
        step, needed = part
        further = set(_indices(needed[len(of_body) :])) | carried
        if further == carried:
            break
        carried = further
    places = sorted(carried)
    read = [of_cond[index] for index in _indices(needed_by_condition[: len(of_cond)])]
    used = [of_body[index] for index in _indices(needed[: len(of_body)])]
    values = [*read, *used, *(initial[index] for index in places)]
    is_plain = not (of_condition.effects or step.effects) and sum(value.shape.numel for value in values) <= _LARGEST
    arrays = [walk.elements(value) for value in values] if is_plain else [None]
    if any(array is None for array in arrays):
        return None
    state = arrays[len(read) + len(used) :]
    conditions, steps = arrays[: len(read)], arrays[len(read) : len(read) + len(used)]
    compared = [places.index(index) for index in _indices(needed_by_condition[len(of_cond) :])]
    carried_on = [places.index(index) for index in _indices(needed[len(of_body) :])]

    def goes_on(turn: tuple[Any, ...]) -> Any:
        count, *now = turn
        [is_true] = make_function(of_condition)(*conditions, *(now[index] for index in compared))
        return is_true & (count < _MOST_TURNS)

    def once_more(turn: tuple[Any, ...]) -> tuple[Any, ...]:
        count, *now = turn
        return (count + 1, *make_function(step)(*steps, *(now[index] for index in carried_on)))

    try:
        counted: Any = jax.lax.while_loop(goes_on, once_more, (0, *state))
    except MemoryError:
        raise
    except Exception:  # a primitive that cannot be run by itself
        return None
    turns = int(counted[0])
    return None if turns == _MOST_TURNS else turns


def _indices(flags: Sequence[bool]) -> list[int]:
    return [index for index, flag in enumerate(flags) if flag]


def _trips(
    walk: Walk, cond: Any, body: Any, of_cond: Sequence[Value], body_consts: int, initial: Sequence[Value]
) -> int | None:
    """Return how often a loop runs that counts to a bound in equal steps; None for any other.

    None for a counter that leaves the range of its dtype, too: it goes on at the other end.
    """
    compared = _comparison(walk, cond, of_cond, initial)
    if compared is None:
        return None
    name, position, bound, bound_position = compared
    inner = getattr(body, "jaxpr", body)
    carried = inner.invars[body_consts:]
    if bound_position is not None and inner.outvars[bound_position] is not carried[bound_position]:
        return None
    step = _step(inner, carried[position], inner.outvars[position])
    start = walk.elements(initial[position])
    if step is None or start is None or bound is None or not step:
        return None
    inclusive = _COMPARISONS.get((name, 1 if step > 0 else -1))
    if inclusive is None or (name == "ne" and (int(bound) - int(start)) % step):
        return None
    distance = (int(bound) - int(start)) * (1 if step > 0 else -1) + inclusive
    if name == "ne" and distance < 0:
        return None
    turns = max(-(-distance // abs(step)), 0)
    limits = np.iinfo(carried[position].aval.dtype)
    return turns if limits.min <= int(start) + turns * step <= limits.max else None


def _comparison(
    walk: Walk, cond: Any, of_cond: Sequence[Value], initial: Sequence[Value]
) -> tuple[str, int, Any, int | None] | None:
    """Return what a condition compares: how, which of the carried values, with which number, and where that is carried.

    None for a condition that is more than one comparison of integers.
    """
    inner = getattr(cond, "jaxpr", cond)
    if (
        len(inner.eqns) != 1
        or inner.eqns[0].primitive.name not in _MIRRORED
        or inner.outvars[0] is not inner.eqns[0].outvars[0]
    ):
        return None
    values = dict(zip(inner.invars, [*of_cond, *initial], strict=True))
    places = {variable: index for index, variable in enumerate(inner.invars[len(of_cond) :])}
    left, right = inner.eqns[0].invars
    name = inner.eqns[0].primitive.name
    for counter, bound, compared in ((left, right, name), (right, left, _MIRRORED[name])):
        if hasattr(counter, "val") or counter not in places or counter.aval.dtype.kind not in "iu":
            continue
        number = bound.val if hasattr(bound, "val") else walk.elements(values[bound])
        bound_position = None if hasattr(bound, "val") else places.get(bound)
        if number is not None and not (bound_position is not None and walk.elements(initial[places[counter]]) is None):
            return compared, places[counter], number, bound_position
    return None


def _step(body: Any, variable: Any, result: Any) -> int | None:
    """Return by how much a turn of a loop changes a carried integer; None if that is no fixed number."""
    for equation in body.eqns:
        if result not in equation.outvars:
            continue
        name, operands = equation.primitive.name, equation.invars
        if name not in ("add", "sub") or len(operands) != 2:
            return None
        numbers = [int(operand.val) for operand in operands if hasattr(operand, "val")]
        if len(numbers) != 1 or not any(operand is variable for operand in operands if not hasattr(operand, "val")):
            return None
        if name == "sub":
            return None if hasattr(operands[0], "val") else -numbers[0]
        return numbers[0]
    return None
