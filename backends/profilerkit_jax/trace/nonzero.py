"""The work on nonzero weights alone: the walk over the jaxpr, with the values of weights looked at where they are used.

An operator's multiply-accumulates count in the proportion of the nonzero elements among its weights. A weight is what
follows from the arrays that the model or the program holds alone, as it reaches the operator: masked, cast or turned.
What a ``scan`` takes of a stack of weights counts in each turn by the slice of that turn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from profilerkit import ModelInputs, ModelTrace
from profilerkit.costs import Cost

from ..model.arrays import count_nonzero
from ..model.subjects import find_subject
from .origins import Loop, Origin, Slice, Stored, compute, make_origin
from .tracing import trace_model
from .values import NO_WORK, Value
from .walk import Context, Walk

__all__ = ["trace_of_nonzero"]

_BOTH = (0, 1)
#: Which inputs each primitive multiplies that may be weights; of any other primitive, all of its inputs. Attention is
#: between activations.
_FACTORS: dict[str, tuple[int, ...]] = {
    "conv_general_dilated": (1,),
    **dict.fromkeys(["dot_general", "ragged_dot_general"], _BOTH),
    **dict.fromkeys(["scaled_dot", "scaled_matmul", "scaled_matmul_wrapper"], _BOTH),
    "symmetric_product": (0,),
    **dict.fromkeys(["dot_product_attention_fwd", "dot_product_attention_fwd_wrapper"], ()),
}


def trace_of_nonzero(model: Any, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a pass whose operators do no work with weights that are zero; the model is not run.

    Raises `WithoutValuesError` if shapes stand in place of weights, and `NotOfferedError` for a weight that is computed
    by a primitive that cannot be run by itself.
    """
    find_subject(model).require_values()
    counter = _ZeroCounter()
    trace = trace_model(model, inputs, partial(_NonzeroWalk, counter=counter))
    if counter.errors:
        raise counter.errors[0]
    return trace


class _Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has, in all turns of the loops that it depends on."""

    nonzero: int
    total: int


@dataclass
class _ZeroCounter:
    """Counts the zeros of weights, one weight at a time; keeps its errors, which a trace would take for the model's."""

    errors: list[Exception] = field(default_factory=list)
    elements: dict[Origin, _Elements] = field(default_factory=dict)

    def count(self, origin: Origin) -> _Elements:
        """Return the elements of a weight, which is computed once."""
        if origin not in self.elements:
            try:
                self.elements[origin] = _count_elements(origin)
            except Exception as error:
                self.errors.append(error)
                raise
        return self.elements[origin]


def _count_elements(origin: Origin) -> _Elements:
    while isinstance(origin, Slice):  # all slices are the whole
        [origin] = origin.inputs
    loops = list(origin.loops)
    nonzero = total = 0
    for turn in itertools.product(*(range(loop.length) for loop in loops)):
        array = compute(origin, dict(zip(loops, turn, strict=True)))
        nonzero += count_nonzero(array)
        total += array.size
    return _Elements(nonzero, total)


@dataclass
class _NonzeroWalk(Walk):
    """A walk that takes the work on zeros from each operator's."""

    counter: _ZeroCounter = field(default_factory=_ZeroCounter)

    def make_weight(self, aval: Any, value: Any) -> Value:
        """Return the value of an array of the model, with the array."""
        return self.make_value(aval, constant=True, origin=Stored.of(value))

    def make_constant(self, aval: Any, value: Any) -> Value:
        """Return the value of an array that the program holds, with the array."""
        result = super().make_constant(aval, value)
        result.origin = Stored.of(value)
        return result

    def make_slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        """Return what each turn of a loop gets of a value, with its origin."""
        piece = super().make_slice(aval, stacked, loop)
        piece.origin = Slice.of(stacked.origin, loop)
        return piece

    def note_origins(self, equation: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Note where the outputs of an equation come from."""
        super().note_origins(equation, inputs, outputs)
        origins = [value.origin for value in inputs]
        for index, value in enumerate(outputs):
            if value.origin is None and value.scalar is None:
                value.origin = make_origin(equation, inputs, origins, index)

    def note(
        self,
        operator: str,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        context: Context,
        cost: Cost = NO_WORK,
        **facts: Any,
    ) -> None:
        """Note what one equation does, without the multiply-accumulates of weights that are zero."""
        nonzero = self._count_nonzero_macs(operator, inputs, cost.macs) if cost.macs else 0
        rest = Cost(nonzero, cost.flops - Cost.of_macs(cost.macs - nonzero).flops)
        super().note(operator, inputs, outputs, context, rest, **facts)

    def _count_nonzero_macs(self, operator: str, inputs: Sequence[Value], macs: int) -> int:
        """Return the multiply-accumulates in the proportion of the nonzero elements; all where nothing is a weight.

        A weight that is the same in all turns of a loop is read in each turn in which another one changes.
        """
        factors = [inputs[index] for index in _FACTORS.get(operator, range(len(inputs))) if index < len(inputs)]
        weights = [value.origin for value in factors if _is_weight(value)]
        loops = frozenset[Loop]().union(*(origin.loops for origin in weights))
        nonzero = total = 0
        for origin in weights:
            times = math.prod(loop.length for loop in loops - origin.loops)
            elements = self.counter.count(origin)
            nonzero += elements.nonzero * times
            total += elements.total * times
        return macs * nonzero // total if total else macs


def _is_weight(value: Value) -> bool:
    """Return whether a value is a weight: a matrix or more, that holds elements of a stored array."""
    return value.origin is not None and value.origin.is_stored and len(value.shape) > 1
