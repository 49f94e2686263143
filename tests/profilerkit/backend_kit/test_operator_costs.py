"""What the operators of a graph cost, by name: the numbers are those of the convention, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from profilerkit import ArgumentError, CostFormulaError, RegistrationConflictError
from profilerkit.backend_kit.operator_calls import OperatorCall, Shapes, UnknownCostError, UnknownShapeError
from profilerkit.backend_kit.operator_costs import OperatorCosts
from profilerkit.costs import UNCOUNTED, CallForm, Cost, CostRegistry, Shape, convention, elementwise, reduction

MATRIX, SCALAR = Shape((2, 3)), Shape()


@pytest.fixture
def operators() -> OperatorCosts:
    return OperatorCosts(CostRegistry("mine", called_with={"operator": CallForm(("call",))}), example="dot")


def call(
    name: str, *inputs: Shape | None, output: Shape | None = MATRIX, dtype: str = "float32", **values: Any
) -> OperatorCall:
    return OperatorCall(name, Shapes(inputs), Shapes([output]), (dtype,) * len(inputs), (dtype,), **values)


def test_what_is_not_registered_has_no_cost(operators: OperatorCosts) -> None:
    assert operators.cost(call("mystery", MATRIX)) is None
    assert not operators.is_known("mystery")


def test_what_moves_data_is_free_whatever_its_shapes(operators: OperatorCosts) -> None:
    operators.register_free("move", "choose")
    assert operators.cost(call("choose", None, output=None)) == (0, 0)
    assert operators.is_known("move")


def test_elements_are_those_of_the_output_or_of_the_input(operators: OperatorCosts) -> None:
    operators.register_elementwise(elementwise.elementary("EXP"), "exp")
    operators.register_reduction(reduction.total, "sum")
    assert operators.cost(call("exp", SCALAR)) == (0, 6 * convention.EXP)
    assert operators.cost(call("sum", MATRIX, output=SCALAR)) == (0, 6 * convention.ADD)
    assert operators.is_known("exp")
    assert operators.is_known("sum")


def test_shapes_that_are_needed_must_be_known(operators: OperatorCosts) -> None:
    operators.register_elementwise(elementwise.elementary("EXP"), "exp")
    operators.register_reduction(reduction.total, "sum")
    operators.register("first", lambda call: Cost(0, call.inputs[0].numel))
    assert operators.cost(call("exp", None)) == (0, 6 * convention.EXP)
    assert operators.cost(call("sum", MATRIX, output=None)) == (0, 6 * convention.ADD)
    for unknown in (call("exp", MATRIX, output=None), call("sum", None), call("first", None)):
        with pytest.raises(UnknownShapeError):
            operators.cost(unknown)


@pytest.mark.parametrize("dtype", ["int32", "bool", "qint8", ""])
def test_operations_on_integers_are_no_flops(operators: OperatorCosts, dtype: str) -> None:
    operators.register_elementwise(elementwise.elementary("EXP"), "exp")
    operators.register_reduction(reduction.total, "sum")
    operators.register("dot", lambda call: Cost.of_macs(5, 7))
    assert operators.cost(call("exp", None, output=None, dtype=dtype)) == (0, 0), "its shapes are not needed"
    assert operators.cost(call("sum", None, output=None, dtype=dtype)) == (0, 0)
    assert operators.cost(call("dot", MATRIX, dtype=dtype)) == (5, 10), "only its multiply-accumulates count"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "half", "double", "float8_e4m3fn"])
def test_dtypes_of_floats(operators: OperatorCosts, dtype: str) -> None:
    operators.register_elementwise(elementwise.elementary("ADD"), "add")
    assert call("add", MATRIX, dtype=dtype).has_floats
    assert operators.cost(call("add", MATRIX, dtype=dtype)) == (0, 6)


def test_a_complex_addition_is_two(operators: OperatorCosts) -> None:
    operators.register_elementwise(elementwise.elementary("ADD"), "add")
    operators.register("dot", lambda call: Cost.of_macs(1))
    assert operators.cost(call("add", MATRIX, dtype="complex64")) == (0, 12)
    assert operators.cost(call("dot", MATRIX, dtype="complex64")) == (4, 8)


def test_one_formula_for_several_operators(operators: OperatorCosts) -> None:
    @operators.register_all("a", "b")
    def formula(call: OperatorCall) -> Cost:
        return Cost(0, len(call.inputs))

    assert [operators.cost(call(name, MATRIX, MATRIX)) for name in "ab"] == [(0, 2), (0, 2)]
    assert formula(call("a")) == (0, 0)


def test_a_formula_stands_before_what_the_backend_registered(operators: OperatorCosts) -> None:
    operators.register_free("move")
    operators.register("move", lambda call: Cost(0, 5))
    assert operators.cost(call("move")) == (0, 5)
    with pytest.raises(RegistrationConflictError, match="operator move has a cost formula already; pass override=True"):
        operators.register("move", lambda call: Cost(0, 6))


def test_a_variant_of_unknown_cost_is_not_counted(operators: OperatorCosts) -> None:
    @operators.register("scan")
    def scan(call: OperatorCall) -> Cost:
        raise UnknownCostError

    assert operators.cost(call("scan")) is None


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (
            lambda call: 1 / 0,
            r"^the cost formula of dot raised ZeroDivisionError: .*; it was called with inputs=\(\(2, 3\)",
        ),
        (lambda call: 3, r"^the cost formula of dot returned 3, which is no Cost$"),
        (lambda call: Cost._make((0, 5.0)), r"of dot returned Cost\(macs=0, flops=5.0\), which is no Cost of whole nu"),
        (lambda call: Cost(-3, 0), r"of dot returned Cost\(macs=-3, flops=0\), .* that are 0 or more$"),
    ],
)
def test_a_formula_that_fails_is_named(
    operators: OperatorCosts, formula: Callable[[OperatorCall], Any], message: str
) -> None:
    operators.register("dot", formula)
    with pytest.raises(CostFormulaError, match=message):
        operators.cost(call("dot", MATRIX))


@pytest.mark.parametrize("op", [3, "", None])
def test_an_operator_is_registered_by_its_name(operators: OperatorCosts, op: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^op=.*: give the type of an operator, such as 'dot'$"):
        operators.register(op, lambda call: Cost(0, 0))


@pytest.mark.parametrize(("operand", "value", "flops"), [(0, 1.0, 6), (1, 1.0, 0), (1, 2.0, 6), (1, None, 6)], ids=str)
def test_a_neutral_element_is_free_where_it_is_neutral(
    operators: OperatorCosts, operand: int, value: float | None, flops: int
) -> None:
    operators.register_unless_neutral("DIVIDE", "div", neutral=1, operands=(1,))
    values = {operand: None if value is None else np.array(value, np.float32)}
    assert operators.cost(call("div", SCALAR, SCALAR, value=values.get)) == (0, flops * convention.DIVIDE)


def test_a_neutral_element_is_one_number_of_known_shape(operators: OperatorCosts) -> None:
    """Larger constants are not read: that may take long."""
    operators.register_unless_neutral("MULTIPLY", "mul", neutral=1, operands=(0, 1))

    def must_not_be_read(index: int) -> Any:
        raise AssertionError

    for other in (MATRIX, None):
        assert operators.cost(call("mul", MATRIX, other, value=must_not_be_read)) == (0, 6 * convention.MULTIPLY)
    assert operators.cost(call("mul", None, None, output=None, dtype="int64")) == (0, 0)


def test_shapes_are_a_sequence_whose_unknown_ones_cannot_be_read() -> None:
    shapes = Shapes([MATRIX, None, SCALAR])
    assert (len(shapes), shapes[0], shapes[-1], shapes[:1]) == (3, (2, 3), (), ((2, 3),))
    assert repr(shapes) == "((2, 3), None, ())"
    for index in (1, slice(0, 2)):
        with pytest.raises(UnknownShapeError):
            shapes[index]


def test_a_formula_may_say_that_a_call_is_not_counted(operators: OperatorCosts) -> None:
    """Every backend with such operators asks here: JAX, ONNX, TensorFlow, LiteRT and OpenVINO."""
    operators.register("dot", lambda call: UNCOUNTED.plus(Cost(1, 2)))
    for dtype in ("float32", "complex64", "int32"):
        assert operators.cost(call("dot", MATRIX, dtype=dtype)) is None
        assert operators.price(call("dot", MATRIX, dtype=dtype)).missing == "dot"
