"""Loops: the walk goes over each body once, with the facts that hold in every turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..compat import open_jaxpr, parameters
from .frames import Context
from .turns import WhileLoop, count_turns
from .values import Value, Work, count_one
from .walk import Walk

__all__ = ["walk_scan", "walk_while"]

_MAY_NOT_RUN = "a loop of an unknown number of turns may not run at all; it is counted once"


class _Scan(NamedTuple):
    """A ``scan`` equation.

    Attributes:
        body: The closed jaxpr of one turn.
        length: How many turns there are.
        consts: The values that the body closes over.
        initial: The carried values before the first turn.
        stacked: The values that each turn gets a slice of.
    """

    body: Any
    length: int
    consts: Sequence[Value]
    initial: Sequence[Value]
    stacked: Sequence[Value]

    @classmethod
    def read(cls, equation: Any, inputs: Sequence[Value]) -> _Scan:
        """Return the loop of an equation that gets these inputs.

        Its outputs are the carried values, and after them the stacked values of which each turn makes a slice.
        """
        params = parameters(equation)
        inner = open_jaxpr(params["jaxpr"])
        carried = len(inner.outvars) - _count_stacked(equation.outvars, inner.outvars)
        first_stacked = len(inputs) - _count_stacked(equation.invars, inner.invars)
        first_carried = first_stacked - carried
        return cls(
            params["jaxpr"],
            int(params["length"]),
            inputs[:first_carried],
            inputs[first_carried:first_stacked],
            inputs[first_stacked:],
        )


def walk_scan(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the body once, and count it for each turn; its slices of stacked values are made by the scan itself."""
    scan = _Scan.read(equation, inputs)
    walk.hold(inputs)
    inner, turns = open_jaxpr(scan.body), context.repeat(scan.length)
    state = _make_state(inner, len(scan.consts), scan.initial)
    sliced = inner.invars[len(scan.consts) + len(state) :]
    slices = [walk.make_slice(variable.aval, value) for variable, value in zip(sliced, scan.stacked, strict=True)]
    if slices:
        sources = {piece.number: value.number for piece, value in zip(slices, scan.stacked, strict=True)}
        walk.note("scan", scan.stacked, slices, turns, sources=sources)
    body = walk.walk_apart(scan.body, [*scan.consts, *state, *slices], turns)
    walk.work.add_loop(body.work)
    carried, pieces = body.outputs[: len(state)], body.outputs[len(state) :]
    # Slices that the body hands on, through a remat for example, are stacked to the value that they are slices of.
    handed_on = {piece.number: value for piece, value in zip(slices, scan.stacked, strict=True)}
    whole = [
        handed_on[piece.number] if piece.number in handed_on else walk.make_stack(variable.aval, piece)
        for variable, piece in zip(equation.outvars[len(state) :], pieces, strict=True)
    ]
    made = [(piece, value) for piece, value in zip(pieces, whole, strict=True) if piece.number not in handed_on]
    walk.note("scan", [piece for piece, _ in made], [value for _, value in made], context)
    last = [after if after is before else after.forget() for before, after in zip(state, carried, strict=True)]
    return [*last, *whole]


def _count_stacked(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """Return how many values are stacked: a turn gets or gives a slice of them along the first dimension.

    They come last, after the constants of the body and the carried values.
    """
    return sum(
        len(whole.aval.shape) > len(piece.aval.shape)
        for whole, piece in zip(outside, inside, strict=True)
        if hasattr(piece.aval, "shape")
    )


def _make_state(body: Any, consts: int, initial: Sequence[Value]) -> list[Value]:
    """Return the carried values as any turn gets them: a value that the body changes has no known elements."""
    carried = zip(initial, body.invars[consts:], body.outvars, strict=False)  # stacked values come after these
    return [before if result is variable else before.forget() for before, variable, result in carried]


def walk_while(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over condition and body once, and count them for each turn; for one turn if the turns are not known."""
    loop = WhileLoop.read(equation, inputs)
    walk.hold(inputs)
    turns = count_turns(walk, loop)
    checks = 1 if turns is None else turns + 1  # the condition is looked at once more, when it ends the loop
    state = _make_state(open_jaxpr(loop.body), len(loop.body_consts), loop.initial)
    condition = walk.walk_apart(loop.condition, [*loop.condition_consts, *state], context.repeat(checks))
    body = walk.walk_apart(loop.body, [*loop.body_consts, *state], context.repeat(1 if turns is None else turns))
    work = condition.work
    work.add(body.work if turns is not None else count_one(body.work, [Work()], _MAY_NOT_RUN))
    walk.work.add_loop(work)
    missing = "while: a loop of an unknown number of turns, counted once" if turns is None else ""
    outputs = walk.make_results(equation)
    sources = {out.number: value.number for out, value in zip(outputs, body.outputs, strict=True)}
    walk.note("while", body.outputs, outputs, context, missing=missing, sources=sources)
    return outputs
