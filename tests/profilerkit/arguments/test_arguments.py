"""What the well-known arguments may be: one rule for each name, said before anything runs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bad_values import nest
from weighing import ComputeWeight, Weight

from profilerkit import (
    ArgumentError,
    ArgumentWarning,
    InputError,
    Measurement,
    Metric,
    Profiler,
    ProfilerFunction,
    TensorSpec,
    compare,
    profile,
)
from profilerkit.arguments.checks import BATCH_SIZE, MOST, NAMES, TOP, Check, positive
from profilerkit.error_text import shown
from profilerkit.piping.outcome import Completeness
from profilerkit.render import render
from profilerkit.testing import FakeBackend, FakeModel, FakeTensor
from profilerkit_metrics import ComputeEvalMetric, ComputeSize, ExecutionTime, Macs
from profilerkit_pages.figures import draw

X = FakeTensor((2, 3))
MakeProfiler = Callable[..., Profiler]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: give a whole number from 1"),
        ({"batch_size": -1}, "batch_size=-1: give a whole number from 1"),
        ({"batch_size": True}, "batch_size=True: give a whole number from 1"),
        ({"batch_size": 2.5}, "batch_size=2.5: give a whole number from 1"),
        ({"batch_size": "8"}, "batch_size='8': give a whole number from 1"),
        ({"batch_size": []}, "batch_size is empty: give a whole number from 1, or several of them"),
        ({"batch_size": 2**31}, "batch_size=2147483648: give at most 2,147,483,647"),
        ({"max_seconds": "1"}, "max_seconds='1': give a number above zero"),
        ({"max_seconds": math.nan}, "max_seconds=nan: give a number above zero"),
        ({"max_seconds": math.inf}, "max_seconds=inf: give a number above zero"),
        ({"relative_precision": -math.inf}, "relative_precision=-inf: give a number above zero"),
        ({"num_iters": 2.5}, "num_iters=2.5: give a whole number from 1"),
        ({"warmup": -1}, "warmup=-1: give zero or more calls"),
        ({"num_threads": True}, "num_threads=True: give a whole number from 1"),
        ({"passes": 0}, "passes=0: give a whole number from 1"),
        ({"training": "no"}, "training='no': give True or False"),
        ({"device": 3}, "device=3: give Device.CPU, Device.GPU or the framework's own name"),
        ({"call": 3}, "call=3: give a function of the model and its inputs"),
        ({"ignore": [3]}, "ignore has 3; give classes of layers"),
        ({"metrics": 3}, "metrics=3: give names of status keys or their classes"),
        ({"metrics": [3]}, "an entry of metrics=3: give the name of a status key or its class"),
        ({"leave_out": 3}, "leave_out=3: give names of status keys"),
        ({"functions": 3}, "functions=3: it is no ProfilerFunction; give instances"),
        (
            {"functions": [Macs]},
            "functions has .*Macs.*: it is a metric, no ProfilerFunction; ask for it with metrics=",
        ),
        ({"functions": [ComputeSize]}, r"functions has .*: it is a class; give an instance, ComputeSize\(\)"),
        ({"functions": [len]}, "functions has .*len.*: it is no ProfilerFunction; wrap it: ComputeEvalMetric"),
        ({"data_splits": 3}, "data_splits=3: give loaders by name"),
        ({"name": 3}, "name=3: give a text that is not empty"),
        ({"strict": 1}, "strict=1: give True or False"),
        ({"backend": FakeBackend}, "backend=.*FakeBackend.*: give an instance of a Backend"),
    ],
)
def test_an_invalid_argument_is_reported_before_anything_runs(
    model: FakeModel, backend: FakeBackend, wrong: dict[str, Any], message: str
) -> None:
    for call in (
        lambda **arguments: profile(model, X, **arguments),
        lambda **arguments: compare(model, model, inputs=X, **arguments),
    ):
        if "name" in wrong:
            wrong, call = {"name": 3}, lambda **arguments: profile(model, X, **arguments)
        with pytest.raises(ArgumentError, match=f"^{message}"):
            call(**{"backend": backend, **wrong})
    assert (backend.traced, model.calls) == (0, 0)


def test_an_argument_error_is_an_input_value_and_type_error() -> None:
    for kind in (InputError, ValueError, TypeError):
        with pytest.raises(kind, match="batch_size=0"):
            BATCH_SIZE("batch_size", 0)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("abc", "input_shape='abc' cannot be read as a shape"),
        ([], r"input_shape=\[\] has no input; give inputs=\(\) for a model that takes none, or input_shape=\(\) for"),
        ({}, "input_shape={} has no input"),
        (nest(5000), r"input_shape=\[\[\[\[\.\.\.\]\]\]\] is nested more than 100 levels deep"),
        ((3, 0), "input shape .* has .0.; give positive integers"),
        ((2**31,), "input shape .* has"),
        ((2**31 - 1,) * 3, "input shape .* of a size that fits a memory"),
    ],
)
def test_invalid_shapes(model: FakeModel, backend: FakeBackend, shape: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        profile(model, input_shape=shape, backend=backend)
    assert TensorSpec((np.int64(3),)).shape == (3,)  # type: ignore[arg-type]


def test_inputs_that_are_nested_too_deep_or_contain_themselves(model: FakeModel, backend: FakeBackend) -> None:
    ring: list[Any] = []
    ring.append(ring)
    for inputs in (nest(5000), ring, {"x": nest(5000)}):
        with pytest.raises(ArgumentError, match="inputs=.* is nested more than 100 levels deep"):
            profile(model, inputs, backend=backend)
    assert profile(model, [[[X]]], backend=backend, metrics="macs")["macs"] == 600


@pytest.mark.parametrize("size", [np.int64(4), np.uint8(4), np.array(4), (np.int64(4), 8)])
def test_numpy_scalars_are_numbers(model: FakeModel, backend: FakeBackend, size: Any) -> None:
    arguments: dict[str, Any] = {"max_seconds": np.float64(0.01), "warmup": np.int32(0), "training": np.bool_(False)}
    report = profile(model, X, backend=backend, batch_size=size, **arguments)
    assert report["macs"] == 4 * 300, "of several sizes the first"
    assert report.arguments["max_seconds"] == "0.01"
    assert type(BATCH_SIZE("batch_size", np.int64(4))) is int
    assert type(positive("1.5")("max_seconds", np.float32(0.5))) is float


@pytest.mark.parametrize("value", [np.bool_(True), np.array([4]), np.float64(4.0), np.zeros((2, 2)), 2**31, b"4"])
def test_values_that_only_look_like_whole_numbers(value: Any) -> None:
    with pytest.raises(ArgumentError, match="top="):
        TOP("top", value)
    assert TOP("top", MOST) == MOST


@pytest.mark.parametrize("value", [2 + 1j, 2 + 0j, np.complex64(2 + 1j), np.complex128(2), np.array(2 + 1j)])
@pytest.mark.parametrize("check", [positive("1.5"), TOP])
@pytest.mark.filterwarnings("ignore")
def test_a_complex_number_is_no_number(check: Check, value: Any) -> None:
    """numpy makes a float of one with a warning alone, and drops its imaginary part."""
    with pytest.raises(ArgumentError, match="limit="):
        check("limit", value)


def test_every_check_describes_a_valid_value_and_refuses_an_object(make_profiler: MakeProfiler) -> None:
    functions = make_profiler(FakeModel()).register_defaults()._registry.functions()
    checks = {name: check for function in functions for name, check in function.CHECKS.items()}
    assert {"batch_size", "device", "num_iters", "passes", "include_weights", "ignore"} <= checks.keys()
    for name, check in checks.items():
        assert check.expected[:1].islower() or check.expected.startswith(("True", "Device")), name
        with pytest.raises(ArgumentError):
            check(name, object())
    for function in functions:
        assert {*function.CHECKS} - {"run_options", "sampling"} <= {*function.parameters()}, "beside a parameter"


def test_metrics_are_requested_by_class(model: FakeModel, make_profiler: MakeProfiler, backend: FakeBackend) -> None:
    several: list[Any] = [Macs, [Macs], ["macs"], (Macs(),), iter([Macs])]
    for metrics in several:
        report = profile(model, X, backend=backend, metrics=metrics)
        assert list(report) == ["macs"]
        assert report[Macs] == 600
        assert report.status(Macs).value == 600
    assert "execution_time" not in profile(model, X, backend=backend, leave_out=[ExecutionTime], num_iters=2)
    comparison = compare(model, model, inputs=X, backend=backend, metrics=[Macs])
    assert comparison.ratio(Macs).value == 1
    profiler = make_profiler(model, ComputeWeight())
    assert profiler.compute_status(Weight) == 30
    assert profiler.status_get(Weight) == 30  # type: ignore[arg-type]


def test_one_function_needs_no_list(model: FakeModel, backend: FakeBackend) -> None:
    assert profile(model, X, backend=backend, functions=ComputeWeight(), metrics="weight")["weight"] == 30


# Unknown keywords -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("input_shpae", "input_shape"), ("data_split", "data_splits"), ("metric", "metrics"), ("num_iter", "num_iters")],
)
def test_an_unknown_keyword_gets_the_nearest_argument(
    model: FakeModel, backend: FakeBackend, wrong: str, meant: str
) -> None:
    message = f"no registered function takes an argument '{wrong}'; did you mean '{meant}'?"
    for call in (
        lambda **arguments: profile(model, X, **arguments),
        lambda **arguments: compare(model, model, inputs=X, **arguments),
    ):
        with pytest.warns(ArgumentWarning, match=f"^{message}") as caught:
            call(backend=backend, num_iters=2, warmup=0, **{wrong: 3})
        assert caught[0].filename == __file__, "the line of the caller is to blame"
        traced = backend.traced
        with pytest.raises(ArgumentError, match=f"^{message}"):
            call(backend=backend, strict=True, **{wrong: 3})
        assert backend.traced == traced, "nothing has run"


def test_an_unknown_keyword_does_not_reach_inner_functions(model: FakeModel, backend: FakeBackend) -> None:
    """``names`` is an argument of compare, ``called`` and ``recompute`` are those of functions behind profile."""
    for name in ("names", "called", "recompute", "model_"):
        wrong: dict[str, Any] = {name: 3}
        with pytest.warns(ArgumentWarning, match=f"takes an argument '{name}'"):
            report = profile(model, X, backend=backend, metrics="macs", **wrong)
        assert name not in report.arguments


def test_names_of_models_have_an_order() -> None:
    """A set would give the models each other's names."""
    with pytest.raises(ArgumentError, match=r"names=\{.*\}: give a list of texts, one for each model"):
        compare(FakeModel(), FakeModel(), names={"old", "new"}, backend=FakeBackend())
    assert list(NAMES("names", {"old": 1, "new": 2}.keys())) == ["old", "new"]


