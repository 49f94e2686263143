"""What is not known of weights, and metrics that have no meaning for a model: said, and never a zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from profilerkit import (
    JointFunction,
    Metric,
    ModelInputs,
    ModelTrace,
    Profiler,
    ProfilerFunction,
    compare,
    load,
    profile,
)
from profilerkit.backend_kit.optimizers import OptimizerBytes, optimizer_bytes
from profilerkit.protocols import LimitsMetrics, list_inapplicable
from profilerkit.render import render
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.trace.bounds import Bounds
from profilerkit_metrics import ComputeTraining

X = FakeTensor((1, 3))
UNKNOWN = "does not apply to this model: it is not known which of its parameters training changes"
REASON = "an exported program holds constants, and nothing of it is trained"


def model(trainable: bool | None = None) -> FakeModel:
    layers = [FakeLayer("first", params=5, macs=10), FakeLayer("block"), FakeLayer("block.last", params=7, macs=2)]
    layers[2].trainable = trainable
    return FakeModel(layers)


# Weights of which it is not known whether they are trained ---------------------------------------------------------


def test_trainable_parameters_do_not_apply_where_they_are_not_known() -> None:
    report = profile(model(), X, backend=FakeBackend())
    said = report.status("trainable_params")
    assert (said.value, said.completeness.value, said.missing) == (None, "unavailable", (UNKNOWN,))
    assert not said.is_applicable
    assert (report["total_params"], report["macs"]) == (12, 12)
    assert profile(model(True), X, backend=FakeBackend())["trainable_params"] == 12
    assert profile(model(False), X, backend=FakeBackend())["trainable_params"] == 5


def test_the_layers_around_such_a_weight_have_no_number_either() -> None:
    table = FakeBackend().trace(model(), ModelInputs(X)).table
    assert {row["path"]: row["trainable_params"] for row in table} == {
        "": None,
        "first": 5,
        "block": None,
        "block.last": None,
    }
    assert [row["params"] for row in table] == [12, 5, 7, 7]


def test_reports_with_unknown_weights_are_shown_and_saved(tmp_path: Any) -> None:
    report = profile(model(), X, backend=FakeBackend())
    comparison = compare(model(), model(True), inputs=X, backend=FakeBackend(), metrics=["trainable_params"])
    for form in ("table", "markdown", "csv", "latex", "html", "json", "tree", "layers-csv"):
        assert render(report, form)
        assert render(comparison, form)
    report.save(tmp_path / "report.json")
    loaded: Any = load(tmp_path / "report.json")
    assert loaded.status("trainable_params").missing == (UNKNOWN,)
    assert [key for key, record in loaded.statuses.items() if not record.is_applicable] == ["trainable_params"]
    assert [row["trainable_params"] for row in loaded.layers] == [None, 5, None, None]


class Training(FakeBackend):
    """Traces a step as it traces a pass."""

    def trace_training(self, model: Any, inputs: ModelInputs) -> ModelTrace:
        return self.trace(model, inputs)


def test_memory_of_training_is_a_lower_bound_where_the_trained_weights_are_not_known() -> None:
    profiler = Profiler(model(), backend=Training(), inputs=X)
    profiler.register_profiler_function(ComputeTraining())
    profiler.compute(["training_memory"], optimizer="adam")
    outcome = profiler.status_get("training_memory", to_value=False).outcome
    assert outcome.completeness.value == "partial"
    assert outcome.missing == (
        "the state of adam: it is not known whether these weights are trained: weight",
        "the gradients of weights of which it is not known whether they are trained (weight)",
    )


def test_the_largest_training_batch_is_an_upper_bound_there() -> None:
    """Of 9,000 usable bytes weights take 48, and a sample 40: what is not known may leave less room."""
    net = model()
    net.layers[0].activation_bytes = 40
    asked: dict[str, Any] = {"metrics": ["largest_training_batch"], "optimizer": "adam", "fit_in": 10_000}
    said = profile(net, X, backend=Training(), **asked).status("largest_training_batch")
    assert (said.value, said.completeness.value, said.bounds) == (223, "partial", Bounds(0, 223))
    assert said.missing == (
        "the state of adam: it is not known whether these weights are trained: weight",
        "the gradients of weights of which it is not known whether they are trained (weight)",
    )


def test_the_state_of_an_optimizer_is_known_where_all_weights_are() -> None:
    weights = FakeBackend().trace(model(False), None).parameters
    assert optimizer_bytes("adam", weights) == OptimizerBytes(2 * 4 * 5, 2 * 4 * 5)


# Metrics that have no meaning for a model ---------------------------------------------------------------------------


class Exported(FakeBackend):
    """Says of a model in which nothing can be trained what does not apply to it."""

    reasons: Mapping[str, str] = {"trainable_params": REASON, "depth": REASON, "twice": REASON}

    def inapplicable(self, model: Any) -> Mapping[str, str]:
        return self.reasons if model.training else {}


class Depth(Metric):
    NAME = "depth"


class Twice(Metric):
    NAME = "twice"


class ComputeDepth(JointFunction):
    """Fails where it is called at all."""

    def get_bounded_status_keys(self) -> type[Metric]:
        return Depth

    def __call__(self, model: Any) -> int:
        raise AssertionError("it does not apply")

    def measure_together(self, calls: Any) -> Any:
        raise AssertionError("it does not apply")


class ComputeTwice(ProfilerFunction):
    """Is made of another metric."""

    def get_bounded_status_keys(self) -> type[Metric]:
        return Twice

    def __call__(self, macs: int) -> int:
        return 2 * macs


def test_a_metric_that_does_not_apply_has_the_reason_of_the_backend() -> None:
    assert isinstance(Exported(), LimitsMetrics)
    report = profile(model(True), X, backend=Exported())
    said = report.status("trainable_params")
    assert (said.completeness.value, said.missing) == ("unavailable", (f"does not apply to this model: {REASON}",))
    assert (said.is_applicable, report.status("total_params").is_applicable) == (False, True)
    assert report["total_params"] == 12


def test_it_depends_on_the_model() -> None:
    other = model(True)
    other.training = False
    assert profile(other, X, backend=Exported())["trainable_params"] == 12
    assert list_inapplicable(FakeBackend(), other) == {}


def test_a_function_of_which_nothing_applies_is_not_called() -> None:
    profiler = Profiler(model(), backend=Exported(), inputs=X).register_defaults()
    profiler.register_profiler_function(ComputeDepth())
    profiler.register_profiler_function(ComputeTwice())
    profiler.compute(["depth", "twice", "macs"])
    outcome = profiler.status_get("depth", to_value=False).outcome
    assert (outcome.completeness.value, outcome.error) == ("unavailable", None)
    assert profiler.status_get("twice", to_value=False).outcome.missing == (f"does not apply to this model: {REASON}",)
    assert profiler.status_get("macs") == 12


def test_what_is_measured_together_leaves_out_what_does_not_apply() -> None:
    functions = [ComputeDepth()]
    comparison = compare(model(), model(), inputs=X, backend=Exported(), functions=functions, metrics=["depth", "macs"])
    for report in comparison.reports:
        assert report.status("depth").missing == (f"does not apply to this model: {REASON}",)
        assert not report.status("depth").is_applicable
        assert report["macs"] == 12


def test_what_needs_a_metric_that_does_not_apply_says_so() -> None:
    class Program(Exported):
        reasons: Mapping[str, str] = {"macs": REASON}

    profiler = Profiler(model(), backend=Program(), inputs=X).register_defaults()
    profiler.register_profiler_function(ComputeTwice())
    profiler.compute(["twice"])
    said = profiler.status_get("twice", to_value=False).outcome
    assert said.missing == (f"needs macs, which is unavailable: does not apply to this model: {REASON}",)
    assert said.is_applicable  # it has a meaning: what it needs is what is missing


def test_a_failure_does_not_hide_that_a_metric_does_not_apply() -> None:
    def fails() -> None:
        raise ValueError("no")

    class Program(Exported):
        reasons: Mapping[str, str] = {"macs": REASON}

    broken = FakeModel([FakeLayer("first", params=5)], on_call=fails)
    report = profile(broken, X, backend=Program(), metrics=["macs", "flops"])
    assert report.status("macs").completeness.value == "unavailable"
    assert report.status("flops").completeness.value == "failed"


@pytest.mark.parametrize("name", ["first", "block.last"])
def test_other_numbers_of_the_layers_stay(name: str) -> None:
    known, unknown = (FakeBackend().trace(model(item), ModelInputs(X)).table for item in (True, None))
    rows = [dict(table[table.position(name)]) for table in (known, unknown)]
    for row in rows:
        del row["trainable_params"]
    assert rows[0] == rows[1]
