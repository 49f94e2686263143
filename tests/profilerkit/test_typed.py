"""What people type: static profiles, other names for metrics and arguments, devices in any case."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from profilerkit import Device, Profiler, compare, profile
from profilerkit.errors import ArgumentError, ArgumentWarning, UnknownStatusError
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel

X = ((1.0, 2.0),)


def model(**facts: Any) -> FakeModel:
    return FakeModel(layers=[FakeLayer("first", params=10, macs=100)], **facts)


def made(**arguments: Any) -> Any:
    return profile(model(), X, backend=FakeBackend(), **arguments)


def test_a_static_profile_has_counts_and_runs_nothing() -> None:
    net = model()
    report = profile(net, X, backend=FakeBackend(), static=True)
    assert {"macs", "total_params", "flops", "model_size", "memory_footprint"} <= set(report)
    assert not {"execution_time", "throughput"} & set(report)
    assert net.calls == 0
    both = compare(model(), model(), inputs=X, backend=FakeBackend(), static=True)
    assert "macs" in both and "execution_time" not in both


@pytest.mark.parametrize("name", ["execution_time", "throughput", "latency", "layer_times", "mfu"])
def test_what_runs_the_model_is_refused_by_name(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"static=True runs nothing, and \w+ needs the model to run"):
        made(static=True, metrics=["macs", name])


def test_a_static_profile_of_named_metrics() -> None:
    assert list(made(static=True, metrics=["params", "macs"])) == ["total_params", "macs"]


@pytest.mark.parametrize(
    ("alias", "name"),
    [("params", "total_params"), ("size", "model_size"), ("memory", "memory_footprint"), ("latency", "execution_time")],
)
def test_other_names_of_metrics(alias: str, name: str) -> None:
    assert list(made(metrics=alias)) == [name]
    with pytest.raises(UnknownStatusError):
        made(metrics=f"{alias}_of_all")


def test_an_argument_that_is_called_otherwise_is_named_at_the_users_line() -> None:
    profiler = Profiler(model(), inputs=X, backend=FakeBackend()).register_defaults(leave_out="execution_time")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: made(metric="macs", static=True), "did you mean 'metrics'"),
        (lambda: made(repeats=3, metrics="execution_time"), "did you mean 'num_iters'"),
        (lambda: compare(model(), model(), inputs=X, backend=FakeBackend(), skip="x", static=True), "'leave_out'"),
        (lambda: profiler.compute_network_status(zzz=1), "'zzz'"),
        (lambda: profiler.compute_status("macs", zzz=1), "'zzz'"),
    ]
    for call, words in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ArgumentWarning)
            call()
        (warning,) = [one_warning for one_warning in caught if one_warning.category is ArgumentWarning]
        assert words in str(warning.message)
        assert warning.filename == __file__, "no line of profilerkit"


@pytest.mark.parametrize(
    ("given", "corrected"),
    [
        ({"input_size": (1, 3, 224, 224)}, r"give input_shape=\(3, 224, 224\): the shape of one sample"),
        ({"input_size": (8, 3, 224, 224)}, r"give input_shape=\(3, 224, 224\), batch_size=8: "),
        ({"input_res": (3, 224, 224)}, "did you mean 'input_shape'"),
        ({"dummy_input": X}, "did you mean 'inputs'"),
    ],
)
def test_inputs_under_another_profilers_name_are_an_error_with_the_corrected_call(
    given: dict[str, Any], corrected: str
) -> None:
    with pytest.raises(ArgumentError, match=corrected):
        profile(model(), backend=FakeBackend(), **given)
    with pytest.raises(ArgumentError, match=corrected):
        compare(model(), model(), backend=FakeBackend(), **given)


def test_devices_are_named_in_upper_or_lower_case() -> None:
    assert Device("CPU") is Device("cpu") is Device.CPU
    assert Device("Gpu") is Device.GPU
    with pytest.raises(ValueError, match="'tpu' is not a valid Device"):
        Device("tpu")
    assert made(metrics="macs", device="CPU").arguments["device"] == "cpu"