def test_a_profiler_names_the_arguments_of_its_constructor(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model).register_defaults()
    with pytest.warns(ArgumentWarning, match="'input_shape'; a profiler takes 'input_shape' when it is made"):
        profiler.compute_status("macs", input_shape=(3,))
    with pytest.warns(ArgumentWarning, match="did you mean 'input_shape'; a profiler takes 'input_shape' when it is"):
        profiler.compute(["macs"], input_shpae=(3,))
    with pytest.raises(ArgumentError, match="did you mean 'recompute'"):
        profiler.compute(["macs"], strict=True, recompte=True)
    with pytest.raises(ArgumentError, match="'zzz'; they take: "):
        profiler.compute_network_status(strict=True, zzz=1)


# Showing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"details": 3}, "details=3: give True or False"),
        ({"top": -1}, "top=-1: give a whole number from 1"),
        ({"depth": "x"}, "depth='x': give a whole number from 0"),
        ({"detials": True}, "no renderer takes an option 'detials'; did you mean 'details'"),
    ],
)
def test_wrong_render_options(model: FakeModel, backend: FakeBackend, options: dict[str, Any], message: str) -> None:
    report = profile(model, X, backend=backend, metrics="macs")
    for form in ("summary", "table", "tree", "json"):
        with pytest.raises(ArgumentError, match=message):
            render(report, form, **options)
    assert render(report, "json", details=True, top=2), "what another renderer takes is left out"
    with pytest.raises(ArgumentError, match="3 is no result: give a Report or a Comparison"):
        render(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="details=3: give True or False"):
        report.to_text(details=3)  # type: ignore[arg-type]


