"""The work on nonzero weights alone: the walk over the jaxpr, with the values of weights looked at where they are used.

An operator's multiply-accumulates count in the proportion of the nonzero elements among its weights. A weight is what
follows from the arrays that the model or the program holds alone, as it reaches the operator: masked, cast or turned.
What a ``scan`` takes of a stack of weights counts in each turn by the slice of that turn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from profilerkit import ModelInputs, ModelTrace
from profilerkit.costs import Cost

from ..model.arrays import count_nonzero
from ..model.subjects import find_subject
from .frames import Context
from .origins import Loop, Origin, Slice, Stored, compute, make_origin
from .tracing import trace_model
from .values import NO_WORK, Value
from .walk import Walk

__all__ = ["trace_of_nonzero"]

#: The positions of those inputs of a primitive that it multiplies and that may be weights. Attention multiplies
#: activations alone: it has none. A primitive that is not in the table multiplies all of its inputs.
_FACTORS: dict[str, tuple[int, ...]] = {
    "conv_general_dilated": (1,),
    "dot_general": (0, 1),
    "dot_product_attention_fwd": (),
    "dot_product_attention_fwd_wrapper": (),
    "ragged_dot_general": (0, 1),
    "scaled_dot": (0, 1),
    "scaled_matmul": (0, 1),
    "scaled_matmul_wrapper": (0, 1),
    "symmetric_product": (0,),
}


def trace_of_nonzero(model: Any, inputs: ModelInputs) -> ModelTrace:
    """Return the trace of a pass whose operators do no work with weights that are zero; the model is not run.

    Raises `WithoutValuesError` if shapes stand in place of weights, and `NotOfferedError` for a weight that is computed
    by a primitive that cannot be run by itself.
    """
    find_subject(model).require_values()
    counter = _NonzeroCounter()
    trace = trace_model(model, inputs, partial(_NonzeroWalk, counter=counter))
    if counter.errors:
        raise counter.errors[0]
    return trace


class _Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has, in all turns of the loops that it depends on."""

    nonzero: int
    total: int

    def read_again(self, times: int) -> _Elements:
        """Return the elements of a weight that is read so many times without a change."""
        return _Elements(self.nonzero * times, self.total * times)


@dataclass
class _NonzeroCounter:
    """Counts the nonzero elements of weights; keeps its errors, which a trace would take for the model's."""

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
    """Compute a weight in each turn of the loops that it depends on, and count its elements in all of them together."""
    while isinstance(origin, Slice):  # the slices of all turns together are the whole
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

    counter: _NonzeroCounter = field(default_factory=_NonzeroCounter)

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
        nonzero_macs = self._count_nonzero_macs(operator, inputs, cost.macs) if cost.macs else 0
        work_on_zeros = Cost.of_macs(cost.macs - nonzero_macs)
        rest = Cost(nonzero_macs, cost.flops - work_on_zeros.flops)
        super().note(operator, inputs, outputs, context, rest, **facts)

    def _count_nonzero_macs(self, operator: str, inputs: Sequence[Value], macs: int) -> int:
        """Return the multiply-accumulates in the proportion of the nonzero elements; all where nothing is a weight.

        Where two factors are weights, a loop may change one alone: the other one is read again in each of its turns.
        """
        weights = [value.origin for value in _list_factors(operator, inputs) if _is_weight(value)]
        loops = frozenset[Loop]().union(*(origin.loops for origin in weights))
        counted = [self.counter.count(origin).read_again(_count_turns(loops - origin.loops)) for origin in weights]
        nonzero = sum(elements.nonzero for elements in counted)
        total = sum(elements.total for elements in counted)
        return macs * nonzero // total if total else macs


def _list_factors(operator: str, inputs: Sequence[Value]) -> list[Value]:
    """Return the inputs that a primitive multiplies and that may be weights; see `_FACTORS`."""
    positions = _FACTORS.get(operator)
    if positions is None:
        return list(inputs)
    return [inputs[position] for position in positions if position < len(inputs)]


def _count_turns(loops: Iterable[Loop]) -> int:
    """Return how many turns loops inside one another have together."""
    return math.prod(loop.length for loop in loops)


def _is_weight(value: Value) -> bool:
    """Return whether a value is a weight: a matrix or more, that holds elements of a stored array."""
    return value.origin is not None and value.origin.is_stored and len(value.shape) > 1
