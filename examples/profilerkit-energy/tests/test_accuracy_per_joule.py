"""The derived metric, and what the package offers to profilerkit, through its public names alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from powercap import add_zone, make_model
from profilerkit_energy import ComputeAccuracyPerJoule, ComputeEnergy, plugin

import profilerkit
from profilerkit import Completeness, Profiler, cli, profile
from profilerkit.testing import FakeBackend, FakeClock, FakeModel, FakeTensor
from profilerkit_metrics import ComputeEvalMetric

PACKAGE = Path(plugin.__file__).parent


def test_the_score_over_the_joules(tmp_path: Path) -> None:
    """90 % at 0.25 J a pass are 360 % for each joule."""
    clock = FakeClock()
    model = make_model(clock, {add_zone(tmp_path, "intel-rapl:0", "package-0"): 250_000})
    report = profile(
        model,
        FakeTensor((1, 3)),
        backend=FakeBackend(),
        data_splits={"test": [(FakeTensor((1, 3)), 0)]},
        functions=[
            ComputeEnergy(tmp_path, clock=clock),
            ComputeEvalMetric(lambda network, loader: 90.0),
            ComputeAccuracyPerJoule(),
        ],
        metrics=["accuracy_per_joule"],
    )
    assert report["accuracy_per_joule"].samples == (360.0,) * 12


def test_no_energy_no_accuracy_per_joule(tmp_path: Path) -> None:
    profiler = Profiler(FakeModel(), {"test": [1]}, backend=FakeBackend(), inputs=FakeTensor((1, 3)))
    for function in (ComputeEnergy(tmp_path), ComputeEvalMetric(lambda network, loader: 90.0)):
        profiler.register_profiler_function(function)
    profiler.register_profiler_function(ComputeAccuracyPerJoule())
    assert profiler.compute_status("accuracy_per_joule") is None
    outcome = profiler.status_get("accuracy_per_joule", to_value=False).outcome
    assert outcome.completeness is Completeness.UNAVAILABLE
    assert outcome.missing[0].startswith("needs energy_per_inference, which is unavailable: there is no energy counter")


def test_without_an_evaluation_it_says_what_is_missing(tmp_path: Path) -> None:
    profiler = Profiler(FakeModel(), backend=FakeBackend(), inputs=FakeTensor((1, 3)))
    profiler.register_profiler_function(ComputeEnergy(tmp_path))
    profiler.register_profiler_function(ComputeAccuracyPerJoule())
    with pytest.raises(profilerkit.MissingArgumentError, match="needs an argument 'eval_metric'"):
        profiler.compute_status("accuracy_per_joule")


def test_both_metrics_are_offered_and_the_derived_one_on_demand() -> None:
    functions = plugin.profilerkit_profiler_functions()
    offered = {key.NAME: function.ON_DEMAND for function in functions for key in function.list_keys()}
    assert offered == {"energy_per_inference": False, "accuracy_per_joule": True}
    assert [key.NAME for key in plugin.profilerkit_status_keys()] == list(offered)


def test_only_public_names_of_profilerkit_are_used() -> None:
    imported = [
        (node.module, alias.name)
        for path in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("profilerkit") and not node.level
        for alias in node.names
    ]
    assert imported
    assert {module for module, _ in imported} == {"profilerkit", "profilerkit.cli"}
    assert {name for _, name in imported} <= {*dir(profilerkit), *cli.__all__}
