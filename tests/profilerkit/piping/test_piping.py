"""How a function gets its arguments, and what is remembered of a value."""

import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from time_limits import join

from profilerkit import (
    ArgumentWarning,
    Completeness,
    DependencyCycleError,
    Failure,
    Metric,
    MissingArgumentError,
    Partial,
    Profiler,
    ProfilerFunction,
    Unavailable,
    UnknownStatusError,
    compare,
    profile,
)
from profilerkit.testing import FakeBackend, FakeClock, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.bounds import Bounds
from profilerkit_metrics import ComputeComplexity

MakeProfiler = Callable[..., Profiler]


def make_function(call: Callable[..., Any], *names: str) -> ProfilerFunction:
    """Make a profiler function of a plain one, with its signature, for metrics of these names."""
    keys = [type(name.title(), (Metric,), {"NAME": name}) for name in names]

    class Computes(ProfilerFunction):
        def get_bounded_status_keys(self) -> Any:
            return keys

        def parameters(self) -> Mapping[str, inspect.Parameter]:
            return inspect.signature(call).parameters

        def __call__(self, **arguments: Any) -> Any:
            return call(**arguments)

    return Computes()


def test_the_caller_comes_first_then_the_profiler_then_statuses_then_defaults(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    def collect(model: Any, backend: Any, profiler: Any, data_splits: Any, base: Any, scale: Any = 3) -> Any:
        return model, backend.name, profiler.name, dict(data_splits), base, scale

    profiler = make_profiler(model, make_function(lambda: 5, "base"), make_function(collect, "collected"))
    assert profiler.compute_status("collected") == (model, "fake", "FakeModel", {}, 5, 3)
    given = profiler.compute_status("collected", model="other", base=7, scale=1)
    assert given == ("other", "fake", "FakeModel", {}, 7, 1)


def test_a_parameter_named_like_a_status_gets_its_value(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(
        model,
        make_function(lambda trace: {"macs": trace.macs, "params": trace.total_params}, "macs", "params"),
        make_function(lambda macs, params: macs / params, "intensity"),
        make_function(lambda intensity: -intensity, "negated"),
    )
    assert profiler.compute_status("negated") == -10.0  # 300 MACs over 30 parameters
    assert profiler.status_get("macs") == 300, "what it was computed from is there too"


def test_arguments_reach_the_statuses_a_function_needs(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(
        model, make_function(lambda trace: trace.macs, "macs"), make_function(lambda macs: macs + 1, "more")
    )
    assert profiler.compute_status("more", batch_size=4) == 1201
    assert profiler.compute_status("more") == 301


def test_a_missing_argument_names_function_parameter_and_both_ways(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, make_function(lambda threshold: threshold, "thresholded"))
    with pytest.raises(MissingArgumentError) as caught:
        profiler.compute_status("thresholded")
    assert str(caught.value) == (
        "Computes needs an argument 'threshold' that nothing provides: pass it (compute_status(..., threshold=...)), "
        "or register a function that computes the status key 'threshold'"
    )
    assert isinstance(caught.value, TypeError)
    assert profiler.compute_status("thresholded", threshold=0.5) == 0.5


@pytest.mark.parametrize(
    ("wrong", "meant"), [("totl_params", "total_params"), ("data_split", "data_splits"), ("paramss", "params")]
)
def test_a_misspelt_parameter_is_told_what_it_resembles(
    wrong: str, meant: str, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    function = make_function(eval(f"lambda {wrong}: {wrong}"), "copied")
    with pytest.raises(MissingArgumentError, match=f"{wrong!r} that nothing provides.*; did you mean {meant!r}\\?$"):
        make_profiler(model, ComputeComplexity(), function).compute_status("copied")


def test_every_alias_is_a_parameter_as_the_name_is(model: FakeModel, make_profiler: MakeProfiler) -> None:
    """A parameter with a default is an option: one called "size" keeps its default, whatever has that alias."""
    profiler = make_profiler(model).register_defaults()
    aliases = {alias: binding.key.NAME for binding in profiler._registry for alias in binding.key.ALIASES}
    assert aliases["params"] == "total_params"
    for alias, name in aliases.items():
        own, option = f"own_{alias}", f"option_{alias}"
        profiler.register_profiler_function(make_function(eval(f"lambda {alias}: {alias}"), own))
        profiler.register_profiler_function(make_function(eval(f"lambda {alias}=7: {alias}"), option))
        assert profiler.compute_status(own) is profiler.compute_status(name)
        assert profiler.compute_status(option) == 7
        assert profiler.compute_status(own, **{alias: 5}) == 5  # type: ignore[arg-type]
        assert profiler._registry.find_need(own) is profiler._registry.find_need(name)


def test_a_circle_is_printed(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(
        model,
        make_function(lambda b: b, "a"),
        make_function(lambda c: c, "b"),
        make_function(lambda a: a, "c"),
        make_function(lambda itself: itself, "itself"),
    )
    with pytest.raises(DependencyCycleError, match="in a circle: a -> b -> c -> a; break it"):
        profiler.compute_status("a")
    with pytest.raises(DependencyCycleError, match="itself -> itself"):
        profiler.compute_status("itself")
    assert profiler.compute_status("a", b=1) == 1, "an argument breaks the circle"


def test_a_function_that_asks_the_profiler_for_its_own_key_is_a_circle_too(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, make_function(lambda profiler: profiler.compute_status("a"), "a"))
    with pytest.raises(DependencyCycleError, match="a -> a"):
        profiler.compute_status("a")
    with pytest.raises(DependencyCycleError, match="a -> a"):
        profiler.compute_status("a")


def test_threads_do_not_take_each_other_for_circles(model: FakeModel, make_profiler: MakeProfiler) -> None:
    inside, done = threading.Event(), threading.Event()

    def slow() -> int:
        inside.set()
        return int(done.wait(10))

    profiler = make_profiler(model, make_function(slow, "slow"), make_function(lambda slow: slow, "after"))
    thread = threading.Thread(target=profiler.compute_status, args=("slow",))
    thread.start()
    inside.wait(10)
    done.set()
    assert profiler.compute_status("after") == 1
    join(thread)


def test_a_changed_model_is_computed_anew(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, make_function(lambda trace: trace.total_params, "params"))
    assert profiler.compute_status("params") == 30
    model.layers.pop()
    assert profiler.compute_status("params") == 10


def test_a_typo_is_warned_of_with_the_nearest_name(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, make_function(lambda trace, factor=1: factor, "f"))
    with pytest.warns(ArgumentWarning, match="no registered function takes an argument 'batchsize'; did you mean 'bat"):
        profiler.compute_status("f", batchsize=2)
    with pytest.warns(ArgumentWarning, match="'zzz'; they take: backend, batch_size, call, data_splits, factor"):
        profiler.compute_network_status(zzz=2)


def test_an_unknown_status_is_said_before_a_typo(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, make_function(lambda: 1, "macs"), make_function(lambda: 1, "size"))
    with pytest.raises(
        UnknownStatusError, match="unknown metric 'mac'; this profiler knows, nearest first: macs, size"
    ):
        profiler.compute_status("mac", typo=1)


def make_counting() -> tuple[Callable[..., int], list[Any]]:
    calls: list[Any] = []

    def count(trace: Any, factor: Any = 1) -> int:
        calls.append(factor)
        return len(calls)

    return count, calls


def test_the_same_arguments_are_free_others_are_computed_anew(model: FakeModel, make_profiler: MakeProfiler) -> None:
    count, calls = make_counting()
    profiler = make_profiler(model, make_function(count, "counted"))
    assert [profiler.compute_status("counted"), profiler.compute_status("counted")] == [1, 1]
    assert profiler.compute_status("counted", factor=2) == 2
    assert profiler.compute_status("counted", factor=2) == 2
    assert profiler.compute_status("counted", batch_size=4) == 3, "another trace is another argument"
    assert profiler.compute_status("counted", batch_size=4, recompute=True) == 4
    assert calls == [1, 2, 1, 1]


def test_all_keys_of_a_function_are_those_of_the_last_arguments(model: FakeModel, make_profiler: MakeProfiler) -> None:
    calls: list[int] = []

    def both(batch_size: int, trace: Any) -> dict[str, int]:
        calls.append(batch_size)
        return {"one": 10 * batch_size, "two": -batch_size}

    profiler = make_profiler(model, make_function(both, "one", "two"), make_function(lambda one, two: one - two, "sum"))
    for batch_size in (1, 1, 2, 1):
        assert profiler.compute_status("sum", batch_size=batch_size) == 11 * batch_size
        assert profiler.status_get("two") == -batch_size, "the other key of the function is of the same arguments"
    assert calls == [1, 2, 1]


def test_a_value_of_the_model_as_it_was_is_not_taken_for_one_of_now(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    count, calls = make_counting()
    profiler = make_profiler(model, make_function(count, "counted"))
    assert [profiler.compute_status("counted", factor=factor) for factor in (1, 2)] == [1, 2]
    profiler.model = FakeModel(model.layers[:1])
    assert [profiler.compute_status("counted", factor=factor) for factor in (1, 2, 2)] == [3, 4, 4]
    assert len(calls) == 4


def test_arguments_are_compared_by_identity_where_equality_says_nothing(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("the truth of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    count, calls = make_counting()
    profiler = make_profiler(model, make_function(count, "counted"))
    one, other = Array(), Array()
    for array in (one, one, other):
        profiler.compute_status("counted", factor=array)
    assert len(calls) == 2


def test_one_call_serves_all_keys_of_a_function(model: FakeModel, make_profiler: MakeProfiler) -> None:
    calls = []

    def both(trace: Any) -> dict[str, int]:
        calls.append(1)
        return {"left": 1, "right": 2}

    profiler = make_profiler(model, make_function(both, "left", "right"))
    profiler.compute_network_status()
    assert len(calls) == 1
    profiler.compute_network_status(recompute=True)
    assert len(calls) == 2
    assert (profiler.compute_status("left"), profiler.compute_status("right")) == (1, 2)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("returned", "names", "message"),
    [
        ({"other": 1}, ("mine",), "for 'mine' but returned a dict without 'mine', with the keys: 'other'"),
        ({}, ("mine",), "with the keys: none"),
        (
            {"mine": 1},
            ("mine", "yours"),
            "for 'mine' but returned a dict without 'yours', with the keys: 'mine'",
        ),
        (
            {"mine": 1, "other": 2},
            ("mine",),
            "returned 'other', which get_bounded_status_keys.. does not declare; it de",
        ),
        (3, ("mine", "yours"), "computes mine, yours but returned int: with several status keys, return a dict"),
    ],
)
def test_what_a_function_must_not_return(
    returned: Any, names: tuple[str, ...], message: str, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, make_function(lambda: returned, *names))
    with pytest.raises(TypeError, match=message):
        profiler.compute_status("mine")
    assert profiler.status_get("mine") is None


def test_a_failing_function_loses_its_own_keys_alone(model: FakeModel, make_profiler: MakeProfiler) -> None:
    def fail(trace: Any) -> Any:
        raise ZeroDivisionError("no batch")

    profiler = make_profiler(
        model,
        make_function(fail, "left", "right"),
        make_function(lambda trace: 1, "fine"),
        make_function(lambda left: 1, "up"),
    )
    status = profiler.compute_network_status()
    assert status == {"left": None, "right": None, "fine": 1, "up": None}
    for name in ("left", "right", "up"):
        outcome = profiler.status_get(name, to_value=False).outcome
        assert (outcome.completeness, outcome.missing) == (Completeness.FAILED, ("ZeroDivisionError: no batch",))
    with pytest.raises(ZeroDivisionError, match="no batch"):
        profiler.compute_network_status(strict=True)
    with pytest.raises(ZeroDivisionError):
        profiler.compute_status("left")


def test_a_failing_function_is_called_once_for_all_that_need_it(model: FakeModel, make_profiler: MakeProfiler) -> None:
    calls = []

    def fail() -> Any:
        calls.append(1)
        raise RuntimeError("boom")

    profiler = make_profiler(
        model, make_function(fail, "base"), *(make_function(lambda base: 1, name) for name in "xyz")
    )
    profiler.compute_network_status()
    assert len(calls) == 1


def test_one_key_may_fail_while_the_others_are_fine(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(
        model, make_function(lambda: {"good": 1, "bad": Failure(OSError("no counter"))}, "good", "bad")
    )
    assert profiler.compute_network_status() == {"good": 1, "bad": None}
    with pytest.raises(OSError, match="no counter"):
        profiler.compute_status("bad")
    with pytest.raises(OSError, match="no counter"):
        profiler.compute_network_status(strict=True)


def test_incompleteness_is_inherited(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(
        model,
        make_function(lambda: Partial(5, ("my::op (1 call)",)), "bound"),
        make_function(lambda: Unavailable("no sensor"), "energy"),
        make_function(lambda bound: 2 * bound, "twice"),
        make_function(lambda energy: energy / 2, "half"),
    )
    profiler.compute_network_status()
    outcomes = {name: profiler.status_get(name, to_value=False).outcome for name in ("twice", "half")}
    assert outcomes["twice"].value == 10
    assert outcomes["twice"].completeness is Completeness.PARTIAL
    assert outcomes["twice"].missing == ("my::op (1 call)",)
    assert outcomes["half"].completeness is Completeness.UNAVAILABLE
    assert outcomes["half"].missing == ("needs energy, which is unavailable: no sensor",)
    assert profiler.compute_status("half") is None


ENDS = [None, Bounds(None, 8), Bounds(8, None), Bounds()]


@pytest.mark.parametrize("source", ENDS)
@pytest.mark.parametrize("own", ENDS)
def test_a_value_that_lacks_something_itself_lacks_what_its_source_lacks_too(
    source: Bounds | None, own: Bounds | None, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(
        model,
        make_function(lambda: Partial(8, ("a",), source), "base"),
        make_function(lambda base: Partial(base, ("b",), own), "derived"),
    )
    assert profiler.compute_status("derived") == 8
    outcome = profiler.status_get("derived", to_value=False).outcome
    assert (outcome.completeness, set(outcome.missing)) == (Completeness.PARTIAL, {"a", "b"})
    assert outcome.bounds == Bounds()


@pytest.mark.parametrize("returned", [Partial(5, ("my::op",)), Unavailable("no sensor")])
def test_strict_refuses_what_is_not_complete(returned: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    from profilerkit import IncompleteStatusError

    profiler = make_profiler(model, make_function(lambda: returned, "value"))
    with pytest.raises(IncompleteStatusError, match="value of FakeModel is (partial: my::op|unavailable: no sensor)"):
        profiler.compute_network_status(strict=True)


@pytest.mark.parametrize(
    "ask",
    [
        lambda profiler: profiler.compute_status("bound"),
        lambda profiler: profiler.compute(["bound"]) or profiler.status_get("bound"),
        lambda profiler: profiler.compute_status("between"),
    ],
    ids=["one", "several", "behind another"],
)
def test_incompleteness_of_what_a_function_requests_is_inherited(
    ask: Callable[[Profiler], int], model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(
        model,
        make_function(lambda: Partial(5, ("my::op (1 call)",)), "bound"),
        make_function(lambda profiler: profiler.compute_status("bound"), "between"),
        make_function(lambda profiler: 2 * ask(profiler), "twice"),
        make_function(lambda profiler: 7, "other"),
    )
    for _ in range(2):
        profiler.compute_network_status()
        outcomes = {name: profiler.status_get(name, to_value=False).outcome for name in ("twice", "other")}
        assert (outcomes["twice"].value, outcomes["twice"].missing) == (10, ("my::op (1 call)",))
        assert outcomes["twice"].completeness is Completeness.PARTIAL
        assert (outcomes["other"].value, outcomes["other"].completeness) == (7, Completeness.COMPLETE)


def test_what_is_computed_is_never_changed(model: FakeModel, make_profiler: MakeProfiler) -> None:
    values: Iterator[int] = iter(range(10))
    profiler = make_profiler(model, make_function(lambda factor=1: next(values), "value"))
    profiler.compute_status("value")
    before = profiler.status_get("value", to_value=False)
    profiler.compute_status("value", factor=2)
    assert before.value == 0
    assert profiler.status_get("value") == 1


def test_a_model_that_fails_holds_no_memory_while_others_are_compared() -> None:
    tensors: list[weakref.ref[FakeClock]] = []
    alive: list[int] = []

    def fail() -> None:
        tensor = FakeClock()
        tensors.append(weakref.ref(tensor))
        raise MemoryError("out of memory")

    def count_alive() -> None:
        alive.append(sum(tensor() is not None for tensor in tensors))

    models = [FakeModel([FakeLayer("a", macs=10)], on_call=call) for call in (count_alive, fail, count_alive)]
    comparison = compare(
        *models, inputs=FakeTensor((1, 3)), backend=FakeBackend(), metrics=["execution_time"], num_iters=3
    )
    assert comparison.reports[1].status("execution_time").missing == ("MemoryError: out of memory",)
    assert tensors
    assert alive
    assert set(alive) == {0}


def test_a_metric_that_fails_holds_no_memory_while_others_are_computed() -> None:
    """Its error is kept with its traceback; the variables in there would keep the tensors of the pass alive."""
    tensors: list[weakref.ref[FakeClock]] = []

    class HoldsTensors(FakeBackend):
        def run(self, *arguments: Any) -> Any:
            assert [tensor() for tensor in tensors] == [None] * len(tensors), "of the metrics before"
            tensor = FakeClock()
            tensors.append(weakref.ref(tensor))
            raise MemoryError("out of memory")

    report = profile(
        FakeModel([FakeLayer("layer", macs=10)]),
        FakeTensor((1, 3)),
        backend=HoldsTensors(),
        metrics=["execution_time", "training_time"],
        num_iters=3,
    )
    assert len(tensors) == 2
    for name in ("execution_time", "training_time"):
        assert report.status(name).missing == ("MemoryError: out of memory",)
