"""Primitives with jaxprs inside: calls, functions of single numbers, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from profilerkit.backend_kit.graph_branches import count_one
from profilerkit.backend_kit.graph_work import Body, note_apart
from profilerkit.backend_kit.program_parts import list_counted
from profilerkit.costs import Cost, Shape

from ..compat import find_source, open_jaxpr, parameters
from ..costs.whole_functions import find_function_cost, is_whole_function
from .frames import Context
from .origins import Loop
from .turns import WhileLoop, count_turns
from .values import Executed, PendingChoice, Value, Work, give_to_last
from .walk import Handler, Walk

__all__ = ["HANDLERS"]

# Branches: the dearest is counted, if the given inputs do not decide --------------------------------------------------

# The walk goes over each branch apart. The work of the other branches is kept with the counted branch: it gives the two
# ends of every count and of the bytes alive.

_DEAREST = "which of {} branches of a cond runs is known only while it runs; the dearest is counted"


def _walk_body(walk: Walk, jaxpr: Any, inputs: Sequence[Value], context: Context) -> Body[Work, Value]:
    """Go over a jaxpr inside an equation; return its work, without adding the work to the walk's."""
    with note_apart(walk) as work:
        outputs = walk.enter(jaxpr, inputs, context)
    return Body(work, outputs)


