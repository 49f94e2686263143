"""The walk over the equations of a jaxpr in their order: values, layers and the cost of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from profilerkit import NotOfferedError
from profilerkit.backend_kit.branch_memory import Fork
from profilerkit.costs import Cost, Shape

from ..compat import parameters, scope_names
from ..costs.registry import UnknownCostError
from .control_flow import HANDLERS, note_uncounted
from .folding import fold
from .frames import Frame, Frames
from .origins import Loop, Number, Stored, compute, make_origin
from .pricing import price
from .values import NO_WORK, Executed, PendingChoice, Value

__all__ = ["FOLLOWED", "LARGEST", "Context", "Walk"]

#: Primitives whose output is their first input in another form: XLA makes none of them where it can be read in place.
_VIEWS = (
    *("broadcast_in_dim", "copy", "name", "pvary", "reshape", "sharding_constraint", "slice", "squeeze"),
    *("stop_gradient", "transpose"),
)
#: Primitives that leave what their input is the sum of, or which number it is, as it was.
_PASSING = (*_VIEWS, "convert_element_type", "reduce_precision")
_NO_SCOPES = "this release of JAX does not tell the scopes of equations: layers and backward passes are not known"
#: The most elements of a value that is looked at, where a condition depends on it, and of an array of the program.
LARGEST, _SMALL = 1 << 20, 1 << 10
#: What a reader must know where the values of inputs decided.
FOLLOWED = (
    "branches and loops follow the values of the inputs that were given: others may take other branches and more turns"
)


@dataclass(frozen=True)
class Context:
    """Where a jaxpr stands that is gone over.

    Attributes:
        frame: The calls of layers around it.
        times: How often it runs.
        instance: The number of this walk over it.
        axis_sizes: How many devices each named axis has.
    """

    frame: Frame = field(default_factory=Frame)
    times: int = 1
    instance: int = 0
    axis_sizes: Mapping[Any, int] = field(default_factory=dict)

    def repeat(self, times: int) -> Context:
        """Return the context of what runs so many times in it."""
        return replace(self, times=self.times * times)


@dataclass
class Walk:
    """Goes over jaxprs, and notes what runs.

    Attributes:
        frames: Finds the layers of each equation.
        executed: What runs, in order.
        choices: The branches that only the inputs' values decide.
        forks: The same branches, for the bytes alive.
        knows_peaks: Whether the forks tell what is alive on every side.
        spans: The ranges of ``executed`` that run more than once.
        notes: What a reader of the numbers must know besides.
        folded: How many equations work on single numbers that are known before the function runs.
        arrays: The constant arrays of the program, by their ids.
        lacking: What this release of JAX does not tell, in words: the counts are partial.
    """

    frames: Frames
    executed: list[Executed] = field(default_factory=list)
    choices: list[PendingChoice] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    knows_peaks: bool = True
    spans: list[tuple[int, int]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    folded: int = 0
    arrays: dict[int, Any] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)
    instances: count[int] = field(default_factory=count)

    def value(self, aval: Any, **facts: Any) -> Value:
        """Return a new value."""
        return Value.of(next(self.numbers), aval, **facts)

    def inside(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over a jaxpr, open or closed, with the values of its inputs; return those of its outputs."""
        consts = getattr(jaxpr, "consts", ())
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        constants = [
            self.constant(variable.aval, value) for variable, value in zip(jaxpr.constvars, consts, strict=True)
        ]
        return self.over(jaxpr, [*constants, *inputs], replace(context, instance=next(self.instances)))

    def constant(self, aval: Any, value: Any) -> Value:
        """Return the value of an array that the program holds."""
        if getattr(value, "shape", ()) != ():
            self.arrays[id(value)] = value
            origin = Stored.of(value) if math.prod(value.shape) <= _SMALL else None
            return self.value(aval, constant=True, input_origin=origin)
        is_number = isinstance(getattr(value, "dtype", None), np.dtype) or np.isscalar(value)
        return self.value(aval, constant=True, scalar=np.asarray(value)[()] if is_number else None)

    def weight(self, aval: Any, value: Any) -> Value:
        """Return the value of an array of the model, or of its shape."""
        return self.value(aval, constant=True)

    def slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        """Return what each turn of a loop gets of a value: the slice of the turn, along the first dimension."""
        return self.value(aval, constant=stacked.constant, scalar=stacked.scalar)

    def input(self, aval: Any, value: Any) -> Value:
        """Return the value of an input, which is known if it was given."""
        return self.value(aval, input_origin=None if value is None else Stored.of(value))

    def notice(self, equation: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Note which outputs of an equation follow from the inputs that were given."""
        origins = [value.input_origin for value in inputs]
        for index, value in enumerate(outputs):
            if value.input_origin is None and value.scalar is None and value.shape.numel <= LARGEST:
                value.input_origin = make_origin(equation, inputs, origins, index)

    def elements(self, value: Value) -> Any:
        """Return the elements of a value that follows from the given inputs and the program alone; None for others."""
        if value.scalar is not None:
            return compute(Number.of(value), {})
        if value.input_origin is None or value.input_origin.loops:
            return None
        try:
            elements = compute(value.input_origin, {})
        except NotOfferedError:
            return None
        self.notes.setdefault(FOLLOWED)
        return elements

    def over(self, jaxpr: Any, inputs: Sequence[Value], context: Context) -> list[Value]:
        """Go over the equations of an open jaxpr, with the values of its constants and inputs."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), inputs, strict=True))

        def read(atom: Any) -> Value:
            return Value.literal(next(self.numbers), atom.aval, atom.val) if hasattr(atom, "val") else values[atom]

        for equation in jaxpr.eqns:
            scopes = scope_names(equation)
            if scopes is None:
                self.lacking.setdefault(_NO_SCOPES)
            frame = self.frames.frame(context.frame, scopes or (), context.instance)
            here = replace(context, frame=frame)
            operands = [read(atom) for atom in equation.invars]
            handler: Callable[..., list[Value]] = HANDLERS.get(equation.primitive.name, _step)
            try:
                outputs = handler(self, equation, operands, here)
            except UnknownCostError:  # a parameter is not there: this release of JAX has another form of the primitive
                outputs = note_uncounted(self, equation, operands, here)
            self.notice(equation, operands, outputs)
            values.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def note(
        self,
        operator: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        context: Context,
        cost: Cost = NO_WORK,
        **facts: Any,
    ) -> None:
        """Note what one equation does; ``cost`` is that of all its runs together."""
        frame = context.frame
        self.executed.append(
            Executed(
                operator,
                frame.chain,
                tuple(inputs),
                tuple(outputs),
                context.times,
                *cost,
                is_backward=frame.is_backward,
                **facts,
            )
        )


def _step(walk: Walk, equation: Any, inputs: list[Value], context: Context) -> list[Value]:
    """Go over an equation without a jaxpr inside: by its formula."""
    name = equation.primitive.name
    number = fold(name, equation, inputs)
    if number is not None:
        walk.folded += name not in _PASSING
        return [walk.value(equation.outvars[0].aval, constant=True, scalar=number)]
    outputs = [walk.value(variable.aval) for variable in equation.outvars]
    if outputs:
        outputs[0].summands = _summands(name, equation, inputs)
    cost, missing = price(equation, inputs, outputs, context)
    sources = {}
    if name in _VIEWS and outputs[0].dtype == inputs[0].dtype:
        outputs[0].constant = inputs[0].constant
        sources = {outputs[0].number: inputs[0].number}
    walk.note(name, inputs, outputs, context, cost.times(context.times), missing=missing, sources=sources)
    return outputs


def _summands(name: str, equation: Any, inputs: Sequence[Value]) -> int:
    """Return how many elements the first output adds up in each of its own; 0 if it is no sum."""
    if name == "reduce_sum":
        kept = Shape(equation.outvars[0].aval.shape).numel
        return inputs[0].shape.numel // kept if kept else 0
    if name == "reduce_window_sum":
        return int(np.prod(parameters(equation)["window_dimensions"]))
    return inputs[0].summands if name in _PASSING and inputs else 0
