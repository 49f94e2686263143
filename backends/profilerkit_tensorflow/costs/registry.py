"""Which formula gives the cost of which operator type or layer.

A formula is a pure function of one call of an operator: the static shapes of its inputs and outputs, and its
attributes. Operators that move or choose data are known zeros, element-wise operators cost one operation for each
output element, reductions one for each input element. Whatever is left is reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, overload

from profilerkit.cost import Cost, Formula, FormulaTable, Shape, evaluated

__all__ = [
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
    "register_reduction",
    "scoped_costs",
]

F = TypeVar("F", bound="Callable[..., Cost]")
LayerF = TypeVar("LayerF", bound="Callable[..., Cost | None]")

_free: set[str] = set()
_elementwise: dict[str, int] = {}
_reductions: dict[str, int] = {}
_operators = FormulaTable("operator")
_layers = FormulaTable("layer")


class UnknownShapeError(Exception):
    """A formula asked for a shape that the graph does not know."""


class UnknownCostError(Exception):
    """A formula met a variant of its operator whose cost it does not know: the call is one that is not counted."""


class Shapes(Sequence[Shape]):
    """The shapes of several tensors; reading one that is not known raises `UnknownShapeError`."""

    def __init__(self, shapes: Sequence[Shape | None]) -> None:
        self._shapes = tuple(shapes)

    def __getitem__(self, index: Any) -> Any:
        found = self._shapes[index]
        if found is None or (isinstance(index, slice) and None in found):
            raise UnknownShapeError
        return found

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self) -> str:
        return repr(self._shapes)


@dataclass(frozen=True)
class OpCall:
    """One call of an operator, as formulas see it.

    Attributes:
        type: The operator's type: ``"Conv2D"``.
        inputs: Shapes of its inputs; reading an unknown one makes the call one that is not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes: ``"float32"``.
        output_dtypes: Names of the outputs' dtypes.
        attribute: Gives an attribute's value by name: ``call.attribute("data_format")`` is ``"NHWC"`` (a ``str``, never
            ``bytes``); ``None`` for one that the operator lacks.
        value: Gives the value of an input by its index, as a numpy array, where it is known before the model runs;
            ``None`` elsewhere.
    """

    type: str
    inputs: Shapes
    outputs: Shapes
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    attribute: Callable[[str], Any] = field(default=lambda name: None, compare=False)
    value: Callable[[int], Any] = field(default=lambda index: None, compare=False)

    @property
    def has_floats(self) -> bool:
        """Whether it takes or returns a floating-point or complex tensor: work on integers is no FLOP."""
        return any(map(is_float, (*self.input_dtypes, *self.output_dtypes)))


def is_float(dtype: str) -> bool:
    """Say whether a dtype is a floating-point or complex one; quantised integers are not."""
    return dtype.startswith(("float", "bfloat", "half", "double", "complex"))


@overload
def register_op_cost(op: str, formula: None = None, *, override: bool = False) -> Callable[[F], F]: ...


@overload
def register_op_cost(op: str, formula: F, *, override: bool = False) -> F: ...


def register_op_cost(op: str, formula: F | None = None, *, override: bool = False) -> Any:
    """Give the cost of an operator type as a function of an `OpCall`; also usable as a decorator.

    Args:
        op: The operator's type, as graphs spell it: ``"Conv2D"``.
        formula: Called with the `OpCall`; returns a `Cost`. It raises `UnknownCostError` for a variant of the operator
            that it does not know, and lets `UnknownShapeError` pass. FLOPs without MACs count for calls that take or
            return a floating-point (or complex) tensor alone: work on integers is none.
        override: Replace a formula that is there already; without it that raises `RegistrationConflictError`.

    >>> @register_op_cost("MyAttention")
    ... def attend(call):
    ...     query, key, value = call.inputs
    ...     return Cost.of_macs(2 * query.numel * key[-2])
    """
    if not isinstance(op, str) or not op:
        raise TypeError(f"register_op_cost takes the type of an operator, such as 'Conv2D', not {op!r}")

    def register(function: F) -> F:
        return _operators.register(op, function, override)

    return register if formula is None else register(formula)


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
            ``"BatchNormalization"`` is that of Keras 3 and that of ``tf_keras``.
        formula: Called with the layer, the shapes of its input tensors, those of its outputs, and ``training``;
            returns a `Cost`, or None where the layer's operators are to be counted after all.
        override: Replace a formula that is there already; without it that raises `RegistrationConflictError`.
    """
    if not isinstance(layer_type, (type, str)):
        raise TypeError(f"register_layer_cost takes a class or the name of one of Keras' layers, not {layer_type!r}")

    name = layer_type if isinstance(layer_type, str) else layer_type.__name__

    def register(function: LayerF) -> LayerF:
        _layers.register(layer_type, cast(Formula, function), override, name)
        return function

    return register if formula is None else register(formula)


def register_free(*types: str) -> None:
    """Declare operators that move or choose data and do no floating-point arithmetic."""
    _free.update(types)


def register_elementwise(operations: int, *types: str) -> None:
    """Declare operators that take so many operations for each element of their first output."""
    _elementwise.update(dict.fromkeys(types, operations))


def register_reduction(operations: int, *types: str) -> None:
    """Declare operators that take so many operations for each element of their first input."""
    _reductions.update(dict.fromkeys(types, operations))


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Forget at the end whatever formulas were registered inside: for tests, and for trying one out."""
    with _operators.scoped(), _layers.scoped():
        yield


def layer_cost(layer: Any) -> Formula | None:
    """Return the formula for a layer, if its class has one."""
    kind = type(layer)
    shipped = kind.__module__.partition(".")[0] in ("keras", "tf_keras")
    return _layers.get(kind) or (_layers.get(kind.__name__) if shipped else None)


def op_cost(call: OpCall) -> Cost | None:
    """Return the cost of one call, or None where it is not known.

    Raises `UnknownShapeError` where the cost follows from a shape that is not known.
    """
    formula = _operators.get(call.type)
    if formula is None:
        return _derived(call)
    try:
        cost = evaluated(call.type, lambda: formula(call), lambda: f"inputs={call.inputs}, outputs={call.outputs}")
    except Exception as error:
        if isinstance(error.__cause__, UnknownShapeError):
            raise error.__cause__ from None
        if isinstance(error.__cause__, UnknownCostError):
            return None
        raise
    return cost if cost.macs or call.has_floats else Cost(0, 0)


def _derived(call: OpCall) -> Cost | None:
    if call.type in _free:
        return Cost(0, 0)
    if call.type in _elementwise:
        counted = is_float(call.output_dtypes[0])
        return Cost(0, _elementwise[call.type] * call.outputs[0].numel if counted else 0)
    if call.type in _reductions:
        counted = is_float(call.input_dtypes[0])
        return Cost(0, _reductions[call.type] * call.inputs[0].numel if counted else 0)
    return None
