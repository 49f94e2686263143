"""The formulas of operators and layers.

A formula is a pure function of one call of an operator: the static shapes of its inputs and outputs, and its
attributes. The formulas themselves are in the other files of this folder. An operator without any is reported as not
counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar, overload

from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes, UnknownCostError, UnknownShapeError
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import CallForm, Cost, CostRegistry, Formula, Shape
from profilerkit.costs.keras_layers import KERAS_LAYER_COSTS
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

__all__ = [
    "COSTS",
    "OPERATORS",
    "Cost",
    "OpCall",
    "Shape",
    "Shapes",
    "UnknownCostError",
    "UnknownShapeError",
    "layer_cost",
    "op_cost",
    "register_elementwise",
    "register_free",
    "register_layer_cost",
    "register_op_cost",
    "register_op_costs",
    "register_reduction",
    "scoped_costs",
]

LayerF = TypeVar("LayerF", bound="Callable[..., Cost | None]")


class _Layer(NamedTuple):
    """The key of a layer: Keras has a layer, and TensorFlow an operator, that are both called Conv2D."""

    layer: Any


def _is_of_keras(key: Any) -> bool:
    """Return whether the key belongs to a layer that Keras ships."""
    return isinstance(key, _Layer) and (isinstance(key.layer, str) or _ships(key.layer))


def _ships(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("keras", "tf_keras")


# A formula for a layer that Keras ships needs ``override=True``: its operators are counted otherwise.
COSTS = CostRegistry(
    "Keras",
    shipped=_is_of_keras,
    called_with={"operator": CallForm(("call",)), "layer": CallForm(("layer", "inputs", "outputs", "training"))},
)
OPERATORS = OperatorCosts(COSTS, example="Conv2D")

# The functions of this module for users and for the files with formulas.
op_cost: Callable[[OperatorCall], Cost | None] = OPERATORS.cost
register_elementwise = OPERATORS.register_elementwise
register_free: Callable[..., None] = OPERATORS.register_free
register_op_cost = OPERATORS.register
register_op_costs = OPERATORS.register_all
register_reduction = OPERATORS.register_reduction
scoped_costs: Callable[[], AbstractContextManager[None]] = COSTS.scoped


@dataclass(frozen=True)
class OpCall(OperatorCall):
    """One call of an operator: the argument of a formula.

    Attributes:
        type: The operator's type: ``"Conv2D"``.
        inputs: Shapes of its inputs; a call whose formula reads an unknown shape is reported as not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes: ``"float32"``.
        output_dtypes: Names of the outputs' dtypes.
        attribute: Returns the value of an attribute by name: ``call.attribute("data_format")`` is ``"NHWC"`` (a
            ``str``, never ``bytes``); ``None`` for an attribute that the operator lacks.
        value: Returns the value of an input by its index, as a numpy array, if it is known before the model runs, else
            ``None``.
        is_given: Returns whether the value of an input, by its index, belongs to this run: an input of the model, a
            computed value, or the value of a variable.
        is_gradient_of_einsum: Whether it is an einsum that computes the gradient of another einsum by one of its two
            terms: `profilerkit.costs.matmul.einsum_gradient` is its formula.
    """

    attribute: Callable[[str], Any] = field(default=lambda name: None, compare=False)  # each call has its own function
    is_given: Callable[[int], bool] = field(default=lambda index: False, compare=False, kw_only=True)
    is_gradient_of_einsum: bool = field(default=False, kw_only=True)

    def is_constant(self, index: int, number: float) -> bool:
        """Return whether an input is that single number in every run: TensorFlow drops a multiplication by 1 then."""
        return super().is_constant(index, number) and not self.is_given(index)


@overload
def register_layer_cost(
    layer_type: Any, formula: None = None, *, override: bool = False
) -> Callable[[LayerF], LayerF]: ...


@overload
def register_layer_cost(layer_type: Any, formula: LayerF, *, override: bool = False) -> LayerF: ...


def register_layer_cost(layer_type: Any, formula: LayerF | None = None, *, override: bool = False) -> Any:
    """Give the cost of a whole layer in one forward pass, everything inside it included; usable as a decorator.

    Args:
        layer_type: The class (subclasses do not inherit the formula), or the name of a class that Keras ships:
            ``"BatchNormalization"`` means the class of Keras 3 and the class of ``tf_keras``.
        formula: Called with the layer, the shapes of its inputs, the shapes of its outputs, and ``training``; returns
            a `Cost`, or None if the operators of the layer are to be counted instead.
        override: Replace an existing formula, or count a layer that comes with Keras by a formula and not
            by its operators; without it either raises `RegistrationConflictError`.
    """
    if not (isinstance(layer_type, type) or (isinstance(layer_type, str) and _is_shipped_name(layer_type))):
        raise ArgumentError(f"layer_type={shown(layer_type)}: give a class or the name of one of Keras' layers")

    name = layer_type if isinstance(layer_type, str) else layer_type.__name__
    return COSTS.register(_Layer(layer_type), formula, override=override, kind="layer", name=name)


def _is_shipped_name(name: str) -> bool:
    """Return whether Keras 3, or ``tf_keras`` where it is installed, has a class of layers of this name."""
    packages = (package for package in ("keras", "tf_keras") if find_spec(package) is not None)
    return name in KERAS_LAYER_COSTS or any(
        isinstance(getattr(import_module(package).layers, name, None), type) for package in packages
    )


def layer_cost(layer: Any) -> Formula | None:
    """Return the formula of a layer's class; None if it has none."""
    kind = type(layer)
    named = (_Layer(kind.__name__),) if _ships(kind) else ()
    return COSTS.get(_Layer(kind), *named)
