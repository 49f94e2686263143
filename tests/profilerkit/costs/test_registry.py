"""A registry of formulas, and what a formula is given and returns."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from registry_checks import CHECKS

from profilerkit.costs import Cost, CostRegistry


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_of_the_registry(check: Callable[[], None]) -> None:
    check()


def test_the_formulas_of_a_backend_are_nobodys_own() -> None:
    """Those of the package that makes the registry, and profilerkit's; any other is the caller's or a plugin's."""
    registry = CostRegistry("mine", package="profilerkit_mine.costs")

    def formula_of(module: str) -> Callable[..., Cost]:
        def formula(*args: Any, **options: Any) -> Cost:
            return Cost(1, 2)

        formula.__module__ = module
        return formula

    for name, module in (
        ("a", "profilerkit_mine.costs.x"),
        ("b", "profilerkit.costs"),
        ("c", "profilerkit_mined"),
        ("d", "__main__"),
    ):
        registry.register(name, formula_of(module))
    registry.register("e", partial(formula_of("profilerkit_mine"), 1))
    assert sorted(registry.list_added()) == ["c", "d"]
    assert CostRegistry("of these tests").list_added() == {}


@pytest.mark.parametrize("package", ["profilerkit_onnx", "profilerkit_tensorflow", "profilerkit_torch"])
def test_a_backend_has_no_formula_of_the_callers_at_first(package: str) -> None:
    costs = pytest.importorskip(f"{package}.costs.registry").COSTS
    importlib.import_module(f"{package}.costs")
    assert len(list(costs)) > 80
    assert costs.list_added() == {}
