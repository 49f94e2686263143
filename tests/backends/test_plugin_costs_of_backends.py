"""Formulas that plugins offer to each backend: for operators by name, for layers by class."""

from __future__ import annotations

import pytest
from frameworks import Framework
from hook_plugins import free, lasting_for_a_test

from profilerkit import RegistrationConflictError


def test_a_backend_takes_formulas_for_operators_and_layers(framework: Framework) -> None:
    class Attention(framework.layer_class):  # type: ignore[misc,name-defined]
        """A layer with a formula of its own."""

    costs, backend = framework.costs.COSTS, framework.backend
    with lasting_for_a_test(costs):
        backend.add_costs({framework.new_operator: free, Attention: free})  # type: ignore[attr-defined]
        assert framework.formula_of_layer(Attention()) is free
        assert costs.get(framework.new_operator) is free
        with pytest.raises(
            RegistrationConflictError, match=f"operator {framework.matmul}.* has a cost formula already"
        ):
            backend.add_costs({"mylib::new": free, framework.matmul: free})  # type: ignore[attr-defined]
        assert costs.get("mylib::new") is None, "all of them or none"
