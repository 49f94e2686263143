"""Which formula gives the cost of which ONNX operator.

A formula is a pure function of one call of an operator: the shapes of its inputs and outputs, its attributes, and the
values that are known before the model runs. Operators that move or choose data are known zeros, element-wise operators
cost the same for each output element, reductions for each input element. An operator without a formula is reported as
not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes, UnknownCostError, UnknownShapeError
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import CallForm, Cost, CostRegistry, Shape

__all__ = [
    "COSTS",
    "OPERATORS",
    "Cost",
    "NodeCall",
    "Shape",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "is_known",
    "register_op_cost",
    "scoped_costs",
]

COSTS = CostRegistry("ONNX", called_with={"operator": CallForm(("call",))})
OPERATORS = OperatorCosts(COSTS, example="Conv")

is_known = OPERATORS.is_known
register_op_cost = OPERATORS.register
scoped_costs = COSTS.scoped


@dataclass(frozen=True)
class NodeCall(OperatorCall):
    """One call of an operator, as formulas see it.

    Attributes:
        type: The operator: ``"Conv"``; outside of ONNX's own domain with its domain: ``"com.microsoft::Gelu"``.
        inputs: Shapes of its inputs; if a formula reads an unknown shape, the call is not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes: ``"float32"``; empty for an optional input that is left out.
        output_dtypes: Names of the outputs' dtypes.
        attributes: The attributes that the node has, by name; texts are ``str``.
        defaults: The default values of the attributes that a node lacks, in the operator set of the model.
        value: Returns the value of an input by its index, as a numpy array, if it is known before the model runs;
            ``None`` otherwise.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; ``default`` where neither the node nor the standard has one."""
        return self.attributes.get(name, self.defaults.get(name, default))
