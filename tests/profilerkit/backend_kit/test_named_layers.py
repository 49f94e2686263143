"""Layers by the names of operators: their types, and which call of a layer an operator is in."""

from __future__ import annotations

from profilerkit.backend_kit.named_layers import CallCounter, TypedOperator, name_types
from profilerkit.backend_kit.scoped_calls import Scope


def test_a_layer_has_the_type_of_its_first_operator_with_a_weight_then_of_its_last_with_arithmetic() -> None:
    operators = [
        TypedOperator("block.conv", "Pad", False, is_free=True),
        TypedOperator("block.conv", "Conv", True),
        TypedOperator("block.conv", "Gemm", True),
        TypedOperator("block.conv", "Relu", False),
        TypedOperator("block", "Add", False),
        TypedOperator("gate", "Mul", False),
        TypedOperator("gate", "Sigmoid", False),
        TypedOperator("gate", "Reshape", False, is_free=True),
        TypedOperator("turn", "Reshape", False, is_free=True),
        TypedOperator("turn", "Transpose", False, is_free=True),
        TypedOperator("", "Softmax", False),
    ]
    types = name_types("Net", operators)
    expected = {"": "Net", "block": "Module", "block.conv": "Conv", "gate": "Sigmoid", "turn": "Transpose"}
    assert list(types.items()) == list(expected.items())
    assert name_types("Net", operators, with_containers=True) == {**expected, "block": "Add"}


def test_a_layer_that_is_entered_again_by_its_first_operator_is_called_again() -> None:
    counter = CallCounter()
    block = (Scope("block"),)
    inner = (*block, Scope("block.inner"))
    told = [
        counter.enter("Conv", inner, True),
        counter.enter("Relu", block, True),
        counter.enter("Reshape", (), False),  # what a converter adds ends no call
        counter.enter("Conv", inner, True),
        counter.enter("Relu", (), True),  # of the model itself: the block is left
        counter.enter("Relu", block, True),  # the block began with another operator: the rest of its call
    ]
    root, first = Scope(""), Scope("block")
    assert told == [
        (root, first, Scope("block.inner")),
        (root, first),
        (root,),
        (root, first, Scope("block.inner", 1)),
        (root,),
        (root, first),
    ]
