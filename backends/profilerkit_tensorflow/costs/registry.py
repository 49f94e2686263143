"""The formulas of operator types and of layers.

A formula is a pure function of one call of an operator: the static shapes of its inputs and outputs, and its
attributes. Operators that move or choose data are known zeros, element-wise operators cost the same for each output
element, reductions for each input element. Any other operator is reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from profilerkit.costs import Cost, CostRegistry, Formula, Numbers, Shape, counted, evaluated
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

__all__ = [
    "COSTS",
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

F = TypeVar("F", bound="Callable[..., Cost]")
LayerF = TypeVar("LayerF", bound="Callable[..., Cost | None]")
#: A formula over the number of elements.
PerElements: TypeAlias = Callable[[int], Cost]

_free: set[str] = set()
_elementwise: dict[str, PerElements] = {}
_reductions: dict[str, PerElements] = {}


def _is_of_keras(key: Any) -> bool:
    """Return whether the key is that of a layer which Keras ships."""
    return isinstance(key, _Layer) and (isinstance(key.layer, str) or _ships(key.layer))


def _ships(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("keras", "tf_keras")


class _Layer(NamedTuple):
    """The key of a layer: Keras has a layer, and TensorFlow an operator, that are both called Conv2D."""

    layer: Any


COSTS = CostRegistry(
    "Keras",
    shipped=_is_of_keras,
    called_with={"operator": (("call",), ()), "layer": (("layer", "inputs", "outputs", "training"), ())},
)


class UnknownShapeError(Exception):
    """A formula read a shape that is not known in the graph."""


class UnknownCostError(Exception):
    """A formula does not know the cost of this variant of its operator: the call is reported as not counted."""


class Shapes(Sequence[Shape]):
    """The shapes of several tensors; reading one that is not known raises `UnknownShapeError`."""

    def __init__(self, shapes: Sequence[Shape | None]) -> None:
        self._shapes = tuple(shapes)

    def __getitem__(self, index: Any) -> Any:
        shape = self._shapes[index]
        if shape is None or (isinstance(index, slice) and None in shape):
            raise UnknownShapeError
        return shape

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self) -> str:
        return repr(self._shapes)


@dataclass(frozen=True)
class OpCall:
    """One call of an operator: the argument of a formula.

    Attributes:
        type: The operator's type: ``"Conv2D"``.
        inputs: Shapes of its inputs; a call whose formula reads an unknown one is reported as not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes: ``"float32"``.
        output_dtypes: Names of the outputs' dtypes.
        attribute: Returns the value of an attribute by name: ``call.attribute("data_format")`` is ``"NHWC"`` (a
            ``str``, never ``bytes``); ``None`` for an attribute that the operator lacks.
        value: Returns the value of an input by its index, as a numpy array, if it is known before the model runs, else
            ``None``.
        is_gradient_of_einsum: Whether it is an einsum that is the gradient of another one by one of its two terms.
    """

    type: str
    inputs: Shapes
    outputs: Shapes
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    attribute: Callable[[str], Any] = field(default=lambda name: None, compare=False)
    value: Callable[[int], Any] = field(default=lambda index: None, compare=False)
    is_gradient_of_einsum: bool = False

    @property
    def has_floats(self) -> bool:
        """Whether it takes or returns a floating-point or complex tensor; operations on integers are no FLOPs."""
        return any(map(is_float, (*self.input_dtypes, *self.output_dtypes)))

    @property
    def numbers(self) -> Numbers:
        """What numbers it works on: complex ones if one of its inputs is complex."""
        return Numbers.of(self.input_dtypes, self.output_dtypes)


def is_float(dtype: str) -> bool:
    """Return whether a dtype is a floating-point or complex one; quantized integers are not."""
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
            that it does not know, and lets `UnknownShapeError` pass. Of calls on integers alone two
            FLOPs for each MAC count, and no others; of calls on complex numbers `Cost.of_macs` returns four MACs and
            eight FLOPs for each.
        override: Replace an existing formula; without it that raises `RegistrationConflictError`.

    >>> @register_op_cost("MyAttention")
    ... def attend(call):
    ...     query, key, value = call.inputs
    ...     return Cost.of_macs(2 * query.numel * key[-2])
    """
    if not isinstance(op, str) or not op:
        raise ArgumentError(f"op={shown(op)}: give the type of an operator, such as 'Conv2D'")
    return COSTS.register(op, formula, override=override)


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
            returns a `Cost`, or None if the operators of the layer are to be counted instead.
        override: Replace an existing formula, or count a layer that comes with Keras by a formula and not
            by its operators; without it either raises `RegistrationConflictError`.
    """
    if not isinstance(layer_type, (type, str)):
        raise ArgumentError(f"layer_type={shown(layer_type)}: give a class or the name of one of Keras' layers")

    name = layer_type if isinstance(layer_type, str) else layer_type.__name__
    return COSTS.register(_Layer(layer_type), formula, override=override, kind="layer", name=name)


def register_free(*types: str) -> None:
    """Register operators that move or choose data and do no floating-point arithmetic."""
    _free.update(types)


def register_elementwise(formula: PerElements, *types: str) -> None:
    """Register operators whose cost is ``formula`` of the number of elements of their first output."""
    _elementwise.update(dict.fromkeys(types, formula))


def register_reduction(formula: PerElements, *types: str) -> None:
    """Register operators whose cost is ``formula`` of the number of elements of their first input."""
    _reductions.update(dict.fromkeys(types, formula))


def register_op_costs(*types: str) -> Callable[[F], F]:
    """Return a decorator that registers one formula for several operators."""

    def register(function: F) -> F:
        for op in types:
            register_op_cost(op, function)
        return function

    return register


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Remove, at the end, the formulas that were registered in this context: for tests and trials."""
    with COSTS.scoped():
        yield


def layer_cost(layer: Any) -> Formula | None:
    """Return the formula of a layer's class; None if it has none."""
    kind = type(layer)
    named = (_Layer(kind.__name__),) if _ships(kind) else ()
    return COSTS.get(_Layer(kind), *named)


def op_cost(call: OpCall) -> Cost | None:
    """Return the cost of one call, or None where it is not known.

    Raises `UnknownShapeError` if the formula reads a shape that is not known.
    """
    formula = COSTS.get(call.type)
    if formula is None:
        return _derived(call)
    try:
        cost = evaluated(
            call.type,
            lambda: formula(call),
            lambda: f"inputs={call.inputs}, outputs={call.outputs}",
            call.numbers,
        )
    except Exception as error:
        if isinstance(error.__cause__, UnknownShapeError):
            raise error.__cause__ from None
        if isinstance(error.__cause__, UnknownCostError):
            return None
        raise
    return cost


def _derived(call: OpCall) -> Cost | None:
    if call.type in _free:
        return Cost(0, 0)
    if call.type in _elementwise:
        elements = call.outputs[0].numel if is_float(call.output_dtypes[0]) else 0
        return counted(_elementwise[call.type], call.numbers, elements)
    if call.type in _reductions:
        elements = call.inputs[0].numel if is_float(call.input_dtypes[0]) else 0
        return counted(_reductions[call.type], call.numbers, elements)
    return None
