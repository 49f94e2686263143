"""Primitives with jaxprs inside: which function goes over each of them, and those that are no loops or branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from profilerkit.backend_kit.graph_work import note_apart
from profilerkit.backend_kit.program_parts import list_counted
from profilerkit.costs import Cost, Shape

from ..compat import find_source, open_jaxpr, parameters
from ..costs.activation import activation_cost, is_activation
from .branches import walk_cond
from .frames import Context
from .loops import walk_scan, walk_while
from .values import Value
from .walk import Handler, Walk
from .work import Executed

__all__ = ["HANDLERS"]

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


# Calls ----------------------------------------------------------------------------------------------------------------


def _walk_call(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the jaxpr of a call, which runs once; an activation function of JAX's counts as a whole."""
    jaxpr = _find_called(equation, len(inputs))
    if jaxpr is None:
        return walk.note_uncounted(equation, inputs, context)
    name = str(parameters(equation)["name"]) if equation.primitive.name in ("jit", "pjit") else ""
    start = len(walk.work.parts)
    outputs = walk.enter(jaxpr, inputs, context)
    if len(outputs) != len(equation.outvars):
        return walk.note_uncounted(equation, inputs, context)
    source = find_source(open_jaxpr(jaxpr))
    if is_activation(name) and not source:
        walk.lacking.setdefault(f"this release of JAX does not tell where {name} is written: perhaps it is JAX's own")
    _count_activation(list_counted(walk.work.parts[start:]), name, source, inputs, outputs)
    return outputs


def _find_called(equation: Any, inputs: int) -> Any:
    """Return the jaxpr that a call runs on so many inputs; None where it cannot be gone over."""
    names = _CALLS[equation.primitive.name]
    jaxpr = next((equation.params[name] for name in names if name in equation.params), None)
    inner = open_jaxpr(jaxpr)
    if not hasattr(inner, "eqns") or len(inner.invars) != inputs:
        return None
    lacks_constants = inner.constvars and not hasattr(jaxpr, "consts")
    return None if lacks_constants else jaxpr


def _count_activation(
    equations: Sequence[Executed], name: str, source: str, inputs: Sequence[Value], outputs: Sequence[Value]
) -> None:
    """Let the last equation of an activation function of JAX take the cost of all, and its name."""
    cost = activation_cost(name, source, [value.shape for value in inputs], [value.shape for value in outputs])
    if cost is None or not equations or equations[-1].is_backward:
        return
    for equation in equations:
        equation.leave_work()
    last = equations[-1]
    last.operator = name
    last.flops = cost.flops * last.times


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
    params, times = parameters(equation), inputs[0].shape.numel
    if equation.primitive.name == "reduce_window":
        times = Shape(equation.outvars[0].aval.shape).numel * Shape(params["window_dimensions"]).numel
    return _walk_elements(walk, equation, inputs, context, params["jaxpr"], times)


def _walk_scatter(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Run the function of ``x.at[...].apply(function)`` once for each element of the updates; a plain one has none."""
    jaxpr = parameters(equation)["update_jaxpr"]
    if jaxpr is None:
        outputs = [walk.make_value(equation.outvars[0].aval)]
        walk.note("scatter", inputs, outputs, context)
        return outputs
    return _walk_elements(walk, equation, inputs, context, jaxpr, inputs[2].shape.numel)


def _walk_elements(
    walk: Walk, equation: Any, inputs: Sequence[Value], context: Context, jaxpr: Any, times: int
) -> list[Value]:
    """Note an equation with the work of a function of single numbers that runs ``times`` times in each run of it."""
    inner, turns = open_jaxpr(jaxpr), context.repeat(times)
    scalars = [walk.make_value(variable.aval) for variable in inner.invars]
    with note_apart(walk) as work:
        if hasattr(jaxpr, "consts"):
            walk.enter(jaxpr, scalars, turns)
        else:
            stored = equation.params.get("consts", equation.params.get("update_consts", ()))
            walk.walk_equations(inner, [*walk.make_constants(inner, stored), *scalars], turns)
    # The numbers inside have no buffers: of the function there is only its work, and what decides it.
    walk.work.choices += work.choices
    outputs = [walk.make_value(variable.aval) for variable in equation.outvars]
    cost = Cost(sum(op.macs for op in work.operators), sum(op.flops for op in work.operators))
    missing = ", ".join(work.count_missing())
    walk.note(equation.primitive.name, inputs, outputs, context, cost, missing=missing)
    return outputs


#: What goes over each primitive with jaxprs inside.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_CALLS, _walk_call),
    "cond": walk_cond,
    "custom_linear_solve": _walk_linear_solve,
    "reduce": _walk_reduce,
    "reduce_window": _walk_reduce,
    "scan": walk_scan,
    "scatter": _walk_scatter,
    "shard_map": _walk_shard_map,
    "while": walk_while,
}
