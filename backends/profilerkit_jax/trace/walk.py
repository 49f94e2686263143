"""The walk over the equations of a jaxpr in their order: values, layers and the cost of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from profilerkit.backend_kit.graph_traces import FOLLOWED
from profilerkit.backend_kit.running_order import Body, note_apart
from profilerkit.costs import Cost

from ..compat import open_jaxpr, scope_names
from ..costs.registry import UnknownCostError
from .folding import fold
from .frames import Context, Frames
from .given_values import compute_elements, is_small, note_computable
from .pricing import PASSING, VIEWS, describe_missing, note_facts, price
from .values import NO_WORK, Executed, Value, Work

__all__ = ["Handler", "Walk"]

_NO_SCOPES = "this release of JAX does not tell the scopes of equations: layers and backward passes are not known"

#: Goes over an equation, given the walk, the equation, its inputs, and its place; returns its outputs.
Handler: TypeAlias = "Callable[[Walk, Any, Sequence[Value], Context], list[Value]]"


@dataclass
class Walk:
    """Walks over jaxprs, and notes the equations that run.

    `meshes.share_walk` derives from it: its values have the shapes of one device's share. ``notes`` and ``lacking`` are
    used as ordered sets.

    Attributes:
        frames: Finds the layers of each equation.
        handlers: Walk over the equations that hold jaxprs, by primitive; every other equation has a formula.
        work: The equations that run.
        notes: Notes for the reader of the numbers.
        folded: How many equations work on single numbers that are known before the function runs.
        arrays: The constant arrays of the program, by their ids.
        lacking: Facts that this release of JAX does not show, in words: the counts are partial.
        value_ids: Counts the numbers of new values: their `Value.number`.
        walk_ids: Counts the numbers of walks over jaxprs: their `Context.instance`.
    """

    frames: Frames
    handlers: Mapping[str, Handler]
    work: Work = field(default_factory=Work)
    notes: dict[str, None] = field(default_factory=dict)
    folded: int = 0
    arrays: dict[int, Any] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)
    value_ids: count[int] = field(default_factory=count)
    walk_ids: count[int] = field(default_factory=count)

    # Values -----------------------------------------------------------------------------------------------------------

    def make_value(self, aval: Any, **facts: Any) -> Value:
        """Return a new value."""
        return Value.of(next(self.value_ids), aval, **facts)

    def make_results(self, equation: Any) -> list[Value]:
        """Return new values for the outputs of an equation."""
        return [self.make_value(variable.aval) for variable in equation.outvars]

    def make_constant(self, aval: Any, value: Any) -> Value:
        """Return the value of an array that the program holds."""
        if getattr(value, "shape", ()) != ():
            self.arrays[id(value)] = value
            return self.make_value(aval, constant=True, compute=(lambda: value) if is_small(value) else None)
        # A random key has a dtype of JAX's own.
        is_number = isinstance(getattr(value, "dtype", None), np.dtype) or np.isscalar(value)
        return self.make_value(aval, constant=True, scalar=np.asarray(value)[()] if is_number else None)

    def make_constants(self, jaxpr: Any, stored: Iterable[Any]) -> list[Value]:
        """Return the values of the arrays that an open jaxpr closes over."""
        return [
            self.make_constant(variable.aval, value) for variable, value in zip(jaxpr.constvars, stored, strict=True)
        ]

    def make_weight(self, aval: Any, value: Any) -> Value:
        """Return the value of a weight; ``value`` is its array, or the shape of one."""
        return self.make_value(aval, constant=True)

    def make_input(self, aval: Any, value: Any) -> Value:
        """Return the value of an input; ``value`` is its array if that was given, else None."""
        return self.make_value(aval, compute=None if value is None else lambda: jnp.asarray(value))

    def make_slice(self, aval: Any, stacked: Value) -> Value:
        """Return the slice of a value that each turn of a loop gets, along the first dimension."""
        return self.make_value(aval, constant=stacked.constant, scalar=stacked.scalar)

    def make_stack(self, aval: Any, piece: Value) -> Value:
        """Return the stacked value of all turns of a loop, of which each turn makes a slice like this one."""
        return self.make_value(aval)

    def compute_elements(self, value: Value) -> Any:
        """Return the elements of a value that the program and the given inputs tell; None for others."""
        elements = compute_elements(value)
        if elements is not None and value.scalar is None:
            self.notes.setdefault(FOLLOWED)
        return elements

    # Equations --------------------------------------------------------------------------------------------------------

    def enter(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over a jaxpr, open or closed, with the values of its inputs; return the values of its outputs."""
        inner = open_jaxpr(jaxpr)
        constants = self.make_constants(inner, getattr(jaxpr, "consts", ()))
        return self.walk_equations(inner, [*constants, *inputs], replace(context, instance=next(self.walk_ids)))

    def walk_apart(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> Body[Work, Value]:
        """Go over a jaxpr inside an equation; return its work, without adding the work to the walk's."""
        with note_apart(self) as work:
            outputs = self.enter(jaxpr, inputs, context)
        return Body(work, outputs)

    def walk_equations(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over the equations of an open jaxpr, with the values of its constants and inputs."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), inputs, strict=True))

        def read(atom: Any) -> Value:
            return Value.literal(next(self.value_ids), atom.aval, atom.val) if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            operands = [read(atom) for atom in equation.invars]
            outputs = self.walk_equation(equation, operands, self._find_context(equation, context))
            note_computable(equation, operands, outputs)
            values.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _find_context(self, equation: Any, around: Context) -> Context:
        """Return the place of an equation of a jaxpr, by its scopes."""
        scopes = scope_names(equation)
        if scopes is None:
            self.lacking.setdefault(_NO_SCOPES)
        return replace(around, frame=self.frames.find_frame(around.frame, scopes or (), around.instance))

    def walk_equation(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over one equation: by the handler of its primitive, otherwise by its formula; return its outputs."""
        handler = self.handlers.get(equation.primitive.name, _walk_plain)
        try:
            return handler(self, equation, inputs, context)
        except UnknownCostError:  # a parameter is not there: this release of JAX has another form of the primitive
            return self.note_uncounted(equation, inputs, context)

    def note_uncounted(self, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Note an equation of which nothing is known, and return new values for its outputs."""
        outputs = self.make_results(equation)
        self.note(equation.primitive.name, inputs, outputs, context, missing=describe_missing(equation))
        return outputs

    def note(
        self,
        operator: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        context: Context,
        cost: Cost = NO_WORK,
        **facts: Any,
    ) -> Executed:
        """Note and return the work of one equation; ``cost`` is the cost of all its runs together."""
        frame = context.frame
        noted = Executed(
            operator,
            frame.chain,
            tuple(inputs),
            tuple(outputs),
            context.times,
            *cost,
            is_backward=frame.is_backward,
            **facts,
        )
        self.work.append(noted)
        return noted

    def hold(self, inputs: Sequence[Value]) -> None:
        """Keep the inputs of a branch or a loop alive until here."""
        self.work.hold(Executed("hold", (), tuple(inputs), ()))


def _walk_plain(walk: Walk, equation: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
    """Go over an equation without a jaxpr inside: it is a number that is known, or has a formula."""
    name = equation.primitive.name
    number = fold(name, equation, inputs)
    if number is not None:
        if name not in PASSING:
            walk.folded += 1
        return [walk.make_value(equation.outvars[0].aval, constant=True, scalar=number)]
    outputs = walk.make_results(equation)
    if outputs and inputs:
        note_facts(equation, inputs, outputs[0], context)
    sources: dict[int, int] = {}
    if name in VIEWS and outputs[0].dtype == inputs[0].dtype:
        outputs[0].constant = inputs[0].constant
        sources[outputs[0].number] = inputs[0].number
    cost, missing = price(equation, inputs, outputs, context)
    walk.note(name, inputs, outputs, context, cost.times(context.times), missing=missing, sources=sources)
    return outputs
