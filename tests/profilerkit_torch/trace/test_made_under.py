"""What the caller switched on around a profile stands in its report, and is noticed by a profiler that remembers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from profilerkit import ModelInputs, Report, profile
from profilerkit.hooks.renderers import render
from profilerkit.results.comparison import side_by_side
from profilerkit.results.saving import parse, to_json
from profilerkit_metrics import ComputeTraining
from profilerkit_torch import ComputeComplexity, TorchBackend, TorchProfiler
from profilerkit_torch.costs import Cost, override, register_module_cost, scoped_costs


class Own(nn.Linear):
    pass


def model() -> nn.Module:
    return nn.Sequential(Own(8, 8), nn.ReLU())


@contextmanager
def formula_of_a_module() -> Iterator[None]:
    with scoped_costs():
        register_module_cost(Own, lambda module, inputs, outputs: Cost(7, 14))
        yield


CONDITIONS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), "autocast of cpu to torch.bfloat16"),
    **(
        {"save_on_cpu": (torch.autograd.graph.save_on_cpu, "hooks of saved tensors (")}
        if hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
        else {}  # torch 2.6 does not tell
    ),
    "a formula of a module": (formula_of_a_module, "your own cost formulas for Own"),
    "a formula of an operator": (
        lambda: override({"aten::linear": lambda *args, out, **options: Cost(7, 14)}),
        "your own cost formulas for aten::linear",
    ),
}
METRICS = ["macs", "flops"]


def make_report(context: Callable[[], AbstractContextManager[Any]] | None) -> Report:
    if context is None:
        return profile(model(), torch.zeros(2, 8), metrics=METRICS)
    with context():
        return profile(model(), torch.zeros(2, 8), metrics=METRICS)


@pytest.mark.filterwarnings("error")
def test_the_casts_that_autocast_keeps_are_no_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps those of the weights, which are stand-ins here, until the caller's block ends."""

    def never(*args: Any) -> Any:
        raise AssertionError("the collector was asked")

    make_report(CONDITIONS["autocast"][0])  # modules that torch imports meanwhile make what the collector is asked for
    for name in ("collect", "get_objects"):
        monkeypatch.setattr(gc, name, never)
    assert make_report(CONDITIONS["autocast"][0])["macs"] == 2 * 8 * 8


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_report_says_what_it_was_made_under(name: str) -> None:
    context, words = CONDITIONS[name]
    plain, report = make_report(None), make_report(context)
    assert plain.conditions == ()
    (condition,) = report.conditions
    assert condition.startswith(words)
    (read,) = parse(to_json(report).encode(), "it").reports
    assert read.conditions == (condition,)
    for form in ("summary", "table", "html", "markdown"):
        assert "made under different conditions" not in render(side_by_side([plain, plain]), form)
    assert "made under different conditions" in " ".join(str(side_by_side([plain, report])).split())


@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "a formula of an operator"])
def test_a_report_of_training_alone_says_it_too(name: str) -> None:
    """A step runs a linear layer as other operators: the formula of that one is not used."""
    context, words = CONDITIONS[name]
    with context():
        report = profile(model(), torch.zeros(2, 8), metrics=["training_macs"])
    assert [condition.startswith(words) for condition in report.conditions] == [True]


def test_a_report_says_nothing_of_a_step_that_it_does_not_show() -> None:
    profiler = TorchProfiler(model(), inputs=torch.zeros(2, 8))
    for function in (ComputeComplexity(), ComputeTraining()):
        profiler.register_profiler_function(function)
    with torch.autocast("cpu", torch.bfloat16):
        profiler.compute_status("training_macs")
    profiler.compute_status("macs")
    assert profiler.report(["macs"]).conditions == ()
    assert profiler.report(["training_macs"]).conditions == ("autocast of cpu to torch.bfloat16",)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_profiler_does_not_remember_what_was_made_under_another_one(name: str) -> None:
    context, _ = CONDITIONS[name]
    profiler = TorchProfiler(model(), inputs=torch.zeros(2, 8))
    profiler.register_profiler_function(ComputeComplexity())
    outside = profiler.compute_status("trace")
    with context():
        inside = profiler.compute_status("trace")
        assert profiler.compute_status("trace") is inside
    assert inside is not outside
    assert profiler.compute_status("trace").conditions == ()


@pytest.mark.parametrize("metric", ["macs", "training_macs"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_around_the_call_needs_no_real_run(name: str, metric: str) -> None:
    """Autocast keeps the casts of weights: those of stand-ins are taken out of its cache again."""
    context, _ = CONDITIONS[name]
    with context():
        report = profile(model(), torch.zeros(2, 8), metrics=[metric])
    assert "real run" not in " ".join((*report.notes, report.status(metric).note))


def test_a_formula_that_nothing_was_counted_by_is_not_told() -> None:
    with override({"aten::bmm": lambda *args, out: Cost(7, 14)}):
        assert profile(model(), torch.zeros(2, 8), metrics=METRICS).conditions == ()


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_says_so() -> None:
    (condition,) = profile(torch.compile(model()), torch.zeros(2, 8), metrics=METRICS).conditions
    assert condition.startswith("torch.compile: ")


@pytest.mark.filterwarnings("error")
def test_a_layer_of_attention_under_autocast_is_counted_without_a_warning() -> None:
    """Projections of 3 x 16 and of 16 columns, scores and their product with the values, and two linear layers."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with torch.autocast("cpu", torch.bfloat16):
        trace = TorchBackend().trace(layer, ModelInputs(torch.ones(1, 4, 16)))
    assert trace.macs == 4 * (3 * 16 * 16 + 16 * 16 + 2 * 16 * 32) + 2 * 4 * 4 * 16
