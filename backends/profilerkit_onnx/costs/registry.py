"""Which formula gives the cost of which ONNX operator.

A formula is a pure function of one call of an operator: the shapes of its inputs and outputs, its attributes, and the
values that are known before the model runs. Operators that move or choose data are known zeros, element-wise operators
cost the same for each output element, reductions for each input element. What has no formula, and no function body in
the standard, is reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, overload

from profilerkit.costs import Cost, CostRegistry, Numbers, Shape, counted, evaluated
from profilerkit.error_text import shown
from profilerkit.errors import ArgumentError

__all__ = [
    "COSTS",
    "Cost",
    "NodeCall",
    "Shape",
    "UnknownCostError",
    "UnknownShapeError",
    "is_float",
    "is_known",
    "node_cost",
    "register_elementwise",
    "register_free",
    "register_op_cost",
    "register_op_costs",
    "register_reduction",
    "scoped_costs",
]

F = TypeVar("F", bound="Callable[..., Cost]")
#: The cost of an operator by the number of its elements.
PerElements: TypeAlias = Callable[[int], Cost]

_free: set[str] = set()
_elementwise: dict[str, PerElements] = {}
_reductions: dict[str, PerElements] = {}

COSTS = CostRegistry("ONNX", called_with={"operator": (("call",), ())})


class UnknownShapeError(Exception):
    """A formula asked for a shape that is not known before the model runs."""


class UnknownCostError(Exception):
    """A formula met a variant of its operator whose cost it does not know: the call is one that is not counted."""


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
class NodeCall:
    """One call of an operator, as formulas see it.

    Attributes:
        type: The operator: ``"Conv"``; of another domain than ONNX's own with the domain: ``"com.microsoft::Gelu"``.
        inputs: Shapes of its inputs; reading an unknown one makes the call one that is not counted.
        outputs: Shapes of its outputs.
        input_dtypes: Names of the inputs' dtypes: ``"float32"``; empty for an optional input that is left out.
        output_dtypes: Names of the outputs' dtypes.
        attributes: The attributes that the node has, by name; texts are ``str``.
        value: Returns the value of an input by its index, as a numpy array, where it is known before the model runs;
            ``None`` elsewhere.
    """

    type: str
    inputs: Shapes
    outputs: Shapes
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    value: Callable[[int], Any] = field(default=lambda index: None, compare=False)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; the default where the node lacks it."""
        return self.attributes.get(name, default)

    def has_input(self, index: int) -> bool:
        """Say whether an optional input is there."""
        return index < len(self.input_dtypes) and bool(self.input_dtypes[index])

    @property
    def has_floats(self) -> bool:
        """Whether it takes or returns a floating-point or complex tensor: work on integers is no FLOP."""
        return any(map(is_float, (*self.input_dtypes, *self.output_dtypes)))

    @property
    def numbers(self) -> Numbers:
        """What numbers it works on: complex ones if one of its inputs is complex."""
        return Numbers.of(self.input_dtypes, self.output_dtypes)


def is_float(dtype: str) -> bool:
    """Say whether a dtype is a floating-point or complex one."""
    return dtype.startswith(("float", "bfloat", "complex"))


@overload
def register_op_cost(op: str, formula: None = None, *, override: bool = False) -> Callable[[F], F]: ...


@overload
def register_op_cost(op: str, formula: F, *, override: bool = False) -> F: ...


def register_op_cost(op: str, formula: F | None = None, *, override: bool = False) -> Any:
    """Give the cost of an operator as a function of a `NodeCall`; also usable as a decorator.

    Args:
        op: The operator: ``"Conv"``, or with its domain where that is not ONNX's own: ``"com.example::Conv"``.
        formula: Called with the `NodeCall`; returns a `Cost`. It raises `UnknownCostError` for a variant of the
            operator that it does not know, and lets `UnknownShapeError` pass. Of calls on integers alone two
            FLOPs for each MAC count, and no others.
        override: Replace a formula that is there already; without it that raises `RegistrationConflictError`.

    >>> @register_op_cost("com.example::Attend")
    ... def attend(call):
    ...     query, key, value = call.inputs
    ...     return Cost.of_macs(2 * query.numel * key[-2])
    """
    if not isinstance(op, str) or not op:
        raise ArgumentError(f"op={shown(op)}: give the type of an operator, such as 'Conv'")
    return COSTS.register(op, formula, override=override)


def register_op_costs(*types: str) -> Callable[[F], F]:
    """Give several operators one formula: a decorator."""

    def register(function: F) -> F:
        for op in types:
            register_op_cost(op, function)
        return function

    return register


def register_free(*types: str) -> None:
    """Declare operators that move or choose data and do no floating-point arithmetic."""
    _free.update(types)


def register_elementwise(formula: PerElements, *types: str) -> None:
    """Declare operators that cost so much by the number of elements of their first output."""
    _elementwise.update(dict.fromkeys(types, formula))


def register_reduction(formula: PerElements, *types: str) -> None:
    """Declare operators that cost so much by the number of elements of their first input."""
    _reductions.update(dict.fromkeys(types, formula))


@contextmanager
def scoped_costs() -> Iterator[None]:
    """Forget at the end whatever formulas this context registered inside: for tests, and for trying one out."""
    with COSTS.scoped():
        yield


def is_known(op: str) -> bool:
    """Say whether an operator has a formula, or is known to cost nothing."""
    return op in COSTS or op in _free or op in _elementwise or op in _reductions


def node_cost(call: NodeCall) -> Cost | None:
    """Return the cost of one call, or None where it is not known.

    Raises `UnknownShapeError` where the cost follows from a shape that is not known.
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


def _derived(call: NodeCall) -> Cost | None:
    if call.type in _free:
        return Cost(0, 0)
    if call.type in _elementwise:
        elements = call.outputs[0].numel if is_float(call.output_dtypes[0]) else 0
        return counted(_elementwise[call.type], call.numbers, elements)
    if call.type in _reductions:
        elements = call.inputs[0].numel if is_float(call.input_dtypes[0]) else 0
        return counted(_reductions[call.type], call.numbers, elements)
    return None
