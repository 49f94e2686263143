"""Metrics are found, not listed: a new file is all that a new metric takes."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from time_limits import run_python

import profilerkit_metrics
from profilerkit import Profiler, RegistrationConflictError, Report, profile
from profilerkit.hooks import offers
from profilerkit.piping.function import read_usable
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit_metrics import ComputeComplexity, Macs, discovery

NEWCOMER = '''
from profilerkit import Metric, ProfilerFunction, metric

__all__ = ["ComputeMacsPerWeight", "MacsPerWeight", "operator_count"]


@metric("operator_count")
def operator_count(trace):
    """Number of operators.

    >>> 1 + 1
    3
    """
    return len(trace.operators)


class MacsPerWeight(Metric):
    """Multiply-accumulates for each parameter."""

    NAME = "macs_per_weight"


class ComputeMacsPerWeight(ProfilerFunction):
    """Divides the one by the other."""

    KEYS = (MacsPerWeight,)

    def __call__(self, macs, total_params):
        return macs / total_params
'''


@pytest.fixture
def add_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that adds a file with a text to the package."""

    def add(text: str) -> None:
        (tmp_path / "a_newcomer.py").write_text(text, encoding="utf-8")
        monkeypatch.setattr(profilerkit_metrics, "__path__", [*profilerkit_metrics.__path__, str(tmp_path)])

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = profilerkit_metrics.__dict__
    before = set(names)
    offers.forget()  # plugins are asked once
    yield add
    offers.forget()
    for name in {*names} - before:
        del names[name]
    sys.modules.pop("profilerkit_metrics.a_newcomer", None)


@pytest.fixture
def newcomer(add_file: Callable[[str], None]) -> None:
    add_file(NEWCOMER)


def profile_net(*metrics: str) -> Report:
    model = FakeModel([FakeLayer("a", params=5, macs=20)])
    return profile(model, FakeTensor((1, 3)), backend=FakeBackend(), metrics=list(metrics))


def test_a_file_needs_no_list_of_its_names(add_file: Callable[[str], None]) -> None:
    without = "\n".join(line for line in NEWCOMER.splitlines() if not line.startswith("__all__"))
    add_file(f"{without}\n_other = metric('other')(lambda macs: macs)\n")
    report = profile_net("macs_per_weight", "operator_count", "total_params")
    assert [report[key] for key in ("macs_per_weight", "operator_count", "total_params")] == [4, 1, 5]
    assert not hasattr(profilerkit_metrics, "_other")
    assert "other" not in {key.NAME for key in discovery.status_keys()}


def test_a_name_that_is_taken_in_the_package_is_said_with_both_files(add_file: Callable[[str], None]) -> None:
    add_file("from profilerkit import metric\n@metric('macs')\ndef count(trace): return 3\n")
    with pytest.raises(
        RegistrationConflictError,
        match=r"offers status key 'macs' \(in profilerkit_metrics.static and in profilerkit_metrics.a_newcomer\) "
        "twice; rename one of them, or reinstall profilerkit",
    ):
        profile_net("macs")


@pytest.mark.usefixtures("newcomer")
def test_a_new_file_is_a_new_default_metric() -> None:
    assert profilerkit_metrics.MacsPerWeight.NAME == "macs_per_weight"  # type: ignore[attr-defined]
    assert "ComputeMacsPerWeight" in dir(profilerkit_metrics)
    assert "MacsPerWeight" in profilerkit_metrics.__all__
    report = profile(
        FakeModel([FakeLayer("a", params=5, macs=20)]), FakeTensor((1, 3)), backend=FakeBackend(), num_iters=1
    )
    assert report["macs_per_weight"] == 4
    last = list(report)[-4:]
    assert {*last[:2]} == {"macs_per_weight", "operator_count"}, "after the established counts"
    assert last[2:] == ["execution_time", "throughput"], "before what runs the model"


