"""Formulas are checked when they are registered, not when a model is counted a minute later."""

from typing import Any

import pytest
import torch
from torch import nn

from profilerkit import ArgumentError
from profilerkit_torch import Cost, costs, register_module_cost, register_op_cost


def good(*shapes: Any, out: Any) -> Cost:
    return Cost(1, 2)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (3, "formula=3 for operator mylib::x is no function"),
        ("good", "formula='good' for operator mylib::x is no function"),
        (Cost, "formula=.*Cost.* for operator mylib::x is no function"),
        (lambda q: Cost(1, 2), "cannot be called as formulas are, with out=: got an unexpected keyword argument 'out'"),
    ],
)
def test_what_is_no_formula_of_an_operator(formula: Any, said: str) -> None:
    with costs.scoped_costs():
        for register in (
            lambda: register_op_cost("mylib::x", formula),
            lambda: register_op_cost("mylib::x")(formula),
            lambda: costs.override({"mylib::x": formula}).__enter__(),
        ):
            with pytest.raises(ArgumentError, match=said):
                register()
        register_op_cost("mylib::x", good)


@pytest.mark.parametrize("formula", [3, nn.Linear, lambda: Cost(1, 2), lambda module, inputs: Cost(1, 2)])
def test_what_is_no_formula_of_a_module(formula: Any) -> None:
    with (
        costs.scoped_costs(),
        pytest.raises(ArgumentError, match=r"formula=.* for module Linear (is no|cannot)"),
    ):
        register_module_cost(nn.Linear, formula)


def test_without_a_function_the_operator_is_checked_at_once() -> None:
    """``@register_op_cost`` without parentheses, or a name that is none, must not leave a decorator behind."""
    with pytest.raises(ArgumentError, match=r"op=<function good.*: cannot tell which operator it is"):
        register_op_cost(good)
    for wrong in (3, "linear", None, torch.ones(2), torch.add):
        with pytest.raises(ArgumentError, match="op=.*: cannot tell which operator it is"):
            register_op_cost(wrong)
    none: list[Any] = [3, good, int, nn.Linear(1, 1), None]
    for name in none:
        with pytest.raises(ArgumentError, match="module_type=.*: give a subclass of torch.nn.Module"):
            register_module_cost(name, good)
    with costs.scoped_costs(), pytest.raises(ArgumentError, match="override='yes': give True or False"):
        register_op_cost("mylib::x", good, override="yes")  # type: ignore[call-overload]
