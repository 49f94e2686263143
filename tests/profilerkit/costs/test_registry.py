"""A registry of formulas, and what a formula is given and returns."""

from __future__ import annotations

import contextvars
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from profilerkit import ArgumentError, CostFormulaError, RegistrationConflictError
from profilerkit.costs import CallForm, CostRegistry, convention, cost, evaluate_formula, registry


def one(*_: Any, **__: Any) -> Any:
    return cost.Cost(0, 1)


def two(*_: Any, **__: Any) -> Any:
    return cost.Cost(0, 2)


def three(*_: Any, **__: Any) -> Any:
    return cost.Cost(0, 3)


def made(**options: Any) -> Any:
    return registry.CostRegistry("mine", **options)


def test_what_is_registered_is_found() -> None:
    costs = made()
    assert costs.register("a", one) is one
    assert costs.register("b")(two) is two
    assert (costs.get("a"), costs.get("b"), costs.get("c")) == (one, two, None)
    assert costs.get("c", "b", "a") is two, "the first of the keys that has one"
    assert list(costs) == ["a", "b"]
    assert "a" in costs
    assert "c" not in costs


def test_a_second_formula_needs_override() -> None:
    costs = made()
    costs.register("a", one)
    with pytest.raises(RegistrationConflictError, match=r"^operator a has a cost formula already; pass override=True"):
        costs.register("a", two)
    with pytest.raises(RegistrationConflictError, match=r"^layer Long has a cost formula already"):
        costs.register("a", two, kind="layer", name="Long")
    with pytest.raises(RegistrationConflictError):
        costs.register("a", one)
    assert costs.get("a") is one
    assert costs.register("a", two, override=True) is two
    assert costs.get("a") is two


def test_a_layer_that_the_framework_ships_needs_override() -> None:
    costs = made(shipped=lambda key: key is int)
    with pytest.raises(RegistrationConflictError, match=r"^layer int comes with mine, .* pass override=True"):
        costs.register(int, one, kind="layer", name="int")
    assert costs.get(int) is None
    costs.register(float, one, kind="layer", name="float")
    costs.register(int, one, kind="layer", name="int", override=True)
    assert (costs.get(int), costs.get(float)) == (one, one)
    assert made(shipped=lambda key: True).register("a", one) is one, "an operator is none"
    assert made().register(int, one, kind="layer") is one


def test_what_cannot_be_called_is_no_formula() -> None:
    costs = made()
    for formula in (3, "mm", int):
        with pytest.raises(ArgumentError, match=r"^formula=.* for operator a is no function; give one that returns a"):
            costs.register("a", formula)
        with pytest.raises(ArgumentError, match=r" for layer Long is no function"):
            costs.register("a", formula, kind="layer", name="Long")
    with pytest.raises(ArgumentError, match=r"^formula=3 for operator a is no function"), costs.override({"a": 3}):
        raise AssertionError("the block is not entered")
    assert list(costs) == []


def test_what_cannot_be_called_as_formulas_are_is_refused() -> None:
    costs = made(called_with={"operator": CallForm(keywords=("out",)), "layer": CallForm(("layer", "inputs"))})
    with pytest.raises(ArgumentError, match=r"for operator a cannot be called as formulas are, with out=: "):
        costs.register("a", lambda x: one())
    with pytest.raises(ArgumentError, match=r"for layer b cannot be called as formulas are, with layer, inputs: "):
        costs.register("b", lambda layer: one(), kind="layer")
    with (
        pytest.raises(ArgumentError, match=r"for layer b cannot be called"),
        costs.override({"b": lambda layer: one()}, kind=lambda key: "layer"),
    ):
        raise AssertionError("the block is not entered")
    assert list(costs) == []
    costs.register("a", lambda x, *, out: one())
    costs.register("b", lambda layer, inputs: one(), kind="layer")
    costs.register("c", lambda x: one(), kind="something else")
    costs.register("d", min)  # one of C's, which does not tell
    assert list(costs) == ["a", "b", "c", "d"]


def test_a_scope_forgets() -> None:
    costs = made()
    costs.register("a", one)
    with costs.scoped():
        costs.register("a", two, override=True)
        costs.register("b", three)
        assert (costs.get("a"), costs.get("b")) == (two, three)
        with costs.scoped():
            costs.register("c", one)
            assert costs.get("c") is one
        assert costs.get("c") is None
        with pytest.raises(RegistrationConflictError):
            costs.register("b", one)
    assert (costs.get("a"), costs.get("b")) == (one, None)
    assert list(costs) == ["a"]


