"""What editors, `help` and completion know of the arguments that go to functions by name."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

import profilerkit
from profilerkit import Profiler, ProfilerFunction, StatusKey
from profilerkit.arguments.keywords import ComputeOptions, FigureKind, FormName, KeyName, ProfileOptions
from profilerkit.isolation import isolated_comparison
from profilerkit.plugging.renderers import renderer
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel
from profilerkit.times.watching import Watch

ROOT = Path(__file__).parents[3]
PUBLIC = [profilerkit.profile, profilerkit.compare, profilerkit.isolated, isolated_comparison]

RIGHT = """
from typing import Any

from profilerkit import Profiler, Report, compare, isolated, profile
from profilerkit_metrics import Macs


def use(model: Any, further: dict[str, Any]) -> Report:
    report = profile(model, (1, 2), metrics=["macs", Macs, "of_a_plugin"], max_seconds=1, device="cuda:1")
    profile(model, metrics="latency", ignore="Conv2d", peaks_of="h100", attention="attended")
    profile(model, max_seconds=2.5, of_a_plugin="any value", num_iters=3)
    profile(model, **further)
    comparison = compare(model, model, inputs=1, max_seconds=1, of_a_plugin=3)
    isolated("net.py:build", start_method="spawn", warmup=2, of_a_plugin=3)
    print(report["macs"], report["of_a_plugin"], report.get("macs"), comparison.ratio("macs").value, comparison["x"])
    print(report.plot("icicle", by="macs"), report.plot("of_a_plugin"), report.to_pandas("operators"))
    profiler = Profiler(model)
    profiler.compute_network_status(batch_size=1, device="cpu", max_seconds=1, of_a_plugin=2)
    profiler.compute(["macs"], **further)
    print(profiler.compute_status("macs", True, of_a_plugin=2), [*profiler.compute_each(["macs"], device="cpu")])
    print(profiler.compare(profiler, None, warmup=2), profiler.watch().report(["mfu"], peaks_of="h100", of_a_plugin=2))
    return report
"""
#: Each line has one mistake.
WRONG = """
from typing import Any

from profilerkit import Profiler, compare, isolated, profile


def use(model: Any, profiler: Profiler) -> None:
    profile(model, max_seconds="1")
    profile(model, max_seconds="1", of_a_plugin=2)
    profile(model, attention="half")
    profile(model, batch_size="8")
    compare(model, model, num_iters=2.5)
    isolated(model, start_method="thread")
    profile(model).to_pandas("layer")
    profiler.compute_status("macs", max_seconds="1")
    profiler.compute(["macs"], batch_size="8")
    profiler.compute_each(["macs"], device=3)
    profiler.compute_network_status(num_iters=2.5)
    profiler.compare(profiler, warmup="x")
    profiler.watch().report(peaks_of=3)
"""


def test_the_keywords_are_written_from_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    for path, text in import_module("make_keywords").written().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run python docs/make_keywords.py"


def test_the_keywords_are_what_the_functions_of_a_profiler_take() -> None:
    profiler = Profiler(FakeModel(layers=[FakeLayer("a")]), backend=FakeBackend()).register_defaults()
    provided = {"model", "backend", "profiler", "data_splits"}
    computed = {binding.key.NAME for binding in profiler._registry} - {"run_options", "sampling"}
    assert {*ComputeOptions.__annotations__} == profiler._registry.parameters() - provided - computed
    assert {*ComputeOptions.__annotations__} - {*ProfileOptions.__annotations__} == {"batch_size", "device"}


def test_the_names_of_keys_forms_and_figures_are_known_ones() -> None:
    profiler = Profiler(FakeModel(layers=[FakeLayer("a")]), backend=FakeBackend()).register_defaults()
    assert set(get_args(KeyName)) >= {*profiler.status_keys(), "mfu", "training_macs"}
    assert all(profiler.status_contains(name) for name in get_args(KeyName))
    assert all(callable(renderer(form)) for form in get_args(FormName))
    assert "icicle" in get_args(FigureKind)


@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__name__)
def test_signature_and_help_show_the_keywords(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert {*ProfileOptions.__annotations__} <= {*parameters}
    assert parameters["max_seconds"].kind is inspect.Parameter.KEYWORD_ONLY
    assert str(parameters["max_seconds"]) == "max_seconds: 'float' = ..."
    assert list(parameters)[-1] == "kwargs", "a plugin's arguments are taken too"
    text = inspect.getdoc(function) or ""
    described = re.findall(r"^    (\w+): ", text.partition("\nKeyword Args:\n")[2], re.MULTILINE)
    assert described == sorted(ProfileOptions.__annotations__)


def test_completion_offers_the_keywords() -> None:
    jedi = pytest.importorskip("jedi")
    script = jedi.Interpreter("profile(model, max_s", [{"profile": profilerkit.profile, "model": None}])
    assert "max_seconds=" in [each.name for each in script.complete()]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((getattr(Profiler, name), ComputeOptions) for name in ("compute", "compute_each", "compute_status")),
        *((getattr(Profiler, name), ComputeOptions) for name in ("compute_network_status", "compare")),
        (Watch.report, ProfileOptions),
    ],
)
def test_signatures_of_methods_show_the_keywords(method: Any, options: Any) -> None:
    parameters = inspect.signature(method).parameters
    assert {*options.__annotations__} <= {*parameters}
    assert next(iter(parameters)) == "self"
    assert [*parameters.values()][-1].kind is inspect.Parameter.VAR_KEYWORD


class Size(StatusKey):
    NAME = "size_of_a_plugin"


class ComputeSize(ProfilerFunction):
    KEYS = (Size,)

    def __call__(self, of_a_plugin: int) -> int:
        return of_a_plugin


def test_what_a_function_is_called_with_does_not_change() -> None:
    report = profilerkit.profile(
        FakeModel(),
        ((1.0,),),
        backend=FakeBackend(),
        functions=ComputeSize(),
        metrics=["size_of_a_plugin"],
        of_a_plugin=7,
    )
    assert report["size_of_a_plugin"] == 7
    assert report.arguments == {"of_a_plugin": "7"}


@pytest.mark.slow
def test_type_checkers_refuse_wrong_values_and_take_those_of_plugins(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "right.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "right.py"), str(tmp_path / "wrong.py")]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    errors = re.findall(r"(\w+)\.py:(\d+): error", done.stdout)
    first = WRONG.splitlines().index("def use(model: Any, profiler: Profiler) -> None:") + 2
    assert errors == [("wrong", str(line)) for line in range(first, len(WRONG.splitlines()) + 1)], done.stdout