def _walk_cond(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the taken branch, if the given inputs decide it; otherwise over all branches, and count the dearest."""
    branches, index = parameters(equation)["branches"], walk.compute_elements(inputs[0])
    walk.hold(inputs)
    if index is not None:
        chosen = min(max(int(index), 0), len(branches) - 1)
        return walk.enter(branches[chosen], inputs[1:], context)
    bodies = [_walk_body(walk, branch, inputs[1:], context) for branch in branches]
    dearest = max(bodies, key=lambda body: body.work.price)
    others = [body for body in bodies if body is not dearest]
    walk.work.add(count_one(dearest, others, _DEAREST.format(len(branches)), _hand_on, _choose))
    return [value.forget() for value in dearest.outputs]


def _choose(works: Sequence[Work], reason: str) -> list[PendingChoice]:
    """Return the choice between the work of several bodies, of which the first is counted."""
    return [PendingChoice(works, reason)]


def _hand_on(value: Value, result: Value) -> Executed:
    """Return an equation that returns a value as another one, in the same buffer."""
    return Executed("cond", (), (value,), (result,), sources={result.number: value.number})


# Loops: the walk goes over each body once, with the facts that hold in every turn -------------------------------------

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


def _walk_scan(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the body once, and count it for each turn."""
    scan = _Scan.read(equation, inputs)
    walk.hold(inputs)
    inner, turns = open_jaxpr(scan.body), context.repeat(scan.length)
    state = _make_state(inner, len(scan.consts), scan.initial)
    sliced = inner.invars[len(scan.consts) + len(state) :]
    slices = _slice(walk, scan.stacked, sliced, scan.length, turns)
    body = _walk_body(walk, scan.body, [*scan.consts, *state, *slices], turns)
    walk.work.add_loop(body.work)
    carried, pieces = body.outputs[: len(state)], body.outputs[len(state) :]
    whole = _stack(walk, pieces, equation.outvars[len(state) :], context)
    last = [after if after is before else after.forget() for before, after in zip(state, carried, strict=True)]
    return [*last, *whole]


def _slice(walk: Walk, stacked: Sequence[Value], inside: Sequence[Any], length: int, turns: Context) -> list[Value]:
    """Return the slices of stacked values that each turn gets; note that a scan makes them."""
    loop = Loop(length)
    slices = [walk.make_slice(variable.aval, value, loop) for variable, value in zip(inside, stacked, strict=True)]
    if slices:
        sources = {piece.number: value.number for piece, value in zip(slices, stacked, strict=True)}
        walk.note("scan", stacked, slices, turns, sources=sources)
    return slices


def _stack(walk: Walk, pieces: Sequence[Value], outside: Sequence[Any], context: Context) -> list[Value]:
    """Return the values that the turns have made slices of; note that a scan makes them."""
    whole = [walk.make_stack(variable.aval, piece) for variable, piece in zip(outside, pieces, strict=True)]
    walk.note("scan", pieces, whole, context)
    return whole


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
    """Return the carried values as any turn gets them: their elements are unknown if they change.

    A value that the body returns unchanged has the same elements in every turn.
    """
    state = [value.forget() for value in initial]
    for value, before, variable, result in zip(state, initial, body.invars[consts:], body.outvars, strict=False):
        value.origin = before.origin if result is variable else None
    return state


def _walk_while(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over condition and body once, and count them for each turn; for one turn if the turns are not known."""
    loop = WhileLoop.read(equation, inputs)
    walk.hold(inputs)
    turns = count_turns(walk, loop)
    checks = 1 if turns is None else turns + 1  # the condition is looked at once more, when it ends the loop
    state = _make_state(open_jaxpr(loop.body), len(loop.body_consts), loop.initial)
    condition = _walk_body(walk, loop.condition, [*loop.condition_consts, *state], context.repeat(checks))
    body = _walk_body(walk, loop.body, [*loop.body_consts, *state], context.repeat(1 if turns is None else turns))
    work = condition.work
    none = Body(Work(), state)
    work.add(body.work if turns is not None else count_one(body, [none], _MAY_NOT_RUN, _hand_on, _choose))
    walk.work.add_loop(work)
    missing = "while: a loop of an unknown number of turns, counted once" if turns is None else ""
    outputs = [walk.make_value(variable.aval) for variable in equation.outvars]
    sources = {out.number: value.number for out, value in zip(outputs, body.outputs, strict=True)}
    walk.note("while", body.outputs, outputs, context, missing=missing, sources=sources)
    return outputs


# Calls ----------------------------------------------------------------------------------------------------------------

#: Primitives that run one jaxpr once, by the names of the parameters that may hold it.
_CALLS = {
    "call": ("call_jaxpr",),
    "closed_call": ("call_jaxpr",),
    "composite": ("jaxpr",),
    "compute_on": ("jaxpr", "call_jaxpr"),
    "custom_jvp_call": ("call_jaxpr",),
    "custom_jvp_call_jaxpr": ("fun_jaxpr",),
    "custom_partitioning": ("call",),
    "custom_vjp_call": ("call_jaxpr",),
    "custom_vmap_call": ("call",),
    "eval_jaxpr": ("jaxpr",),
    "jit": ("jaxpr",),
    "linear_call": ("callee", "callee_jaxpr"),
    "pjit": ("jaxpr",),
    "remat2": ("jaxpr",),
    "remat_opt": ("fwd_jaxpr",),
    "checkpoint": ("jaxpr",),
    "program_order": ("jaxpr",),
    "run_state": ("jaxpr",),
    "xla_metadata_call": ("jaxpr",),
}


def _walk_call(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the jaxpr of a call, which runs once; some functions of JAX's count as a whole."""
    jaxpr = _find_called(equation, len(inputs))
    if jaxpr is None:
        return walk.note_uncounted(equation, inputs, context)
    start = len(walk.work.parts)
    outputs = walk.enter(jaxpr, inputs, context)
    if len(outputs) != len(equation.outvars):
        return walk.note_uncounted(equation, inputs, context)
    name = str(parameters(equation)["name"]) if equation.primitive.name in ("jit", "pjit") else ""
    if is_whole_function(name):
        source = find_source(open_jaxpr(jaxpr))
        if not source:
            missing = f"this release of JAX does not tell where {name} is written: perhaps it is JAX's own"
            walk.lacking.setdefault(missing)
        ran = list_counted(walk.work.parts[start:])
        if outputs and ran and not ran[-1].is_backward:
            cost = find_function_cost(name, source, [value.dtype for value in inputs], outputs[0].shape)
            _count_as_whole(ran, name, cost, outputs)
    return outputs


def _count_as_whole(ran: Sequence[Executed], name: str, cost: Cost | None, outputs: Sequence[Value]) -> None:
    """Count the equations of a function together, by its formula.

    If it has further outputs, it also computes values for its gradient: then its equations count if they are more.
    """
    spelled_out = 0 if len(outputs) == 1 else sum(equation.flops for equation in ran)
    if cost is not None and cost.flops * ran[-1].times > spelled_out:
        give_to_last(ran, name, cost)


def _find_called(equation: Any, inputs: int) -> Any:
    """Return the jaxpr that a call runs on so many inputs; None if the walk cannot go over it."""
    names = _CALLS[equation.primitive.name]
    jaxpr = next((equation.params[name] for name in names if name in equation.params), None)
    inner = open_jaxpr(jaxpr)
    if not hasattr(inner, "eqns") or len(inner.invars) != inputs:
        return None
    lacks_constants = inner.constvars and not hasattr(jaxpr, "consts")
    return None if lacks_constants else jaxpr


def _walk_linear_solve(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the function that solves; the products are there for gradients alone."""
    lengths, jaxprs = parameters(equation)["const_lengths"], parameters(equation)["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    solver_inputs = inputs[before : before + lengths.solve]
    right_sides = inputs[sum(lengths) :]
    return walk.enter(jaxprs.solve, [*solver_inputs, *right_sides], context)


def _walk_shard_map(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the function of one device, with its share of each input."""
    jaxpr, mesh = parameters(equation)["jaxpr"], parameters(equation)["mesh"]
    sizes = {**context.axis_sizes, **dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))}
    shares = [
        walk.make_value(variable.aval, constant=value.constant, scalar=value.scalar)
        for variable, value in zip(open_jaxpr(jaxpr).invars, inputs, strict=True)
    ]
    sources = {share.number: value.number for share, value in zip(shares, inputs, strict=True)}
    walk.note("shard_map", inputs, shares, context, sources=sources)
    returned = walk.enter(jaxpr, shares, replace(context, axis_sizes=sizes))
    outputs = [walk.make_value(variable.aval) for variable in equation.outvars]
    walk.note("shard_map", returned, outputs, context)
    walk.notes.setdefault(
        f"inside shard_map the work is that of one of {Shape(mesh.axis_sizes).numel} devices: its share, not the sum"
    )
    return outputs


# Functions of single numbers ------------------------------------------------------------------------------------------


def _walk_reduce(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Run the function of a reduction once for each input element, or for each element of each window."""
    times = inputs[0].shape.numel
    if equation.primitive.name == "reduce_window":
        times = Shape(equation.outvars[0].aval.shape).numel * Shape(parameters(equation)["window_dimensions"]).numel
    return _walk_elements(walk, equation, inputs, context, times)


def _walk_scatter(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Run the function of ``x.at[...].apply(function)`` once for each element of the updates; a plain one has none."""
    if parameters(equation)["update_jaxpr"] is None:
        outputs = [walk.make_value(equation.outvars[0].aval)]
        walk.note("scatter", inputs, outputs, context)
        return outputs
    return _walk_elements(walk, equation, inputs, context, inputs[2].shape.numel)


def _walk_elements(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context, times: int) -> list[Value]:
    """Note an equation with the work of a function of single numbers that runs ``times`` times in each run of it."""
    jaxpr = parameters(equation)["update_jaxpr" if equation.primitive.name == "scatter" else "jaxpr"]
    inner, turns = open_jaxpr(jaxpr), context.repeat(times)
    scalars = [walk.make_value(variable.aval) for variable in inner.invars]
    with note_apart(walk) as work:
        if hasattr(jaxpr, "consts"):
            walk.enter(jaxpr, scalars, turns)
        else:
            stored = equation.params.get("consts", equation.params.get("update_consts", ()))
            walk.walk_equations(inner, [*walk.make_constants(inner, stored), *scalars], turns)
    # The numbers inside have no buffers: only the work of the function is kept, and its choices.
    walk.work.choices += work.choices
    outputs = [walk.make_value(variable.aval) for variable in equation.outvars]
    cost = Cost(sum(op.macs for op in work.operators), sum(op.flops for op in work.operators))
    missing = ", ".join(work.count_missing())
    walk.note(equation.primitive.name, inputs, outputs, context, cost, missing=missing)
    return outputs


#: The function that goes over each primitive with jaxprs inside.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_CALLS, _walk_call),
    "cond": _walk_cond,
    "custom_linear_solve": _walk_linear_solve,
    "reduce": _walk_reduce,
    "reduce_window": _walk_reduce,
    "scan": _walk_scan,
    "scatter": _walk_scatter,
    "shard_map": _walk_shard_map,
    "while": _walk_while,
}