def test_wrong_options_of_figures_and_tables(model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, X, backend=backend, metrics="macs")
    for call, message in (
        (lambda: draw(report, "layer_bars", top=0), "top=0: give a whole number from 1"),
        (lambda: report.plot("icicle", depht=2), "figure 'icicle' takes no option 'depht'; did you mean 'depth'"),
        (lambda: report.plot("icicl"), "no figure 'icicl'"),
        (lambda: report.layers and report.layers.top(-1), "k=-1: give a whole number from 0"),
        (lambda: report.layers and report.layers.by_type("x"), "depth='x'"),  # type: ignore[arg-type]
        (lambda: report[3], "key=3: give the name of a status key"),  # type: ignore[index]
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned", ["0.5", None, [0.5], math.nan, math.inf, {}, np.zeros(2), object(), True, 10**400])
def test_an_evaluation_that_returns_no_number(model: FakeModel, backend: FakeBackend, returned: Any) -> None:
    function = ComputeEvalMetric(lambda network, loader: returned)
    arguments: dict[str, Any] = {"data_splits": {"test": [X]}, "functions": [function], "backend": backend}
    report = profile(model, X, metrics=["macs", "eval_metric"], **arguments)
    record = report.status("eval_metric")
    assert record.completeness is Completeness.FAILED
    assert "the evaluation function returned" in record.missing[0]
    assert report["macs"] == 600
    with pytest.raises(InputError, match="the evaluation function returned"):
        profile(model, X, metrics="eval_metric", strict=True, **arguments)


@pytest.mark.parametrize("returned", [0.5, 1, np.float64(0.5), np.array([0.5]), {"accuracy": 0.5}])
def test_an_evaluation_that_returns_a_number(model: FakeModel, backend: FakeBackend, returned: Any) -> None:
    function = ComputeEvalMetric(lambda network, loader: returned)
    report = profile(model, backend=backend, data_splits={"test": [X]}, functions=function, metrics="eval_metric")
    assert report["eval_metric"] in (0.5, 1)


@pytest.mark.parametrize("samples", [(), (math.nan,), (1.0, math.nan), ("1",), (True,), 3, "12", None, [[1.0]]])
def test_invalid_samples(samples: Any) -> None:
    with pytest.raises(ArgumentError, match="samples="):
        Measurement(samples)
    with pytest.raises(ArgumentError, match="warmup="):
        Measurement((1.0,), warmup=(math.nan,))
    scalars: Any = (np.float32(0.5), 1)
    assert Measurement(scalars).samples == (0.5, 1.0)


def test_a_time_is_not_negative(model: FakeModel, backend: FakeBackend) -> None:
    """A quantity may be negative, such as a difference of two; a time that is comes from a clock that went back."""

    class Wait(Metric):
        NAME = "wait"
        UNIT = "s"

    class ComputeWait(ProfilerFunction):
        def get_bounded_status_keys(self) -> type[Metric]:
            return Wait

        def __call__(self, value: Any) -> Any:
            return value

    arguments: dict[str, Any] = {"backend": backend, "functions": ComputeWait(), "metrics": "wait"}
    for value in (-1.0, Measurement((1.0, -1.0))):
        assert profile(model, X, value=value, **arguments).status("wait").missing == (
            "wait has -1.0 s: a time is 0 seconds or more; read another clock",
        )
    assert profile(model, X, value=Measurement((0.0, 1.0)), **arguments)["wait"].median == 0.5
    assert (Measurement((1.0,)) - 3.0).median == -2.0


def test_the_text_of_any_value_is_short() -> None:
    class Angry:
        def __repr__(self) -> str:
            raise RuntimeError("do not look at me")

    for value in (nest(5000), "x" * 10**6, 10**5000, Angry(), {1: nest(5000)}, [Angry()], np.zeros((3, 3))):
        text = shown(value)
        assert 0 < len(text) <= 200
        assert "\n" not in text
    assert shown(np.zeros((3, 3))) == "ndarray(3, 3)"
