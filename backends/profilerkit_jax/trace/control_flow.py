"""Primitives with jaxprs inside, each with the function that walks over them: calls, branches, loops, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from profilerkit.backend_kit.running_order import note_apart
from profilerkit.costs import Cost, Shape

from ..compat import find_source, open_jaxpr, parameters
from ..costs.whole_functions import find_function_cost, is_whole_function
from .frames import Context
from .loops import walk_scan, walk_while
from .values import Executed, Value, count_one, give_to_last
from .walk import Handler, Walk

__all__ = ["HANDLERS"]

#: Primitives that run one jaxpr once.
_CALLS = """
    call closed_call composite compute_on custom_jvp_call custom_jvp_call_jaxpr custom_partitioning custom_vjp_call
    custom_vmap_call eval_jaxpr jit linear_call pjit remat2 remat_opt checkpoint program_order run_state
    xla_metadata_call
"""
#: The names of the parameters that hold it: each of these primitives has one of them.
_CALLED = ("jaxpr", "call_jaxpr", "call", "callee", "callee_jaxpr", "fun_jaxpr", "fwd_jaxpr")
_DEAREST = "which of {} branches of a cond runs is known only while it runs; the dearest is counted"


def _walk_call(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over the jaxpr of a call, which runs once; some functions of JAX's count as a whole."""
    jaxpr = _find_called(equation, len(inputs))
    if jaxpr is None:
        return walk.note_uncounted(equation, inputs, context)
    start = len(walk.work.operators)
    outputs = walk.enter(jaxpr, inputs, context)
    if len(outputs) != len(equation.outvars):
        return walk.note_uncounted(equation, inputs, context)
    name = str(parameters(equation)["name"]) if equation.primitive.name in ("jit", "pjit") else ""
    if is_whole_function(name):
        source = find_source(open_jaxpr(jaxpr))
        if not source:
            missing = f"this release of JAX does not tell where {name} is written: perhaps it is JAX's own"
            walk.lacking.setdefault(missing)
        _count_as_whole(name, source, inputs, outputs, walk.work.operators[start:])
    return outputs


def _count_as_whole(
    name: str, source: str, inputs: Sequence[Value], outputs: Sequence[Value], ran: Sequence[Executed]
) -> None:
    """Count the equations of a function of JAX's together, by its formula; backwards they count themselves.

    If it has further outputs, it also computes values for its gradient: then its equations count if they are more.
    """
    if not outputs or not ran or ran[-1].is_backward:
        return
    cost = find_function_cost(name, source, [value.dtype for value in inputs], outputs[0].shape)
    spelled_out = 0 if len(outputs) == 1 else sum(equation.flops for equation in ran)
    if cost is not None and cost.flops * ran[-1].times > spelled_out:
        give_to_last(ran, name, cost)


def _find_called(equation: Any, inputs: int) -> Any:
    """Return the jaxpr that a call runs on so many inputs; None if the walk cannot go over it."""
    jaxpr = next((equation.params[name] for name in _CALLED if name in equation.params), None)
    inner = open_jaxpr(jaxpr)
    if not hasattr(inner, "eqns") or len(inner.invars) != inputs:
        return None
    lacks_constants = inner.constvars and not hasattr(jaxpr, "consts")
    return None if lacks_constants else jaxpr


def _walk_cond(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over all branches; count the one that the program or a given input decides, otherwise the dearest.

    The work of the other branches is kept with the dearest: it gives the two ends of every count.
    """
    index = walk.compute_elements(inputs[0])
    walk.hold(inputs)
    bodies = [walk.walk_apart(branch, inputs[1:], context) for branch in parameters(equation)["branches"]]
    if index is not None:
        taken = bodies[min(max(int(index), 0), len(bodies) - 1)]
        walk.work.add(taken.work)
        return list(taken.outputs)
    dearest = max(bodies, key=lambda body: body.work.price)
    others = [body.work for body in bodies if body is not dearest]
    walk.work.add(count_one(dearest.work, others, _DEAREST.format(len(bodies))))
    return [value.forget() for value in dearest.outputs]


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
    outputs = walk.make_results(equation)
    walk.note("shard_map", returned, outputs, context)
    walk.notes.setdefault(
        f"inside shard_map the work is that of one of {Shape(mesh.axis_sizes).numel} devices: its share, not the sum"
    )
    return outputs


# A function of single numbers, run for each of many elements: reductions, windows and scattering ----------------------


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
    outputs = walk.make_results(equation)
    cost = Cost(sum(op.macs for op in work.operators), sum(op.flops for op in work.operators))
    missing = ", ".join(work.count_missing())
    walk.note(equation.primitive.name, inputs, outputs, context, cost, missing=missing)
    return outputs


#: The function that goes over each primitive with jaxprs inside.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(_CALLS.split(), _walk_call),
    "cond": _walk_cond,
    "custom_linear_solve": _walk_linear_solve,
    "reduce": _walk_reduce,
    "reduce_window": _walk_reduce,
    "scan": walk_scan,
    "scatter": _walk_scatter,
    "shard_map": _walk_shard_map,
    "while": walk_while,
}
