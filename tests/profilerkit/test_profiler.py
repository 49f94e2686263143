"""The profiler as the deeplite document describes it, its faults aside."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from weighing import ComputeWeight, Weight

from profilerkit import (
    ArgumentError,
    BackendNotFoundError,
    Comparison,
    DataLoader,
    DeviceNotAvailableError,
    InputError,
    JointFunction,
    Metric,
    Profiler,
    ProfilerFunction,
    RegistrationConflictError,
    RegistrationWarning,
    UnknownStatusError,
    compare,
    metric,
    profile,
)
from profilerkit.piping.outcome import Outcome
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.bounds import UNKNOWN_ENDS
from profilerkit_metrics import ComputeComplexity, ComputeEvalMetric, ComputeExecutionTime, Macs, TotalParams

MakeProfiler = Callable[..., Profiler]


def test_static_metrics_of_the_fake_model(model: FakeModel, make_profiler: MakeProfiler) -> None:
    status = make_profiler(model, ComputeComplexity()).compute_network_status()
    numbers = {name: value for name, value in status.items() if not name.startswith("layerwise")}
    assert numbers == {
        "total_params": 30,
        "trainable_params": 10,
        "model_size": 120,  # 30 float32
        "macs": 300,
        "flops": 700,
        "memory_footprint": 120 + 64,
    }
    assert status["layerwise_data"]["first"]["macs"] == 100
    assert "first" in status["layerwise_summary"]


def test_include_weights_is_piped(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    assert profiler.compute_status("memory_footprint", include_weights=False) == 64


def test_values_are_for_the_batch_that_was_given(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    assert profiler.compute_status("macs", batch_size=8) == 2400
    assert profiler.report().batch_size == 8


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "8", True])
def test_a_batch_size_is_a_whole_number(batch_size: Any, model: FakeModel, make_profiler: MakeProfiler) -> None:
    with pytest.raises(InputError, match="give a whole number from 1"):
        make_profiler(model, ComputeComplexity()).compute_status("macs", batch_size=batch_size)


def test_registering_returns_the_function_and_follows_the_override_rules(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    class ComputeMyWeight(ComputeWeight):
        def __call__(self, trace: Any, factor: int = 1) -> int:
            return -1

    profiler = make_profiler(model)
    mine = profiler.register_profiler_function(ComputeMyWeight(), override=True)
    assert profiler.register_profiler_function(ComputeWeight()) is not mine
    assert profiler.compute_status("weight") == -1
    with pytest.raises(RegistrationConflictError):
        profiler.register_profiler_function(ComputeWeight(), override=True)


def test_a_replaced_functions_value_is_forgotten(model: FakeModel, make_profiler: MakeProfiler) -> None:
    class ComputeOther(ComputeWeight):
        def __call__(self, trace: Any, factor: int = 1) -> int:
            return -1

    profiler = make_profiler(model, ComputeWeight())
    assert profiler.compute_status("weight") == 30
    with pytest.warns(RegistrationWarning):
        profiler.register_profiler_function(ComputeOther())
    assert profiler.status_get("weight") is None
    assert profiler.compute_status("weight") == -1


def test_dict_like_access(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeWeight())
    assert list(profiler.status_keys()) == ["weight"]
    assert profiler.status_contains("weight")
    assert not profiler.status_contains("macs")
    assert profiler.status_get("weight") is None
    profiler.compute_status("weight")
    assert profiler.status_get("weight") == 30
    assert list(profiler.status_values()) == [30]
    assert dict(profiler.status_items()) == profiler.status_to_dict() == {"weight": 30}
    assert isinstance(profiler.status_get("weight", to_value=False), Weight)
    assert [status.value for status in profiler.status_values(to_value=False)] == [30]
    profiler.reset_status()
    assert profiler.status_to_dict() == {"weight": None}
    with pytest.raises(UnknownStatusError):
        profiler.status_get("macs")


def test_loading_values(model: FakeModel, make_profiler: MakeProfiler) -> None:
    function = ComputeWeight()
    profiler = make_profiler(model, function)
    profiler.load_from_dict({"weight": 99})
    assert profiler.compute_status("weight") == 99, "a loaded value is free"
    assert function.calls == 0
    assert profiler.compute_status("weight", factor=2) == 60, "other arguments are computed"
    profiler.load_from_dict({"weight": 99})
    assert profiler.compute_status("weight", recompute=True) == 30


def test_a_metric_has_the_same_value_by_each_of_its_names(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    (alias, *_), name = TotalParams.ALIASES, TotalParams.NAME
    assert profiler.compute_status(alias) == 30
    assert [profiler.status_get(one) for one in (name, alias)] == [30, 30]
    assert [profiler.status_contains(one) for one in (name, alias, "no_such")] == [True, True, False]
    assert list(profiler.report([alias]).statuses) == list(profiler.report([name]).statuses) == [name]
    profiler.load_from_dict({alias: 99})
    assert [profiler.compute_status(one) for one in (name, alias)] == [99, 99]
    with pytest.raises(ArgumentError, match=f"status_dict: '{name}' and '{alias}' are one metric; give one"):
        profiler.load_from_dict({name: 1, alias: None})
    assert profiler.compute_status(name) == 99, "nothing changed"
    with pytest.raises(UnknownStatusError, match="unknown metric 'no_such'"):
        profiler.report(["no_such"])


def test_loading_status_instances_and_what_cannot_be_loaded(model: FakeModel, make_profiler: MakeProfiler) -> None:
    source = make_profiler(model, ComputeWeight())
    source.compute_status("weight")
    target = make_profiler(model, ComputeWeight())
    target.load_from_dict(source.status_to_dict(to_value=False), to_value=False)
    assert target.status_get("weight") == 30
    with pytest.raises(UnknownStatusError, match="'macs'"):
        target.load_from_dict({"weight": 1, "macs": 2})
    assert target.status_get("weight") == 30, "nothing changed"
    with pytest.raises(TypeError, match="'weight' holds 3, no status instance"):
        target.load_from_dict({"weight": 3}, to_value=False)
    with pytest.raises(ArgumentError, match="'weight' holds a status of 'macs'; give it under that name"):
        target.load_from_dict({"weight": Macs().with_outcome(Outcome.of(7))}, to_value=False)
    target.load_from_dict({"weight": None})
    assert target.status_get("weight") is None


def test_a_report_has_the_arguments_of_the_values_in_it(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeWeight())
    profiler.compute_status("weight", factor=2)
    assert profiler.report().arguments == {"factor": "2"}
    profiler.compute(["weight"], factor=3)
    assert profiler.report().arguments == {"factor": "3"}
    profiler.compute(["weight"])
    assert profiler.report().arguments == {}, "the earlier value is no longer there"
    profiler.compute_status("weight", factor=2)
    profiler.load_from_dict({"weight": 99})
    assert profiler.report().arguments == {}, "nobody knows with what a loaded value was computed"


def test_a_report_states_with_what_its_values_were_computed_last(model: FakeModel, make_profiler: MakeProfiler) -> None:
    """One function computes both keys: a request for one of them computes the other anew."""
    profiler = make_profiler(model, ComputeComplexity())
    for key, batch_size in (("macs", 2), ("flops", 4), ("macs", 8)):
        profiler.compute_status(key, batch_size=batch_size)
        for names in (["macs"], ["flops"], None):
            report = profiler.report(names)
            assert (report.batch_size, report.arguments) == (batch_size, {"batch_size": str(batch_size)})


def test_a_device_that_does_not_exist_is_an_error_of_each_request(
    model: FakeModel, make_profiler: MakeProfiler
) -> None:
    profiler = make_profiler(model, ComputeComplexity(), ComputeExecutionTime())
    with pytest.raises(DeviceNotAvailableError):
        profiler.compute(["macs"], device="tpu:7")
    with pytest.raises(DeviceNotAvailableError, match="the fake backend has the cpu alone"):
        profiler.compute_status("macs", device="gpu")
    assert profiler.backend.traced == 0, "before anything is computed"  # type: ignore[attr-defined]


def test_a_clone_has_the_functions_and_shares_no_value(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeWeight())
    profiler.compute_status("weight")
    small = FakeModel([FakeLayer("only", params=3)])
    clone = profiler.clone(model=small)
    assert clone.status_get("weight") is None
    assert (clone.compute_status("weight"), profiler.status_get("weight")) == (3, 30)
    clone.register_profiler_function(ComputeComplexity())
    assert not profiler.status_contains("macs")
    assert profiler.clone(model=model, retain_status=True).status_get("weight") == 30
    for others in ({"model": small}, {"data_splits": {"test": [1, 2]}}):
        with pytest.raises(ArgumentError, match="retain_status=True keeps the values of this model and its data"):
            profiler.clone(**others, retain_status=True)
    assert profiler.clone().status_get("weight") is None
    assert clone.model is small


def test_a_clone_may_have_other_data_and_keeps_a_given_name(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, name="Teacher")
    clone = profiler.clone(data_splits={"test": [1, 2]})
    assert isinstance(clone.data_splits["test"], DataLoader)
    assert clone.name == "Teacher"
    assert make_profiler(model).clone(model=FakeModel()).name == "FakeModel"


class Score(Metric):
    """A metric that only one of two profilers has."""

    NAME = "score"


class ComputeScore(ProfilerFunction):
    def get_bounded_status_keys(self) -> type[Metric]:
        return Score

    def __call__(self) -> int:
        return 7


def test_compare_shows_the_enhancement_of_this_profiler_over_the_other(
    model: FakeModel, make_profiler: MakeProfiler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="profilerkit")
    teacher = make_profiler(model, ComputeComplexity(), name="Teacher")
    student = teacher.clone(model=FakeModel(model.layers[:1]))
    student.name = "Student"
    student.register_profiler_function(ComputeScore())
    comparison = student.compare(teacher, batch_size=2)
    assert comparison.reference.name == "Teacher"
    assert comparison.enhancement("macs") == 3.0  # 600 over 200
    assert comparison.ratio("macs").value == pytest.approx(1 / 3)
    assert comparison.enhancement("score") is None
    printed = caplog.text
    assert "not measured" in printed
    assert printed.index("Teacher") < printed.index("Student")


def test_compare_measures_times_in_turn_and_remembers_them(make_profiler: MakeProfiler) -> None:
    order: list[str] = []
    teacher = make_profiler(FakeModel(on_call=lambda: order.append("t")), ComputeExecutionTime())
    student = teacher.clone(model=FakeModel(on_call=lambda: order.append("s")))
    comparison = student.compare(teacher, print_mode=None, num_iters=4, warmup=0)
    assert ["".join(sorted(order[first : first + 2])) for first in range(0, 8, 2)] == ["st"] * 4  # in either order
    assert len(order) == 8
    assert comparison.ratio("execution_time").paired
    assert comparison.ratio("throughput").paired
    again = student.compare(teacher, print_mode=None, num_iters=4, warmup=0)
    assert len(order) == 8, "asked again with the same arguments it is free"
    assert again.ratio("execution_time") == comparison.ratio("execution_time")
    student.compare(teacher, print_mode=None, recompute=True, num_iters=4, warmup=0)
    assert len(order) == 16


def test_a_model_that_fails_is_said_and_the_other_is_measured(make_profiler: MakeProfiler) -> None:
    def fail() -> None:
        raise RuntimeError("shapes do not fit")

    teacher = make_profiler(FakeModel(), ComputeExecutionTime())
    broken = teacher.clone(model=FakeModel(on_call=fail))
    comparison = broken.compare(teacher, print_mode=None, num_iters=3, warmup=0)
    assert comparison.reference["execution_time"].median > 0
    assert comparison.others[0].status("execution_time").missing == ("RuntimeError: shapes do not fit",)
    assert comparison.enhancement("execution_time") is None
    with pytest.raises(ValueError, match="execution_time of FakeModel .* has no ratio .failed.: RuntimeError: shapes"):
        comparison.ratio("execution_time")
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        broken.compare(teacher, print_mode=None, strict=True, num_iters=3, warmup=0)


def test_one_model_that_fails_leaves_the_others_in_turn(make_profiler: MakeProfiler) -> None:
    def fail() -> None:
        raise RuntimeError("shapes do not fit")

    good, other = (make_profiler(FakeModel(), ComputeExecutionTime(), name=name) for name in ("good", "other"))
    broken = make_profiler(FakeModel(on_call=fail), ComputeExecutionTime(), name="broken")
    comparison = compare(good, broken, other, num_iters=6, warmup=0)
    assert comparison.ratio("execution_time", "other").paired
    assert comparison.others[0]["execution_time"] is None
    assert "measured in turn" in str(comparison)


def test_functions_that_are_made_differently_measure_their_own_models() -> None:
    class Scaled(JointFunction):
        KEYS = (Weight,)

        def __init__(self, factor: int) -> None:
            self.factor = factor

        def __call__(self, model: FakeModel) -> Any:
            return self.alone(model=model)

        def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[int]:
            return [self.factor for _ in calls]

    profilers = [Profiler(FakeModel(), name=str(factor), backend=FakeBackend()) for factor in (1, 2, 2)]
    for profiler in profilers:
        profiler.register_profiler_function(Scaled(int(profiler.name)))
    assert [report["weight"] for report in compare(*profilers, metrics=["weight"]).reports] == [1, 2, 2]


@pytest.mark.parametrize(
    ("returned", "shown", "models"),
    [
        ([], r"\[\]", "2 models"),
        ([1, 2, 3], r"\[1, 2, 3\]", "2 models"),
        (5, "5", "2 models"),
        ("ab", "'ab'", "2 models"),
        (None, "None", "2 models"),
        ([object(), object()], r"\[<object .*\]", "one model"),  # then each is measured alone
    ],
)
def test_a_joint_measurement_that_returns_what_it_may_not_fails_alone(returned: Any, shown: str, models: str) -> None:
    class Wrong(JointFunction):
        KEYS = (Weight,)

        def __call__(self, model: FakeModel) -> Any:
            return self.alone(model=model)

        def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Any:
            return returned

    request: dict[str, Any] = {
        "inputs": FakeTensor((1, 3)),
        "backend": FakeBackend(),
        "functions": Wrong(),
        "metrics": ["weight", "macs"],
    }
    comparison = compare(FakeModel(), FakeModel(), **request)
    reason = f"^TypeError: measure_together of Wrong returned {shown} for {models}; return a list with one result for"
    for report in comparison.reports:
        assert report["macs"] is not None
        assert re.match(reason, report.status("weight").missing[0])
    with pytest.raises(TypeError, match=reason.removeprefix("^TypeError: ")):
        compare(FakeModel(), FakeModel(), **request, strict=True)


def test_a_joint_measurement_lacks_what_the_values_that_it_requests_lack() -> None:
    class Requesting(JointFunction):
        KEYS = (Weight,)

        def __call__(self, profiler: Profiler) -> Any:
            return self.alone(profiler=profiler)

        def measure_together(self, calls: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
            return [call["profiler"].compute_status("macs") for call in calls]

    models = [FakeModel([FakeLayer("a", macs=5, uncounted=uncounted)]) for uncounted in ("my::op", None)]
    x = FakeTensor((1, 3))
    comparison = compare(*models, inputs=x, backend=FakeBackend(), functions=Requesting(), metrics=["weight"])
    records = [report.status("weight") for report in comparison.reports]
    assert [(record.value, record.missing) for record in records] == [(5, ("my::op (1 call)",)), (5, ())]


@pytest.mark.parametrize(
    "ask",
    [
        lambda profiler: profiler.compute_status("macs"),
        lambda profiler: profiler.status_get("macs"),
        lambda profiler: profiler.status_get("macs", to_value=False).value,
        lambda profiler: profiler.status_to_dict()["macs"],
        lambda profiler: profiler.report()["macs"],
        lambda profiler: profiler.report(["macs"])["macs"],
        lambda profiler: next(value for name, value in profiler.status_items() if name == "macs"),
    ],
)
def test_a_value_lacks_what_the_values_lack_that_its_function_asks_its_profiler_for(ask: Callable[..., int]) -> None:
    @metric("twice")
    def twice(profiler: Profiler) -> int:
        return 2 * ask(profiler)

    model = FakeModel([FakeLayer("a", macs=5, uncounted="my::op")])
    report = profile(model, FakeTensor((1, 3)), backend=FakeBackend(), functions=twice, metrics=["macs", "twice"])
    record = report.status("twice")
    assert (record.value, record.missing, record.ends) == (10, ("my::op (1 call)",), UNKNOWN_ENDS)


def test_times_measured_apart_are_said_to_be(make_profiler: MakeProfiler) -> None:
    profilers = [make_profiler(FakeModel(), ComputeExecutionTime(), name=name) for name in "ab"]
    for profiler in profilers:
        profiler.compute_network_status(num_iters=6, warmup=0)
    assert "measured one after the other" in str(Comparison(profilers[0].report(), (profilers[1].report(),)))


def test_only_profilers_can_be_compared(model: FakeModel, make_profiler: MakeProfiler) -> None:
    with pytest.raises(TypeError, match=r"other=FakeModel\(.*: give another Profiler"):
        make_profiler(model).compare(model)  # type: ignore[arg-type]


def test_print_mode_sends_the_table_to_the_logger(
    model: FakeModel, make_profiler: MakeProfiler, caplog: pytest.LogCaptureFixture
) -> None:
    profiler = make_profiler(model, ComputeComplexity())
    with caplog.at_level(logging.DEBUG, logger="profilerkit"):
        profiler.compute_network_status(print_mode="debug")
        profiler.display_status(print_mode="WARNING", short_print=False)
        profiler.display_status(profiler.clone(retain_status=True), print_mode="info")
    levels = [(record.name, record.levelname) for record in caplog.records]
    assert levels == [("profilerkit", "DEBUG"), ("profilerkit", "WARNING"), ("profilerkit", "INFO")]
    short, long, both = (record.getMessage() for record in caplog.records)
    assert "Layers" not in short
    assert "Layers" in long
    assert "Enhancement" in both
    with pytest.raises(ValueError, match="print_mode='loud': give a level of logging: 'debug'"):
        profiler.display_status(print_mode="loud")
    with pytest.raises(ValueError, match="print_mode=3: give a level"):
        profiler.display_status(print_mode=3)  # type: ignore[arg-type]


def test_without_configured_logging_the_table_is_printed(
    model: FakeModel, make_profiler: MakeProfiler, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.Logger, "hasHandlers", lambda self: False)
    make_profiler(model, ComputeComplexity()).compute_network_status(print_mode="debug")
    assert "Total Parameters" in capsys.readouterr().out


def test_secondary_metrics_come_from_the_same_evaluation(model: FakeModel, make_profiler: MakeProfiler) -> None:
    calls = []

    def evaluate(network: Any, loader: Any) -> dict[str, float]:
        calls.append(list(loader))
        return {"accuracy": 90.0, "f1": 0.8, "loss": 0.3}

    profiler = make_profiler(model, data_splits={"test": [1, 2]})
    with pytest.raises(ValueError, match="no evaluation function is registered"):
        profiler.add_secondary_eval_metric("f1")
    profiler.register_profiler_function(ComputeEvalMetric(evaluate, "accuracy", unit_name="%"))
    clone = profiler.clone()
    profiler.add_secondary_eval_metric("f1", unit_name="", description="Harmonic mean", comparative="div")
    profiler.add_secondary_eval_metric("loss", better="lower")
    status = profiler.compute_network_status()
    assert (status["eval_metric"], status["f1"], status["loss"]) == (90.0, 0.8, 0.3)
    assert calls == [[1, 2]]
    f1 = profiler.report().status("f1")
    assert (f1.unit, f1.description, f1.comparative.value) == ("", "Harmonic mean", "div")
    loss = profiler.report().status("loss")
    assert (loss.unit, loss.comparative.value) == ("%", "decrease"), "the main metric's unit unless given"
    assert not clone.status_contains("f1"), "a clone is left as it was"


def test_the_backend_is_found_given_or_named(model: FakeModel) -> None:
    backend = FakeBackend()
    assert Profiler(model, backend=backend).backend is backend
    with pytest.raises(BackendNotFoundError, match="no backend 'tourch'; installed, nearest first: torch"):
        Profiler(model, backend="tourch")
    with pytest.raises(
        BackendNotFoundError, match="no backend recognizes a model of type profilerkit.testing.fakes.FakeModel"
    ):
        Profiler(model)


def test_defaults_come_from_the_plugins_and_can_be_left_out(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model).register_defaults(leave_out=["throughput", "macs"])
    assert {"flops", "execution_time"} <= set(profiler.status_keys())
    assert not {"throughput", "macs"} & set(profiler.status_keys())
    assert "weight" not in profiler.status_keys()


def test_defaults_keep_what_is_registered(model: FakeModel, make_profiler: MakeProfiler) -> None:
    class Mine(ProfilerFunction):
        def get_bounded_status_keys(self) -> Any:
            from profilerkit_metrics import ModelSize

            return ModelSize

        def __call__(self) -> int:
            return 5

    profiler = make_profiler(model)
    profiler.register_profiler_function(Mine(), override=True)
    profiler.register_defaults().register_defaults()
    assert profiler.compute_status("model_size") == 5


def test_what_is_no_data_and_no_backend(model: FakeModel, backend: FakeBackend) -> None:
    with pytest.raises(TypeError, match=r"data_splits=\[\]: give loaders by name"):
        Profiler(model, [], backend=backend)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="backend=5: give an instance of a Backend"):
        Profiler(model, backend=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="status_dict=.*: give values by name"):
        Profiler(model, backend=backend).load_from_dict([1])  # type: ignore[arg-type]


def test_the_representation_names_what_is_registered(model: FakeModel, make_profiler: MakeProfiler) -> None:
    assert repr(make_profiler(model, ComputeWeight())) == (
        "Profiler('FakeModel', backend='fake', functions=[ComputeWeight])"
    )


def test_the_model_is_handed_back_when_inputs_are_read(model: FakeModel, backend: FakeBackend) -> None:
    def build(batch_size: int) -> FakeTensor:
        raise RuntimeError("no data today")

    profiler = Profiler(model, backend=backend, inputs=build)
    profiler.register_profiler_function(ComputeComplexity())
    with pytest.raises(RuntimeError, match="no data today"):
        profiler.compute_status("macs")
    assert backend.preserving >= 1
    assert profiler.compute_status("total_params") == 30, "parameters need no inputs"


class SwitchesModes(FakeBackend):
    """Switches something off in the process while anything is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.entered = 0

    @contextmanager
    def apart(self) -> Iterator[None]:
        self.depth, self.entered = self.depth + 1, self.entered + 1
        try:
            yield
        finally:
            self.depth -= 1


def test_between_two_keys_the_process_is_as_the_caller_has_it() -> None:
    backend = SwitchesModes()
    profiler = Profiler(FakeModel([FakeLayer("a")]), inputs=FakeTensor((1, 3)), backend=backend).register_defaults()
    depths = [(name, backend.depth) for name in profiler.compute_each(["macs", "total_params"])]
    assert depths == [("macs", 0), ("total_params", 0)]
    assert backend.entered >= 2, "the backend was asked to keep the caller's modes apart"
    assert backend.depth == 0