def test_a_scope_forgets_after_an_error_too() -> None:
    costs = made()
    with pytest.raises(ZeroDivisionError), costs.scoped():
        costs.register("a", one)
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), costs.override({"a": one}):
        raise ZeroDivisionError
    assert costs.get("a") is None


def test_an_override_stands_first_and_takes_nothing() -> None:
    costs = made()
    costs.register("a", one)
    with costs.override({"a": two}):
        assert costs.get("a") is two
        with costs.override({"a": three}):
            assert costs.get("a") is three
        assert costs.get("a") is two
        costs.register("b", three)
    assert (costs.get("a"), costs.get("b")) == (one, three)


def test_a_formula_is_registered_behind_an_override_of_its_key() -> None:
    costs = made()
    with costs.override({"a": two}):
        costs.register("a", one)  # as a plugin that is loaded now
        assert costs.get("a") is two
        with pytest.raises(RegistrationConflictError):
            costs.register("a", three)
    assert costs.get("a") is one


def test_another_thread_sees_no_scope() -> None:
    costs = made()
    found: list[Any] = []
    costs.register("a", one)
    with costs.override({"a": two}), costs.scoped():
        costs.register("b", two)
        thread = threading.Thread(target=lambda: found.extend((costs.get("a"), costs.get("b"))))
        thread.start()
        thread.join()
    assert found == [one, None]


def test_two_registries_are_apart() -> None:
    first, second = made(), made()
    with first.scoped():
        first.register("a", one)
        second.register("a", two)
    assert (first.get("a"), second.get("a")) == (None, two)


def test_the_version_changes_with_every_change() -> None:
    costs = made()
    seen = [costs.version]
    costs.register("a", one)
    seen.append(costs.version)
    with costs.scoped():
        seen.append(costs.version)
        costs.register("b", one)
        seen.append(costs.version)
    seen.append(costs.version)
    with costs.override({"a": two}):
        seen.append(costs.version)
    seen.append(costs.version)
    assert len(set(seen)) == len(seen)
    assert costs.version == costs.version


def test_two_contexts_with_formulas_of_their_own_have_two_versions() -> None:
    """What is derived in one is not taken in the other, though as many changes were made when it is."""
    costs = made()
    blocks = [costs.override({"a": formula}) for formula in (one, two)]
    contexts = [contextvars.copy_context() for _ in blocks]
    for context, block in zip(contexts, blocks, strict=True):
        context.run(block.__enter__)
    versions = [context.run(lambda: costs.version) for context in contexts]
    for context, block in zip(contexts, blocks, strict=True):
        context.run(block.__exit__, None, None, None)
    assert versions[0] != versions[1]


def test_of_several_formulas_all_are_registered_or_none() -> None:
    costs = made()
    costs.register("c", one)
    with pytest.raises(RegistrationConflictError):
        costs.register_whole({"a": one, "b": two, "c": three}, costs.register)
    assert (list(costs), costs.get("a"), costs.get("c")) == (["c"], None, one)
    costs.register_whole({"a": one, "b": two}, lambda key, formula: costs.register(f"x::{key}", formula))
    assert (costs.get("x::a"), costs.get("x::b")) == (one, two)


def test_the_formulas_of_a_plugin_stay_after_the_block_in_which_it_is_loaded() -> None:
    """It is loaded by the first profile, and not again: what a user tries in a block is neither in its way nor lost."""
    costs = made()
    with costs.scoped():
        costs.register("a", two)
        costs.register_whole({"a": one, "b": one}, costs.register)
        assert (costs.get("a"), costs.get("b")) == (two, one), "the user's own comes first"
        costs.register("c", three)
        with pytest.raises(RegistrationConflictError):
            costs.register_whole({"d": one, "b": two}, costs.register)
    assert (costs.get("a"), costs.get("b"), costs.get("c"), costs.get("d")) == (one, one, None, None)


def test_what_a_plugin_returns_is_read() -> None:
    assert registry.read_formulas(None) == {}
    assert registry.read_formulas({"a": one}) == {"a": one}
    with pytest.raises(TypeError, match=r"^it returned \[1\], which is no mapping of operators to formulas$"):
        registry.read_formulas([1])
    with pytest.raises(TypeError, match=r"^the formula for a is 3, which cannot be called$"):
        registry.read_formulas({"b": one, "a": 3})