@pytest.mark.usefixtures("newcomer")
def test_a_new_metric_does_not_move_the_established_ones() -> None:
    """Its file comes first by name, and it follows from the trace as the static metrics do."""
    keys = [key.NAME for function in discovery.default_functions() for key in function.list_keys()]
    assert keys[0] == "total_params"
    assert keys.index("memory_footprint") < keys.index("operator_count") < keys.index("execution_time")


@pytest.mark.usefixtures("newcomer")
def test_the_example_of_a_new_metric_is_run_with_the_tests() -> None:
    """The example of ``operator_count`` is wrong, and doctest notices."""
    results = doctest.testmod(import_module("profilerkit_metrics.a_newcomer"), report=False)
    assert (results.failed, results.attempted) == (1, 1)


def test_default_functions_are_whole_and_in_order() -> None:
    functions = discovery.default_functions()
    names = [type(function).__name__ for function in functions]
    assert names[:6] == [
        *("ComputeParams", "ComputeModelSize", "ComputeFlops", "ComputeMemoryFootprint", "ComputeLayerwiseSummary"),
        "ComputeExecutionTime",
    ]
    on_demand = [function.ON_DEMAND for function in functions]
    assert on_demand == sorted(on_demand), "what is computed on demand comes last"
    left_out = {"ComputeComplexity", "ComputeSize", "ComputeEvalMetric"}
    assert left_out.isdisjoint(names), "made of smaller ones, and one that is nothing without an argument"
    keys = [key.NAME for function in functions for key in function.list_keys()]
    assert len(keys) == len(set(keys))
    for function in functions:  # a profile takes them without a check, other than the functions of other packages
        read_usable(function)


def test_a_metric_that_is_requested_alone_computes_few_others() -> None:
    model = FakeModel([FakeLayer("a", params=5, macs=20)])
    profiler = Profiler(model, inputs=FakeTensor((1, 3)), backend=FakeBackend()).register_defaults()
    assert profiler.compute_status("macs") == 20
    computed = [key for key, status in profiler.status_items(to_value=False) if status.is_computed]
    assert computed == ["macs", "flops"], "and no table of layers, no peak of memory"


def test_every_key_is_named_once() -> None:
    names = [key.NAME for key in discovery.status_keys()]
    assert len(names) == len(set(names)) > 25
    assert {"macs", "layerwise_data", "eval_metric", "batch_sweep"} <= set(names)


def test_public_names_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, profilerkit_metrics; print(sorted(name for name in sys.modules if 'profilerkit_metrics.' in name))"
    )
    done = run_python(code)
    assert done.stdout.strip() == "[]"
    assert profilerkit_metrics.Macs is Macs
    assert ComputeComplexity.__module__ == "profilerkit_metrics.static"
    with pytest.raises(AttributeError, match="module 'profilerkit_metrics' has no attribute 'Mac'"):
        profilerkit_metrics.Mac  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="accuracy"):
        from profilerkit_metrics import accuracy  # type: ignore[attr-defined]  # noqa: F401


def test_what_type_checkers_read_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    tables = import_module("make_tables")
    stub = Path(profilerkit_metrics.__path__[0]) / "__init__.pyi"
    assert stub.read_text(encoding="utf-8") == tables.stub_of_metrics(), "run python docs/make_tables.py"


def test_the_default_metrics_are_found_without_importing_what_has_none() -> None:
    """Modules that help metrics are left out by name: some need numpy, which takes longer than all metrics."""
    modules = discovery._read_modules(discovery._find_folders())
    assert [module.__name__ for module, members in modules.items() if not members] == []
    code = "import sys; from profilerkit_metrics.discovery import default_functions as find; find(); "
    code += "print('numpy' in sys.modules)"
    done = run_python(code)
    assert done.stdout.strip() == "False"


def test_a_profiler_without_defaults_knows_no_metric() -> None:
    assert list(Profiler(FakeModel(), inputs=FakeTensor((1,)), backend=FakeBackend()).status_keys()) == []
