"""The metrics over a fake backend: definitions, evaluation functions, and what is said when one cannot be had."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from profilerkit import (
    Completeness,
    InputError,
    Measurement,
    Metric,
    MissingArgumentError,
    ModelInputs,
    Profiler,
    Run,
    RunOptions,
)
from profilerkit.hooks.offers import default_functions
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.sampling import Sampling, sample_by
from profilerkit_metrics import (
    ComputeEvalMetric,
    ComputeExecutionTime,
    ComputeFlops,
    ComputeLayerwiseSummary,
    ComputeParams,
    ComputeSize,
    DynamicEvalMetric,
)
from profilerkit_metrics.execution_time import TimedCall, measure_in_turn
from profilerkit_metrics.scoring_notes import note

MakeProfiler = Callable[..., Profiler]


def test_single_functions_compute_what_the_complete_one_does(model: FakeModel, make_profiler: MakeProfiler) -> None:
    """The TensorFlow example of the deeplite document registers them one by one."""
    profiler = make_profiler(model, ComputeFlops(), ComputeSize(), ComputeParams(), ComputeLayerwiseSummary())
    status = profiler.compute_network_status(include_weights=True)
    assert (status["macs"], status["flops"]) == (300, 700)
    assert (status["model_size"], status["memory_footprint"]) == (120, 184)
    assert (status["total_params"], status["trainable_params"]) == (30, 10)
    assert len(status["layerwise_data"]) == 3


def test_every_default_metric_says_what_it_is(backend: FakeBackend) -> None:
    metrics = [key for function in default_functions(backend).functions() for key in function.list_keys()]
    assert metrics
    for metric in metrics:
        if isinstance(metric, Metric):
            assert len(metric.description()) > 20
            assert metric.friendly_name()
            assert metric.get_comparative() is not None


@pytest.mark.parametrize("key", ["macs", "flops"])
def test_an_operator_of_unknown_cost_makes_a_lower_bound(key: str, make_profiler: MakeProfiler) -> None:
    model = FakeModel([FakeLayer("a", macs=5, flops=10, uncounted="my::op")])
    profiler = make_profiler(model, ComputeFlops())
    assert profiler.compute_status(key) == {"macs": 5, "flops": 10}[key]
    outcome = profiler.status_get(key, to_value=False).outcome
    assert (outcome.completeness, outcome.missing) == (Completeness.PARTIAL, ("my::op (1 call)",))


def test_throughput_follows_from_the_time_of_the_batch(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeExecutionTime())
    profiler.compute_network_status(batch_size=8, num_iters=5, warmup=1)
    time, throughput = profiler.status_get("execution_time"), profiler.status_get("throughput")
    assert throughput.samples == pytest.approx([8 / sample for sample in time.samples])
    assert model.calls == 6


def test_one_pass_is_observed_after_the_samples_and_none_of_them() -> None:
    done: list[str] = []

    class Noted(Run):
        def observe(self) -> None:
            done.append("observed")

    class Noting(FakeBackend):
        @contextmanager
        def run(self, *_: Any) -> Iterator[Run]:
            yield Noted(lambda: done.append("timed"))

    call = TimedCall(FakeModel([]), Noting(), ModelInputs(1), RunOptions())
    measure_in_turn([call, call], Sampling(num_iters=3, warmup=1))
    assert done == ["timed"] * 8 + ["observed"] * 2
    done.clear()
    with sample_by(lambda *_: Measurement((1.0,))):  # as in a process of its own
        measure_in_turn([call], Sampling())
    assert done == ["observed"]


def test_without_a_batch_dimension_there_is_no_throughput(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeExecutionTime(), inputs="text")
    status = profiler.compute_network_status(num_iters=2, warmup=0)
    assert status["execution_time"] is not None
    assert status["throughput"] is None
    assert "share no first dimension" in profiler.report().status("throughput").missing[0]


def test_a_plan_that_cannot_be_followed_is_said(model: FakeModel, make_profiler: MakeProfiler) -> None:
    with pytest.raises(ValueError, match="num_iters=0"):
        make_profiler(model, ComputeExecutionTime()).compute_status("execution_time", num_iters=0)


def evaluator(model: FakeModel, make_profiler: MakeProfiler, func: Any, *args: Any, **kwargs: Any) -> Profiler:
    splits = {"train": [(FakeTensor((2, 1)), 0)], "test": [(FakeTensor((2, 1)), 1)], "val": [1, 2, 3]}
    return make_profiler(model, ComputeEvalMetric(func, *args, **kwargs), data_splits=splits)


def test_the_evaluation_function_gets_model_and_split(model: FakeModel, make_profiler: MakeProfiler) -> None:
    seen: list[Any] = []

    def evaluate(network: Any, loader: Any) -> int:
        seen.append((network, list(loader)))
        return len(seen[-1][1])

    profiler = evaluator(model, make_profiler, evaluate)
    assert profiler.compute_status("eval_metric") == 1
    assert seen == [(model, [(FakeTensor((2, 1)), 1)])], "the test split, unless told otherwise"
    assert profiler.compute_status("eval_metric", split="val") == 3
    assert len(profiler.status_get("inference_time").samples) == 1, "one run: no verdict can be made of it"
    with pytest.raises(InputError, match="no data split 'dev'; the splits are: 'train', 'test', 'val'"):
        profiler.compute_status("eval_metric", split="dev")


def test_further_parameters_are_piped_and_its_own_defaults_count(model: FakeModel, make_profiler: MakeProfiler) -> None:
    def evaluate(network: Any, loader: Any, threshold: float, device: Any = "cpu", split: str = "val") -> Any:
        seen.append((threshold, device, split, len(loader)))
        return threshold

    seen: list[Any] = []

    profiler = evaluator(model, make_profiler, evaluate)
    assert profiler.compute_status("eval_metric", threshold=0.5) == 0.5
    assert seen == [(0.5, "cpu", "val", 3)]
    with pytest.raises(MissingArgumentError, match="'threshold'"):
        profiler.compute_status("eval_metric")


def test_a_device_without_default_is_where_the_model_is(model: FakeModel, make_profiler: MakeProfiler) -> None:
    def evaluate(network: Any, loader: Any, device: Any) -> int:
        seen.append(device)
        return 1

    seen: list[Any] = []
    assert evaluator(model, make_profiler, evaluate).compute_status("eval_metric") == 1
    assert seen == ["cpu"]


def test_units_and_names_of_the_evaluation(model: FakeModel, make_profiler: MakeProfiler) -> None:
    facts = {"unit_name": "%", "comparative": "DIV", "description": "Share of right answers"}
    profiler = evaluator(model, make_profiler, lambda network, loader: 76.5, "accuracy", **facts)
    profiler.compute_network_status()
    record = profiler.report().status("eval_metric")
    assert (record.shown, record.friendly_name) == ("76.5 %", "Evaluation: accuracy")
    assert (record.comparative.value, record.description) == ("div", "Share of right answers")


def test_a_dict_needs_a_key_unless_it_has_one_entry(model: FakeModel, make_profiler: MakeProfiler) -> None:
    assert evaluator(model, make_profiler, lambda network, loader: {"only": 3}).compute_status("eval_metric") == 3
    both = {"top-1": 70.0, "top-5": 90.0}
    with pytest.raises(InputError, match="returned a dict with 'top-1', 'top-5'; say which entry is the metric"):
        evaluator(model, make_profiler, lambda network, loader: both).compute_status("eval_metric")
    secondary = [DynamicEvalMetric("top-5", "%")]
    profiler = evaluator(model, make_profiler, lambda network, loader: both, "top-1", secondary=secondary)
    assert profiler.compute_status("top-5") == 90.0
    assert profiler.compute_status("eval_metric") == 70.0
    assert profiler.status_get("top-5", to_value=False).friendly_name() == "Evaluation: top-5"


def test_a_number_has_no_secondary_metrics(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = evaluator(model, make_profiler, lambda network, loader: 1.0, secondary=[DynamicEvalMetric("f1")])
    with pytest.raises(TypeError, match="returned 1.0, no dict with the secondary metric"):
        profiler.compute_status("f1")


def test_an_unknown_secondary_metric_fails_alone(model: FakeModel, make_profiler: MakeProfiler) -> None:
    secondary = [DynamicEvalMetric("f2"), DynamicEvalMetric("f1")]
    profiler = evaluator(
        model, make_profiler, lambda network, loader: {"accuracy": 1.0, "f1": 0.5}, "accuracy", secondary=secondary
    )
    status = profiler.compute_network_status()
    assert (status["eval_metric"], status["f1"], status["f2"]) == (1.0, 0.5, None)
    assert "none of them is 'f2'" in profiler.report().status("f2").missing[0]


def test_an_unknown_main_metric_fails_alone(model: FakeModel, make_profiler: MakeProfiler) -> None:
    """The evaluation ran: its seconds and the other entries are known."""
    both = {"top-1": 70.0, "top-5": 90.0}
    profiler = evaluator(model, make_profiler, lambda network, loader: both, secondary=[DynamicEvalMetric("top-5")])
    status = profiler.compute_network_status()
    assert (status["eval_metric"], status["top-5"]) == (None, 90.0)
    assert float(status["inference_time"]) >= 0


def test_a_note_on_the_scores_is_kept_if_the_main_metric_fails(model: FakeModel, make_profiler: MakeProfiler) -> None:
    def evaluate(network: Any, loader: Any) -> dict[str, float]:
        note("half of the samples")
        return {"top-1": 70.0, "top-5": 90.0}

    secondary = [DynamicEvalMetric("top-5")]
    for key, noted in ((None, "top-5"), ("top-1", "eval_metric")):
        profiler = evaluator(model, make_profiler, evaluate, key, secondary=secondary)
        profiler.compute_network_status()
        notes = {name: profiler.status_get(name, to_value=False).outcome.note for name in ("eval_metric", "top-5")}
        assert {name for name, text in notes.items() if text == "half of the samples"} == {noted}


def test_one_more_secondary_metric_keeps_the_class() -> None:
    class Evaluate(ComputeEvalMetric):
        """A function of a user's own."""

    function = Evaluate(lambda network, loader: {"a": 1}, "a", unit_name="%")
    further = function.with_secondary_metric("b")
    assert type(further) is Evaluate
    assert [key.NAME for key in further.get_bounded_status_keys()] == ["eval_metric", "inference_time", "b"]
    assert len(function.get_bounded_status_keys()) == 2


