"""``@metric``: a plain function whose parameters are piped."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from profilerkit import (
    ArgumentError,
    Comparative,
    MissingArgumentError,
    Profiler,
    RegistrationConflictError,
    Scale,
    compare,
    hookimpl,
    metric,
    profile,
)
from profilerkit.hooks.manager import manager
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

MakeProfiler = Callable[..., Profiler]
X = FakeTensor((1, 3))


@metric("macs_per_param", better="lower", unit="MACs", description="Multiply-accumulates for each parameter.")
def macs_per_param(macs: int, total_params: int) -> float:
    """Return the one over the other."""
    return macs / total_params


@metric("scaled", better="higher", scale=Scale.SI, friendly_name="Scaled MACs", unit="MACs")
def scaled(macs: int, factor: int = 2) -> int:
    """Multiply-accumulates, times a factor of the caller's."""
    return macs * factor


def test_its_parameters_are_piped(model: FakeModel) -> None:
    report = profile(model, X, backend=FakeBackend(), functions=[macs_per_param, scaled], num_iters=2, factor=100)
    assert (report["macs_per_param"], report["scaled"]) == (10.0, 30_000)
    said = report.status("macs_per_param")
    assert (said.friendly_name, said.description, said.shown, said.comparative) == (
        "MACs per Param",
        "Multiply-accumulates for each parameter.",
        "10 MACs",
        Comparative.RECIPROCAL,
    )
    said = report.status("scaled")
    assert (said.friendly_name, said.description, said.shown, said.comparative) == (
        "Scaled MACs",
        "Multiply-accumulates, times a factor of the caller's.",
        "30 kMACs",
        Comparative.DIV,
    )
    assert {"macs", "execution_time"} <= set(report), "the others are there too"


def test_it_is_the_function_still() -> None:
    assert macs_per_param(300, total_params=30) == 10
    assert macs_per_param.__doc__ == "Return the one over the other."
    assert macs_per_param.key.NAME == macs_per_param.__name__ == "macs_per_param"
    assert pickle.loads(pickle.dumps(macs_per_param)) is macs_per_param
    assert copy.deepcopy(macs_per_param) is macs_per_param


def test_what_is_missing_of_what_it_needs_is_missing_of_it() -> None:
    uncounted = FakeModel([FakeLayer("a", params=5, macs=20, uncounted="my::op")])
    said = profile(uncounted, X, backend=FakeBackend(), functions=macs_per_param, metrics=["macs_per_param"])
    assert said.status("macs_per_param").missing == ("my::op (1 call)",)


def test_it_may_say_what_of_a_trace_it_follows_from(make_profiler: MakeProfiler) -> None:
    @metric("operators", derived_from="operators")
    def operators(trace: Any) -> int:
        return len(trace.operators)

    uncounted = FakeModel([FakeLayer("a", uncounted="my::op")])
    profiler = make_profiler(uncounted, operators)
    assert profiler.compute_status("operators") == 1
    assert profiler.status_get("operators", to_value=False).outcome.missing == ("my::op (1 call)",)


def test_it_is_computed_on_demand_alone_where_it_says_so(model: FakeModel) -> None:
    @metric("rare", on_demand=True)
    def rare(macs: int) -> int:
        return macs

    class Plugin:
        @hookimpl
        def profilerkit_profiler_functions(self) -> list[Any]:
            return [rare, scaled]

    plugin = Plugin()
    manager().register(plugin, name="with_metrics")
    try:
        report = profile(model, X, backend=FakeBackend(), num_iters=2)
        assert "scaled" in report
        assert "rare" not in report
        assert profile(model, X, backend=FakeBackend(), metrics=["rare"])["rare"] == 300
    finally:
        manager().unregister(plugin)


def test_it_is_compared(model: FakeModel) -> None:
    half = FakeModel([FakeLayer("a", params=30, macs=150)])
    comparison = compare(
        model, half, inputs=X, backend=FakeBackend(), functions=[macs_per_param], metrics=["macs_per_param"]
    )
    assert comparison.enhancement("macs_per_param") == 2


def test_a_name_that_is_taken() -> None:
    with pytest.raises(RegistrationConflictError, match="'macs_per_param'"):
        twin = metric("macs_per_param")(lambda macs: macs)
        profile(FakeModel(), X, backend=FakeBackend(), functions=[macs_per_param, twin])


def test_a_parameter_that_nothing_provides(make_profiler: MakeProfiler, model: FakeModel) -> None:
    @metric("lost")
    def lost(nowhere: int) -> int:
        return nowhere

    with pytest.raises(MissingArgumentError, match="an argument 'nowhere' that nothing provides: pass it"):
        make_profiler(model, lost).compute_status("lost")


def no_parameters() -> int:
    return 1


#: Where the decorator is written without its name.
not_a_name: Any = no_parameters


def variadic(macs: int, *others: int) -> int:
    return macs


def keywords(**others: int) -> int:
    return 1


def itself(mine: int) -> int:
    return mine


def strict(strict: bool) -> bool:
    return strict


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: metric("mine")(no_parameters), "no_parameters takes no parameters; name status keys"),
        (lambda: metric("mine")(variadic), r"variadic takes \*others.*, which cannot be passed by name"),
        (lambda: metric("mine")(keywords), r"keywords takes \*\*others"),
        (lambda: metric("mine")(itself), "itself takes 'mine', which is the metric itself"),
        (lambda: metric("mine")(strict), "strict takes 'strict', which compute_status and its like take"),
        (lambda: metric("mine")(3), r"@metric\('mine'\) is for a function, not 3; put it above a def"),  # type: ignore[arg-type]
        (lambda: metric(not_a_name), r"name=<function no_parameters.*: give the name of the metric, as in @metric"),
        (lambda: metric("two words"), "name='two words': give the name of the metric"),
        (lambda: metric("model"), "name='model': every profiler has 'model' already; give the metric another name"),
        (lambda: metric("trace"), "name='trace': every profiler has 'trace' already"),
        (lambda: metric("num_iters"), "name='num_iters': every profiler has 'num_iters' already"),
        (lambda: metric("mine", better="less"), "better='less': give 'lower', 'higher', or None where neither"),
        (lambda: metric("mine", scale="SI"), "scale='SI': give a member of Scale, such as Scale.SI"),  # type: ignore[arg-type]
        (lambda: metric("mine", on_demand="yes"), "on_demand='yes': give True or False"),  # type: ignore[arg-type]
        (lambda: metric("mine", unit=3), "unit=3: give a text"),  # type: ignore[arg-type]
        (lambda: metric("mine", derived_from="weight"), "derived_from='weight': give one of 'weights', 'layers'"),
        (lambda: metric("mine", formulas="x"), "metric takes no argument 'formulas'; of further facts it takes"),
    ],
)
def test_what_is_no_metric(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()
