"""Primitives with jaxprs inside: calls, loops, branches, and the functions of generic reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from profilerkit.backend_kit.branch_memory import Fork
from profilerkit.costs import Cost, Shape

from ..compat import find_source, parameters
from ..costs.activation import activation_cost, is_activation
from .loops import scan, while_loop
from .pricing import describe_missing
from .sides import Tried
from .values import Executed, PendingChoice, Value

__all__ = ["HANDLERS"]

#: The walk that goes over these equations, and where they stand; `trace.walk` has both classes, and calls what is here.
Walk: TypeAlias = Any
Context: TypeAlias = Any
Handler: TypeAlias = Callable[[Walk, Any, list[Value], Context], list[Value]]

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


def _call(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    names = _CALLS[equation.primitive.name]
    jaxpr = next((equation.params[name] for name in names if name in equation.params), None)
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if inner is None or not hasattr(inner, "eqns") or len(inner.invars) != len(inputs):
        return note_uncounted(walk, equation, inputs, context)
    if not hasattr(jaxpr, "consts") and inner.constvars:
        return note_uncounted(walk, equation, inputs, context)
    is_named = equation.primitive.name in ("jit", "pjit")
    name = str(parameters(equation)["name"]) if is_named else ""
    start = len(walk.executed)
    outputs: list[Value] = walk.inside(jaxpr, inputs, context)
    if len(outputs) != len(equation.outvars):
        return note_uncounted(walk, equation, inputs, context)
    source = find_source(inner)
    if is_activation(name) and not source:
        walk.lacking.setdefault(f"this release of JAX does not tell where {name} is written: perhaps it is JAX's own")
    _count_activation(walk.executed[start:], name, source, inputs, outputs)
    return outputs


def _count_activation(
    equations: Sequence[Executed], name: str, source: str, inputs: Sequence[Value], outputs: Sequence[Value]
) -> None:
    """Let the last equation of an activation function of JAX take the cost of all, and its name."""
    cost = activation_cost(name, source, [value.shape for value in inputs], [value.shape for value in outputs])
    if cost is None or not equations or equations[-1].is_backward:
        return
    for equation in equations:
        equation.leave_work()
    equations[-1].operator, equations[-1].flops = name, cost.flops * equations[-1].times


def note_uncounted(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Note an equation of which nothing is known, and return new values for its outputs."""
    outputs = [walk.value(variable.aval) for variable in equation.outvars]
    walk.note(equation.primitive.name, inputs, outputs, context, missing=describe_missing(equation))
    return outputs


def _branches(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over the branch that is taken, if the given inputs tell.

    If they do not, go over every branch, and keep the dearest; the choice has the work of each, and so the two ends.
    """
    branches, index = parameters(equation)["branches"], walk.elements(inputs[0])
    if index is not None:
        chosen = min(max(int(index), 0), len(branches) - 1)
        outputs: list[Value] = walk.inside(branches[chosen], inputs[1:], context)
        return outputs
    starts = len(walk.executed), len(walk.spans), len(walk.choices), len(walk.forks)
    sides = []
    for branch in branches:
        returned = walk.inside(branch, inputs[1:], context)
        executed, spans, choices, forks = _cut(walk, starts)
        sides.append(Tried(starts[0], executed, spans, choices, forks, returned))
    work = [sum(op.flops for op in side.executed) for side in sides]
    counted = work.index(max(work))
    taken = sides[counted]
    walk.executed.extend(taken.executed)
    walk.spans.extend(taken.spans)
    reason = f"which of {len(branches)} branches of a cond runs is known only while it runs; the dearest is counted"
    walk.choices.append(PendingChoice([s.executed for s in sides], [s.choices for s in sides], counted, reason))
    others = [side for index, side in enumerate(sides) if index != counted]
    instead = [side.make_side(taken) for side in others]
    walk.knows_peaks &= None not in instead
    walk.forks.append(Fork(starts[0], taken.side(), [side for side in instead if side is not None], reason))
    return [value.forget() for value in taken.returned]


def _cut(walk: Walk, starts: Sequence[int]) -> list[list[Any]]:
    """Return what a walk has noted in its lists from these indices on, and take it away there."""
    lists = walk.executed, walk.spans, walk.choices, walk.forks
    noted = [one_list[start:] for one_list, start in zip(lists, starts, strict=True)]
    for one_list, start in zip(lists, starts, strict=True):
        del one_list[start:]
    return noted


def _shard_map(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over the function of one device, with its share of each input."""
    jaxpr, mesh = parameters(equation)["jaxpr"], parameters(equation)["mesh"]
    sizes = {**context.axis_sizes, **dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))}
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    shares = [
        walk.value(variable.aval, constant=value.constant, scalar=value.scalar)
        for variable, value in zip(inner.invars, inputs, strict=True)
    ]
    sources = {share.number: value.number for share, value in zip(shares, inputs, strict=True)}
    walk.note("shard_map", inputs, shares, context, sources=sources)
    returned = walk.inside(jaxpr, shares, replace(context, axis_sizes=sizes))
    outputs = [walk.value(variable.aval) for variable in equation.outvars]
    walk.note("shard_map", returned, outputs, context)
    walk.notes.setdefault(
        f"inside shard_map the work is that of one of {Shape(mesh.axis_sizes).numel} devices: its share, not the sum"
    )
    return outputs


