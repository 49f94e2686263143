"""Primitives that run a function of single numbers for each of many elements: reductions, windows and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profilerkit.backend_kit.graph_work import note_apart
from profilerkit.costs import Cost, Shape

from ..compat import open_jaxpr, parameters
from .frames import Context
from .values import Value
from .walk import Walk

__all__ = ["walk_reduce", "walk_scatter"]


def walk_reduce(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Run the function of a reduction once for each input element, or for each element of each window."""
    times = inputs[0].shape.numel
    if equation.primitive.name == "reduce_window":
        times = Shape(equation.outvars[0].aval.shape).numel * Shape(parameters(equation)["window_dimensions"]).numel
    return _walk_elements(walk, equation, inputs, context, times)


def walk_scatter(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
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