def test_evaluation_needs_data(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler = make_profiler(model, ComputeEvalMetric(lambda network, loader: 1))
    with pytest.raises(InputError, match="there is no data to evaluate on; give data_splits="):
        profiler.compute_status("eval_metric")


def test_an_evaluation_that_fails_costs_its_own_keys_alone(model: FakeModel, make_profiler: MakeProfiler) -> None:
    def evaluate(network: Any, loader: Any) -> int:
        raise RuntimeError("no labels")

    profiler = evaluator(model, make_profiler, evaluate)
    profiler.register_profiler_function(ComputeParams())
    status = profiler.compute_network_status()
    assert status == {"eval_metric": None, "inference_time": None, "total_params": 30, "trainable_params": 10}
    assert "failed" in str(profiler.report())


def test_a_table_that_nobody_reads_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch, model: FakeModel, make_profiler: MakeProfiler
) -> None:
    drawn: list[Any] = []

    def draw(table: Any) -> str:
        drawn.append(table)
        return "drawn"

    monkeypatch.setattr("profilerkit_metrics.static.layer_text", draw)
    profiler = make_profiler(model, ComputeLayerwiseSummary())
    profiler.compute(["layerwise_summary", "layerwise_data"])
    assert (len(drawn), profiler.status_get("layerwise_data") is None) == (0, False)
    profiler.report(["layerwise_data"])
    assert drawn == []
    assert profiler.status_get("layerwise_summary") == profiler.status_to_dict()["layerwise_summary"] == "drawn"
    assert len(drawn) == 1


def test_a_summary_that_was_loaded_is_the_text_that_was_saved(model: FakeModel, make_profiler: MakeProfiler) -> None:
    profiler, other = (make_profiler(model, ComputeLayerwiseSummary()) for _ in range(2))
    profiler.compute(["layerwise_summary"])
    saved = profiler.status_to_dict()
    other.load_from_dict(saved)
    assert "(model)" in saved["layerwise_summary"]
    assert other.status_get("layerwise_summary") == saved["layerwise_summary"]
    assert other.report(["layerwise_summary"])["layerwise_summary"] == saved["layerwise_summary"]