def _reduce(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Run the function of a reduction once for each input element."""
    return _elementwise(walk, equation, inputs, context, parameters(equation)["jaxpr"], inputs[0].shape.numel)


def _reduce_window(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Run the function of a reduction once for each element of each window."""
    window = Shape(parameters(equation)["window_dimensions"]).numel
    times = Shape(equation.outvars[0].aval.shape).numel * window
    return _elementwise(walk, equation, inputs, context, parameters(equation)["jaxpr"], times)


def _scatter(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Run the function of ``x.at[...].apply(function)`` once for each element of the updates; a plain one has none."""
    jaxpr = parameters(equation)["update_jaxpr"]
    if jaxpr is None:
        outputs = [walk.value(equation.outvars[0].aval)]
        walk.note("scatter", inputs, outputs, context)
        return outputs
    return _elementwise(walk, equation, inputs, context, jaxpr, inputs[2].shape.numel)


def _elementwise(
    walk: Walk, equation: Any, inputs: list[Value], context: Context, jaxpr: Any, times: int
) -> list[Value]:
    """Note an equation with the work of a function of single numbers that runs ``times`` times in each run of it."""
    inner, start, turns = getattr(jaxpr, "jaxpr", jaxpr), len(walk.executed), context.repeat(times)
    consts = equation.params.get("consts", equation.params.get("update_consts", ()))
    scalars = [walk.value(variable.aval) for variable in inner.invars]
    if hasattr(jaxpr, "consts"):
        walk.inside(jaxpr, scalars, turns)
    else:
        constants = [
            walk.constant(variable.aval, value) for variable, value in zip(inner.constvars, consts, strict=True)
        ]
        walk.over(inner, [*constants, *scalars], turns)
    executed = walk.executed[start:]
    del walk.executed[start:]
    outputs = [walk.value(variable.aval) for variable in equation.outvars]
    cost = Cost(sum(op.macs for op in executed), sum(op.flops for op in executed))
    missing = ", ".join(dict.fromkeys(op.missing for op in executed if op.missing))
    walk.note(equation.primitive.name, inputs, outputs, context, cost, missing=missing)
    return outputs


def _linear_solve(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over the function that solves; the products are there for gradients alone."""
    lengths, jaxprs = parameters(equation)["const_lengths"], parameters(equation)["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    solver_inputs = inputs[before : before + lengths.solve]
    right_sides = inputs[sum(lengths) :]
    outputs: list[Value] = walk.inside(jaxprs.solve, [*solver_inputs, *right_sides], context)
    return outputs


#: What goes over each primitive with jaxprs inside.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_CALLS, _call),
    "cond": _branches,
    "custom_linear_solve": _linear_solve,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "scan": scan,
    "scatter": _scatter,
    "shard_map": _shard_map,
    "while": while_loop,
}
