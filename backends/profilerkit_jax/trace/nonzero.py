"""The work on nonzero weights: a walk over the jaxpr that reads the values of weights where they are used.

The multiply-accumulates of an operator count in proportion to the nonzero elements of its weights. A weight is a value
that is computed only from arrays of the model or the program, in the form in which it reaches the operator: masked,
cast or transposed. If a ``scan`` slices stacked weights, each turn counts by its own slice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from profilerkit import ModelInputs, ModelTrace
from profilerkit.costs import Cost

from ..model.arrays import count_nonzero
from ..model.subjects import find_subject
from .frames import Context
from .origins import Loop, Origin, compute, make_origin, take_array, take_slice
from .tracing import trace_model
from .values import NO_WORK, Executed, Value
from .walk import Walk

__all__ = ["trace_of_nonzero"]

#: The positions of the inputs of a primitive that it multiplies and that may be weights. Attention has none, because it
#: multiplies activations alone. A primitive that is not in the table multiplies all of its inputs, except vectors.
_FACTORS: dict[str, Sequence[int]] = {
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
    errors: list[Exception] = []
    trace = trace_model(model, inputs, partial(_NonzeroWalk, errors=errors))
    if errors:
        raise errors[0]
    return trace


class _Elements(NamedTuple):
    """How many elements of a weight are not zero, and how many it has, in all turns of the loops that it depends on."""

    nonzero: int
    total: int


def _count_elements(origin: Origin) -> _Elements:
    """Compute a weight in each turn of the loops that it depends on, and count its elements in all of them together."""
    loops = list(origin.loops)
    nonzero = total = 0
    for turn in itertools.product(*(range(loop.length) for loop in loops)):
        array = compute(origin, dict(zip(loops, turn, strict=True)))
        nonzero += count_nonzero(array)
        total += array.size
    return _Elements(nonzero, total)


@dataclass(kw_only=True)
class _NonzeroWalk(Walk):
    """A walk that takes the work on zeros from each operator's.

    It gives values their ``origin`` as it makes them: the origin of an array of the model or of the program is the
    array, and the origin of an equation's output follows from the origins of its inputs. Inputs of the call, and all
    values that depend on them, are activations and have no origin.

    Attributes:
        errors: The errors of counting: a trace takes them for errors of the model, and returns the layers alone.
        elements: The counted elements, by the origins of the weights: each weight is computed once.
    """

    errors: list[Exception]
    elements: dict[Origin, _Elements] = field(default_factory=dict)

    def make_weight(self, aval: Any, value: Any) -> Value:
        return _give_origin(super().make_weight(aval, value), take_array(value))

    def make_constant(self, aval: Any, value: Any) -> Value:
        return _give_origin(super().make_constant(aval, value), take_array(value))

    def make_slice(self, aval: Any, stacked: Value, loop: Loop) -> Value:
        return _give_origin(super().make_slice(aval, stacked, loop), take_slice(stacked.origin, loop))

    def note_origins(self, equation: Any, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Note the origins of the outputs of an equation; a single number that is known is no weight."""
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
    ) -> Executed:
        """Note the work of one equation, without the multiply-accumulates of weights that are zero."""
        if cost.macs:
            nonzero_macs = self._count_nonzero_macs(operator, inputs, cost.macs)
            cost = Cost(nonzero_macs, cost.flops - Cost.of_macs(cost.macs - nonzero_macs).flops)
        return super().note(operator, inputs, outputs, context, cost, **facts)

    def _count_nonzero_macs(self, operator: str, inputs: Sequence[Value], macs: int) -> int:
        """Return the multiply-accumulates in proportion to the nonzero elements of weights; all if there is no weight.

        If both factors are weights, the proportion is that of both together.
        """
        elements = [self._count(weight) for weight in _list_weights(operator, inputs)]
        total = sum(weight.total for weight in elements)
        return macs * sum(weight.nonzero for weight in elements) // total if total else macs

    def _count(self, origin: Origin) -> _Elements:
        if origin not in self.elements:
            try:
                self.elements[origin] = _count_elements(origin)
            except Exception as error:
                self.errors.append(error)
                raise
        return self.elements[origin]


def _give_origin(value: Value, origin: Origin | None) -> Value:
    value.origin = origin
    return value


def _list_weights(operator: str, inputs: Sequence[Value]) -> list[Origin]:
    """Return the origins of factors that are weights, with elements of a stored array."""
    others = [position for position, value in enumerate(inputs) if len(value.shape) > 1]  # a vector may be a bias
    origins = [inputs[position].origin for position in _FACTORS.get(operator, others)]
    return [origin for origin in origins if origin is not None and origin.is_stored]
