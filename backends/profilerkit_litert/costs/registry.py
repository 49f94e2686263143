"""The cost formulas of LiteRT's operators. An operator without one is reported as not counted, never as zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert.schema_py_generated import ActivationFunctionType

from profilerkit.backend_kit.operator_calls import OperatorCall, UnknownShapeError
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import CallForm, Cost, CostRegistry, activation

__all__ = ["COSTS", "OPERATORS", "LiteRTCall", "price", "register_op_cost", "scoped_costs"]

COSTS = CostRegistry("LiteRT", called_with={"operator": CallForm(("call",))})
OPERATORS = OperatorCosts(COSTS, example="CONV_2D")
register_op_cost = OPERATORS.register
scoped_costs = COSTS.scoped

#: The activations that an operator may apply to its result.
_FUSED: dict[int, Callable[[int], Cost]] = {
    ActivationFunctionType.RELU: activation.relu,
    ActivationFunctionType.RELU_N1_TO_1: activation.clamp,
    ActivationFunctionType.RELU6: activation.clamp,
    ActivationFunctionType.TANH: activation.tanh,
    ActivationFunctionType.SIGN_BIT: activation.relu,
}


def _leave_default(name: str, default: Any = None) -> Any:
    return default


@dataclass(frozen=True)
class LiteRTCall(OperatorCall):
    """One call of an operator, ``"CONV_2D"`` or a custom one by its own name, as formulas see it.

    Attributes:
        option: Returns an option by its name in the schema's Python classes, ``"strideH"``, or the default given.
    """

    option: Callable[..., Any] = _leave_default

    def list_numbers(self, index: int) -> list[int]:
        """Return the values of an input as a list of numbers; raise as `read` does."""
        return [int(number) for number in np.ravel(self.read(index))]

    def array(self, index: int = 0) -> np.ndarray[Any, Any]:
        """Return the values of an input; if they are not known, an array of its shape that takes no memory."""
        if self.is_known(index):
            return np.asarray(self.read(index))
        return np.broadcast_to(np.int8(0), self.inputs[index])

    def is_known(self, *indices: int) -> bool:
        """Return whether the values of these inputs are known, or of all if none are named."""
        return all(self.value(index) is not None for index in indices or range(len(self.inputs)))

    def list_arrays(self) -> list[np.ndarray[Any, Any]] | None:
        """Return the values of all inputs; None if the values of an input are not known."""
        return [self.array(index) for index in range(len(self.inputs))] if self.is_known() else None

    def count_elements(self, indices: Sequence[int]) -> int:
        """Return the number of elements of the given inputs, without inputs that are left out."""
        return sum(self.inputs[index].numel for index in indices if self.has_input(index))


def price(call: LiteRTCall) -> tuple[Cost, str]:
    """Return the cost of one run of an operator, with the activation fused into it, and the uncounted work."""
    cost, missing = OPERATORS.price(call)
    fused = call.option("fusedActivationFunction", 0)
    is_in_formula = "LSTM" in call.type or "RNN" in call.type  # the activation of a cell
    is_free = not fused or not call.has_floats  # no operation on integers is a FLOP
    if missing or is_in_formula or is_free:
        return cost, missing
    if fused not in _FUSED:
        return cost, f"the activation {fused} of {call.type}"
    try:
        return cost.plus(_FUSED[fused](call.outputs[0].numel)), ""
    except UnknownShapeError:
        return cost, f"{call.type} of unknown shape"
