"""Costs of the operators of a graph, by name: for frameworks whose operators have input and output shapes and dtypes.

A backend makes one `CostRegistry` for its formulas, and one `OperatorCosts` over it. Its adapters register operators,
and its trace asks for the price of one `OperatorCall` at a time. An operator is counted only if it is registered; all
others are reported as not counted: an operator that does no arithmetic has to be registered as free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

from ..costs import Cost, CostRegistry, apply_formula, elementwise, evaluate_formula
from ..costs.numbers import is_float
from ..error_text import shown
from ..errors import ArgumentError
from .operator_calls import OperatorCall, UnknownCostError, UnknownShapeError

__all__ = ["UNKNOWN_SHAPE", "OperatorCosts", "PerElements", "Price"]

F = TypeVar("F", bound="Callable[..., Cost]")
#: A formula over the number of elements, such as those of `profilerkit.costs.elementwise`.
PerElements: TypeAlias = Callable[[int], Cost]


#: How the names of uncounted operators end whose formula needs a size that is not known before the model runs.
UNKNOWN_SHAPE = " of unknown shape"


class Price(NamedTuple):
    """The cost of a call, and the work that is not counted, in words: empty if all is counted."""

    cost: Cost
    missing: str = ""


class OperatorCosts:
    """The costs of the operators of a framework, by name.

    An operator is registered in one of four ways: with a formula of its own, as free, as element-wise, or as a
    reduction. A formula of its own comes before the other three, so that users and plugins can replace the cost that a
    backend registers.

    Args:
        registry: Keeps the operators' own formulas. Make it with ``called_with={"operator": CallForm(("call",))}``: it
            then refuses a formula that cannot be called with one `OperatorCall`.
        example: The name of an operator, for the message to a user who registers a formula without a name.

    Attributes:
        registry: The operators' own formulas.
        free: The operators that move or choose data.
        elementwise: The formula of each element-wise operator, over the elements of its first output.
        reductions: The formula of each reduction, over the elements of its first input.

    >>> from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes
    >>> from profilerkit.costs import CallForm, CostRegistry, Shape, elementwise
    >>> registry = CostRegistry("example", called_with={"operator": CallForm(("call",))})
    >>> operators = OperatorCosts(registry, example="dot_general")
    >>> operators.register_elementwise(elementwise.elementary("ADD"), "add")
    >>> matrix = Shapes([Shape((2, 3))])
    >>> operators.cost(OperatorCall("add", Shapes([*matrix, *matrix]), matrix, ("float32",) * 2, ("float32",)))
    Cost(macs=0, flops=6)
    """

    def __init__(self, registry: CostRegistry, *, example: str) -> None:
        self.free: set[str] = set()
        self.elementwise: dict[str, PerElements] = {}
        self.reductions: dict[str, PerElements] = {}
        self.registry = registry
        self._example = example

    @overload
    def register(self, op: str, formula: None = None, *, override: bool = False) -> Callable[[F], F]: ...

    @overload
    def register(self, op: str, formula: F, *, override: bool = False) -> F: ...

    def register(self, op: str, formula: F | None = None, *, override: bool = False) -> Any:
        """Give the cost of an operator as a function of an `OperatorCall`; also usable as a decorator.

        Args:
            op: The operator, as the framework spells it: ``"Conv2D"`` for Keras, ``"dot_general"`` for JAX, ``"Conv"``
                for ONNX, or ``"com.example::Conv"`` in a domain that is not ONNX's own.
            formula: Called with the `OperatorCall`; returns a `Cost`. It raises `UnknownCostError` for a variant of the
                operator that it does not know, and lets `UnknownShapeError` pass. It need not ask for dtypes: in a call
                on integers alone only multiply-accumulates count, so that 4 MACs and 11 FLOPs become 4 and 8; in one on
                complex numbers `Cost.of_macs` returns four MACs and eight FLOPs for each.
            override: Replace an existing formula; without it that raises `RegistrationConflictError`.

        >>> from profilerkit.costs import CostRegistry
        >>> operators = OperatorCosts(CostRegistry("example"), example="dot_general")
        >>> @operators.register("attend")
        ... def attend(call):
        ...     query, key, value = call.inputs
        ...     return Cost.of_macs(2 * query.numel * key[-2])
        """
        if not isinstance(op, str) or not op:
            raise ArgumentError(f"op={shown(op)}: give the type of an operator, such as {self._example!r}")
        return self.registry.register(op, formula, override=override)

    def register_all(self, *types: str) -> Callable[[F], F]:
        """Return a decorator that registers one formula for several operators."""

        def register(function: F) -> F:
            for op in types:
                self.register(op, function)
            return function

        return register

    def register_free(self, *types: str) -> None:
        """Register operators that move or choose data and do no floating-point arithmetic."""
        self.free.update(types)

    def register_elementwise(self, formula: PerElements, *types: str) -> None:
        """Register operators whose cost is ``formula`` of the number of elements of their first output."""
        self.elementwise.update(dict.fromkeys(types, formula))

    def register_reduction(self, formula: PerElements, *types: str) -> None:
        """Register operators whose cost is ``formula`` of the number of elements of their first input."""
        self.reductions.update(dict.fromkeys(types, formula))

    def register_unless_neutral(self, constant: str, *types: str, neutral: float, operands: tuple[int, ...]) -> None:
        """Register a formula for element-wise operators that are free if an operand is known to be neutral.

        Frameworks and exporters write such operators where nothing is to be done, as ``x * 1.0``, and every runtime
        removes them.

        Args:
            constant: The name of the cost for each output element, in `profilerkit.costs.convention`.
            types: The operators.
            neutral: The neutral element: 0 for an addition.
            operands: The indices of the inputs that it may stand in: a subtraction of it is free, one from it is not.
        """
        function = elementwise.elementary(constant)

        @self.register_all(*types)
        def formula(call: OperatorCall) -> Cost:
            """One operation for each output element; none if an operand is known to be the neutral element."""
            for operand in operands:
                if call.is_constant(operand, neutral):
                    return Cost(0, 0)
            return function(call.outputs[0].numel) if call.has_floats else Cost(0, 0)

    def is_known(self, op: str) -> bool:
        """Return whether an operator is registered."""
        return op in self.registry or op in self.free or op in self.elementwise or op in self.reductions

    def cost(self, call: OperatorCall) -> Cost | None:
        """Return the cost of one call; None if the operator, or this variant of it, has no known cost.

        Raises:
            UnknownShapeError: If the formula reads a shape that is not known.
            CostFormulaError: If the formula raises another error, or returns no `Cost`.
        """
        formula = self.registry.get(call.type)
        if formula is not None:
            try:
                return evaluate_formula(
                    call.type,
                    partial(formula, call),
                    lambda: f"inputs={call.inputs}, outputs={call.outputs}",
                    call.numbers,
                    may_raise=(UnknownShapeError, UnknownCostError),
                )
            except UnknownCostError:
                return None
        if call.type in self.free:
            return Cost(0, 0)
        if call.type in self.elementwise:
            elements = call.outputs[0].numel if is_float(call.output_dtypes[0]) else 0
            return apply_formula(self.elementwise[call.type], call.numbers, elements)
        if call.type in self.reductions:
            elements = call.inputs[0].numel if is_float(call.input_dtypes[0]) else 0
            return apply_formula(self.reductions[call.type], call.numbers, elements)
        return None

    def price(self, call: OperatorCall) -> Price:
        """Return the cost of one call, with the work that is not counted.

        Raises `CostFormulaError` as `cost` does.
        """
        try:
            cost = self.cost(call)
        except UnknownShapeError:
            return Price(Cost(0, 0), missing=f"{call.type}{UNKNOWN_SHAPE}")
        return Price(Cost(0, 0), missing=call.type) if cost is None else Price(cost)

    def add_whole(self, formulas: Mapping[Any, Callable[..., Cost]]) -> None:
        """Register the formulas of a plugin by operator; if one of them is refused, register none."""
        self.registry.register_whole(formulas, self.register)