def test_a_multiply_accumulate_is_a_product_and_a_sum() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(convention, "MULTIPLY", 100)
        monkeypatch.setattr(convention, "ADD", 10_000)
        assert cost.Cost.of_macs(3, 4) == (3, 30_304)


def test_a_cost_adds_up() -> None:
    assert cost.Cost.of_macs(3) == (3, 6)
    assert cost.Cost.of_macs(3, 4) == (3, 10)
    assert cost.Cost(1, 2).plus(cost.Cost(30, 40)) == (31, 42)
    assert cost.Cost(1, 2).times(5) == (5, 10)
    assert not cost.UNCOUNTED.is_counted
    assert cost.Shape((2, 3)).numel == 6
    assert cost.Shape().numel == 1


def test_a_formula_of_each_element_keeps_its_name() -> None:
    @cost.per_element
    def twice(more: int = 0) -> int:
        """``2 * x``."""
        return 2 + more

    assert twice(5) == (0, 10)
    assert twice(5, more=1) == (0, 15)
    assert twice.operations() == 2
    assert (twice.__name__, twice.__doc__) == ("twice", "``2 * x``.")
    assert repr(twice) == f"{__name__}.twice"


def test_what_a_formula_returns_is_checked() -> None:
    assert evaluate_formula("a", one, lambda: "") == (0, 1)

    def fails() -> Any:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(
        CostFormulaError, match=r"^the cost formula of a raised ZeroDivisionError: by nothing; it was called with x$"
    ) as raised:
        evaluate_formula("a", fails, lambda: "x")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(CostFormulaError, match=r"^the cost formula of a returned \(0, 1\), which is no Cost"):
        evaluate_formula("a", lambda: (0, 1), lambda: "x")


def test_counts_are_of_pythons_own_integers() -> None:
    """Three of `numpy.uint8(200)` were 88: those of numpy's integers wrap around where they are added up."""
    numbers: list[Any] = [np.uint8(200), np.int32(200), np.array(200)]
    for number in numbers:
        counted = evaluate_formula("a", partial(cost.Cost, number, number), lambda: "")
        assert counted is not None
        assert [type(count) for count in counted] == [int, int]
        assert counted.times(3) == (600, 600)
    with pytest.raises(CostFormulaError, match="which is no Cost of whole numbers that are 0 or more$"):
        evaluate_formula("a", lambda: cost.Cost(np.array([1, 2]), 3), lambda: "")  # type: ignore[arg-type]
    with pytest.raises(CostFormulaError, match=r"^the cost formula of a returned <Silent .*>, which is no Cost$"):
        evaluate_formula("a", Silent, lambda: "")


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError


def test_the_formulas_of_a_backend_are_nobodys_own() -> None:
    """Those that it has for their own keys; any other is the caller's or a plugin's, wherever its function is from."""
    costs = made()
    costs.register("a", one)
    costs.register("b", two)
    costs.mark_as_shipped()
    assert costs.list_added() == {}
    with costs.override({"a": one, "b": one}):
        assert costs.list_added() == {"b": one}, "a is counted as it was"
    assert costs.list_added() == {}
    with costs.scoped():
        costs.register("c", two)
        assert costs.list_added() == {"c": two}
    assert costs.list_added() == {}
    costs.register("a", two, override=True)
    assert costs.list_added() == {"a": two}
    costs.register("a", one, override=True)
    assert costs.list_added() == {}


@pytest.fixture(params=["jax", "litert", "onnx", "openvino", "tensorflow", "torch"])
def costs_of_backend(request: pytest.FixtureRequest) -> CostRegistry:
    found: CostRegistry = pytest.importorskip(f"profilerkit_{request.param}.costs").COSTS
    return found


def test_a_backend_has_no_formula_of_the_callers_at_first(costs_of_backend: CostRegistry) -> None:
    assert len(list(costs_of_backend)) > 20
    assert costs_of_backend.list_added() == {}


def test_a_formula_of_a_backend_for_another_operator_is_the_callers(costs_of_backend: CostRegistry) -> None:
    shipped = {key: formula for key in costs_of_backend if (formula := costs_of_backend.get(key)) is not None}
    key, other = next((key, other) for key in shipped for other in shipped.values() if other is not shipped[key])
    with costs_of_backend.override({key: other}):
        assert costs_of_backend.list_added() == {key: other}
