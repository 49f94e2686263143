"""Cost formulas that plugins offer to a backend."""

import gc
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hook_plugins import Priced, free
from plugin_fixtures import FAKE, make_offering

from profilerkit import (
    BackendInfo,
    CostFormulaError,
    PluginWarning,
    Profiler,
    RegistrationConflictError,
)
from profilerkit.costs import UNCOUNTED, Cost, CostRegistry, evaluate_formula
from profilerkit.hooks import backend_additions
from profilerkit.hooks.backend_additions import op_costs as costs_of_plugins
from profilerkit.hooks.manager import manager
from profilerkit.testing import FakeBackend, FakeModel


def test_cost_formulas_are_added_to_a_backend_once_at_its_first_use(install: Any, priced: BackendInfo) -> None:
    asked = []

    def op_costs(backend: Any) -> dict[str, Any]:
        asked.append(backend.name)
        return {"attend": free}

    install("mine", "my-costs", backends=make_offering(priced), op_costs=op_costs)
    manager()
    assert Priced.costs == {}
    Profiler(FakeModel())
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)
    Profiler(FakeModel(), backend="priced")
    Profiler(FakeModel(), backend=Priced())
    assert asked == ["priced"]
    assert [(plugin.name, dict(costs)) for plugin, costs in costs_of_plugins(Priced())] == [("mine", {"attend": free})]


def test_a_backend_with_a_table_of_its_own_gets_them_at_each_instance(install: Any) -> None:
    class Single(FakeBackend):
        name = "single"
        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            super().__init__()
            self.table = CostRegistry("single")

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Single)

        def add_costs(self, costs: Mapping[Any, Callable[..., Any]]) -> None:
            for op, formula in costs.items():
                self.table.register(op, formula, override=False)

    install("mine", "my-costs", op_costs=lambda: {"attend": free})
    first, second = Single(), Single()
    for backend in (first, second, first):
        Profiler(FakeModel(), backend=backend)
        assert list(backend.table) == ["attend"]
        assert [dict(costs) for _, costs in costs_of_plugins(backend)] == [{"attend": free}]
    kept = id(second)
    assert kept in backend_additions._formulas
    del backend, second
    gc.collect()
    assert kept not in backend_additions._formulas


@pytest.mark.parametrize("given", ["instance", "class"])
def test_a_backend_that_no_plugin_offers_gets_them_too(install: Any, priced: BackendInfo, given: str) -> None:
    class Mine(Profiler):
        backend_class = Priced

    install("mine", op_costs=lambda: {"attend": free})
    Profiler(FakeModel(), backend=Priced()) if given == "instance" else Mine(FakeModel())
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)


def test_a_plugin_is_named_whose_formula_returns_no_counts(install: Any, priced: BackendInfo) -> None:
    install("mine", "my-costs", backends=make_offering(priced), op_costs=lambda: {"attend": lambda: Cost(-3, 0)})
    Profiler(FakeModel())
    said = (
        r"^the cost formula of attend raised TypeError: it returned Cost\(macs=-3, flops=0\), which is no Cost of "
        r"whole numbers that are 0 or more; it was called with \(\); raised by plugin 'mine' of my-costs 1.0; to do "
    )
    with pytest.raises(CostFormulaError, match=said):
        evaluate_formula("attend", Priced.costs["attend"], lambda: "()")


def test_a_formula_of_a_plugin_may_leave_a_call_uncounted(install: Any, priced: BackendInfo) -> None:
    install("mine", "my-costs", backends=make_offering(priced), op_costs=lambda: {"attend": lambda: UNCOUNTED})
    Profiler(FakeModel())
    assert evaluate_formula("attend", Priced.costs["attend"], lambda: "()") is None


def test_two_plugins_that_offer_a_formula_for_one_operator(install: Any, priced: BackendInfo) -> None:
    install("a", "one", backends=make_offering(priced), op_costs=lambda: {"attend": free})
    install("b", "two", op_costs=lambda: {"other": free, "attend": free})
    message = (
        "two plugins offer a cost formula for attend to the priced backend: 'a' of one 1.0 and 'b' of two 1.0; "
        "uninstall one of the packages, or switch one plugin off: PROFILERKIT_DISABLE_PLUGINS=b"
    )
    for _ in range(2):  # it is no better the second time
        with pytest.raises(RegistrationConflictError) as caught:
            Profiler(FakeModel())
        assert str(caught.value) == message
    assert list(Priced.costs) == ["attend"]
    assert Priced.costs["attend"]() == Cost(0, 0)


def test_a_formula_for_an_operator_that_has_one_in_the_backend(install: Any, priced: BackendInfo) -> None:
    install("a", "one", backends=make_offering(priced), op_costs=lambda: {"own": free})
    message = (
        "plugin 'a' of one 1.0 offers a cost formula that the priced backend has already: operator own has a cost "
        "formula already; uninstall that package, or switch the plugin off: PROFILERKIT_DISABLE_PLUGINS=a"
    )
    with pytest.raises(RegistrationConflictError) as caught:
        Profiler(FakeModel())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([free], "raised TypeError: it returned .*, which is no mapping of operators to formulas"),
        ({"attend": 3}, "raised TypeError: the formula for attend is 3, which cannot be called"),
    ],
)
def test_formulas_of_the_wrong_kind_are_left_out(install: Any, priced: BackendInfo, costs: Any, message: str) -> None:
    install("a", "one", backends=make_offering(priced), op_costs=lambda: costs)
    with pytest.warns(PluginWarning, match=f"hook profilerkit_op_costs of plugin 'a' of one 1.0 {message}"):
        Profiler(FakeModel())
    assert Priced.costs == {}


def test_a_backend_that_takes_no_formulas_works_without_them(install: Any) -> None:
    install("a", "one", backends=make_offering(FAKE), op_costs=lambda: {"attend": free})
    message = (
        "cost formulas of plugin 'a' of one 1.0 for the fake backend are left out: NotOfferedError: the fake backend"
    )
    with pytest.warns(PluginWarning, match=message):
        Profiler(FakeModel())
    Profiler(FakeModel())  # said once
