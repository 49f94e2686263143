"""What each kind of experiment tracker is given, by trackers of our own; docs/logging.rst runs the real ones."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from profilerkit import ArgumentError, Report, compare, profile
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor


def make_report(macs: int = 100, name: str = "net") -> Report:
    model = FakeModel(layers=[FakeLayer("first", params=10, macs=macs)])
    return profile(model, FakeTensor((1, 3)), backend=FakeBackend(), metrics=["macs", "total_params"], name=name)


class Recorder:
    """Remembers the calls of its methods; a subclass says which there are."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []


class Writer(Recorder):
    def add_scalar(self, name: str, value: float, global_step: int | None = None) -> None:
        self.calls.append((name, value, global_step))

    def add_text(self, name: str, text: str, global_step: int | None = None) -> None:
        self.calls.append((name, text, global_step))


class Mlflow(Recorder):
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.calls.append((metrics, step))

    def log_text(self, text: str, path: str) -> None:
        self.calls.append((path, text))

    def log_dict(self, values: dict[str, Any], path: str) -> None:
        self.calls.append((path, values))


class LightningLogger(Recorder):
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.calls.append((metrics, step))


NUMBERS = {"cost/macs": 100.0, "cost/total_params": 10.0}


def test_tensorboard_gets_scalars_and_a_table_of_markdown() -> None:
    writer = Writer()
    make_report().log_to(writer, step=3)
    *scalars, (name, text, step) = writer.calls
    assert {(name, value) for name, value, _ in scalars} == set(NUMBERS.items())
    assert {step for *_, step in writer.calls} == {3}
    assert (name, step) == ("cost/report", 3)
    assert "| MACs | 100 |" in text and "| --- |" in text
    assert "Layers with the most MACs" in text


def test_mlflow_gets_metrics_a_table_and_the_whole_report() -> None:
    mlflow, report = Mlflow(), make_report()
    report.log_to(mlflow, prefix="model")
    (metrics, step), (markdown, text), (json, values) = mlflow.calls
    assert (metrics, step) == ({"model/macs": 100.0, "model/total_params": 10.0}, None)
    assert (markdown, json) == ("model.md", "model.json")
    assert "| MACs | 100 |" in text
    assert values == report.to_dict()


def test_a_logger_of_lightning_gets_metrics() -> None:
    logger = LightningLogger()
    make_report().log_to(logger, step=1)
    assert logger.calls == [(NUMBERS, 1)]


def test_wandb_gets_numbers_and_a_table_of_its_own() -> None:
    """As a run, whose package has the class of tables."""
    calls: list[Any] = []
    wandb = SimpleNamespace(
        log=lambda values, step=None: calls.append((values, step)),
        Table=lambda columns, data: (columns, data),
        summary={},
    )
    module = ModuleType("wandb_of_ours")
    vars(module).update(vars(wandb))
    make_report().log_to(module, step=2)
    ((values, step),) = calls
    columns, rows = values.pop("cost/report")
    assert (values, step) == (NUMBERS, 2)
    assert columns[0] == "Metric"
    assert [row[0] for row in rows] == ["Total Parameters", "MACs"]


class Run:
    """As a run of W&B, which is told by its methods and its package."""

    def __init__(self) -> None:
        self.summary: dict[str, Any] = {}
        self.logged: list[dict[str, Any]] = []

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        self.logged.append(values)


def test_a_run_gets_tables_of_its_own_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("wandb_of_ours")
    vars(package).update(Table=lambda columns, data: ("table", len(data)))
    monkeypatch.setitem(sys.modules, "wandb_of_ours", package)
    monkeypatch.setattr(Run, "__module__", "wandb_of_ours.sdk")
    run = Run()
    make_report().log_to(run)
    assert run.logged == [{**NUMBERS, "cost/report": ("table", 2)}]


@pytest.mark.parametrize("tracker", ["runs.db", Run(), SimpleNamespace(log=print, summary={})])
def test_what_is_no_tracker_is_said(tracker: Any) -> None:
    """Also what has the methods of a run and comes from another package, which has no tables."""
    with pytest.raises(ArgumentError, match="cannot be logged to; give a SummaryWriter of TensorBoard, the module"):
        make_report().log_to(tracker)


def test_the_models_of_a_comparison_are_told_apart() -> None:
    logger, models = LightningLogger(), [FakeModel(layers=[FakeLayer("first", macs=macs)]) for macs in (100, 50)]
    compare(*models, inputs=FakeTensor((1, 3)), backend=FakeBackend(), metrics=["macs"], names=["old", "new"]).log_to(
        logger
    )
    assert [metrics for metrics, _ in logger.calls] == [{"cost/old/macs": 100.0}, {"cost/new/macs": 50.0}]
