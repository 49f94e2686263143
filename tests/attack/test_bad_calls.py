"""Every public callable with wrong values for each of its arguments: it works, or says what was wrong.

The calls are generated: each case of `CASES` is a call that works, of which one argument after the other is given each
of the wrong values. A test holds that every public name has a case, or a reason why it needs none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attack_sampling import sample
from bad_values import WRONG, complaint

import profilerkit
import profilerkit_metrics
from profilerkit import (
    Comparison,
    DataLoader,
    ExternalProfilerFunction,
    ForwardPass,
    Measurement,
    Metric,
    ModelInputPattern,
    Profiler,
    ProfilerFunction,
    Ratio,
    Report,
    StatusKey,
    TensorSpec,
    compare,
    load,
    metric,
    profile,
)
from profilerkit.backend import RunOptions
from profilerkit.hooks.infos import LoadedModel
from profilerkit.isolation import isolated, isolated_comparison
from profilerkit.isolation.starting import require_possible
from profilerkit.models.loaders import load_model
from profilerkit.render import render, renderer
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times.sampling import Sampling
from profilerkit_budgets import Budget, Limit, check
from profilerkit_metrics import ComputeEvalMetric, DynamicEvalMetric, EvalMetric
from profilerkit_pages.figures import Ceilings, draw

#: Each call has a value for every argument, also for those that only functions take which it does not request.
pytestmark = pytest.mark.filterwarnings("ignore:nothing that is requested takes:profilerkit.ArgumentWarning")

Given = Mapping[str, Any]

#: What makes every profile quick; the calls ask for a metric that is measured, so that every argument has a taker.
QUICK: Given = {"num_iters": 2, "warmup": 0, "max_seconds": 0.01}
SPLITS: Given = {"test": [(FakeTensor((2, 3)), FakeTensor((2,)))]}


def model() -> FakeModel:
    return FakeModel([FakeLayer("a", params=10, macs=100, flops=250)])


def score(network: Any, loader: Any) -> float:
    return 0.5


def profiler() -> Profiler:
    made = Profiler(model(), SPLITS, inputs=FakeTensor((2, 3)), backend=FakeBackend())
    made.register_profiler_function(ComputeEvalMetric(score))
    return made.register_defaults()


_results: dict[str, Any] = {}


def report() -> Report:
    if "report" not in _results:
        _results["report"] = profile(model(), FakeTensor((2, 3)), backend=FakeBackend(), **QUICK)
    found: Report = _results["report"]
    return found


def comparison() -> Comparison:
    return Comparison(report(), (report(),))


def arguments_of_functions() -> dict[str, Any]:
    """Return a value that works for each argument that some function of a profiler takes."""
    taken = {name for function in profiler()._registry.functions() for name in function.parameters()}
    known: dict[str, Any] = {
        "batch_size": 2,
        "batch_sizes": (1, 2),
        "backward": True,
        "cache_bytes": 0,
        "check_outputs": False,
        "device": "cpu",
        "ignore": (),
        "include_weights": True,
        "passes": 2,
        "min_samples": 3,
        "confidence": 0.9,
        "training": False,
        "relative_precision": 0.1,
        "split": "test",
        **QUICK,
    }
    own = {"model", "data_splits", "backend", "profiler", "inputs", "trace"}
    return {name: known.get(name) for name in sorted(taken - own - set(_list_computed()))}


def _list_computed() -> list[str]:
    return [binding.key.NAME for binding in profiler()._registry]


MODEL: Given = {"model": model, "inputs": lambda: FakeTensor((2, 3)), "backend": FakeBackend}
ISOLATION: Given = {
    **dict.fromkeys(("timeout", "memory", "max_threads")),
    "start_method": "spawn",
    "preload": (),
    "trust": False,
}
OWN_ARGUMENTS: Given = {
    **dict.fromkeys(("input_shape", "data_splits", "metrics", "batch_size", "device", "name")),
    "functions": (),
    "leave_out": (),
    "strict": False,
    "static": False,
}


class Case:
    """A call that works: the callable, and makers of its arguments; ``checked`` are those that get wrong values."""

    def __init__(self, call: Callable[..., Any], arguments: Given | None = None, fixed: Given | None = None) -> None:
        self.call, self.arguments, self.fixed = call, dict(arguments or {}), dict(fixed or {})

    def run(self, name: str = "", value: Any = None) -> Any:
        given = {**self.fixed, **self.arguments}
        made = {key: content() if callable(content) else content for key, content in given.items()}
        return self.call(**{**made, **({name: value} if name else {})})


def method(make: Callable[[], Any], name: str) -> Callable[..., Any]:
    """Return a function that calls a method of a fresh object."""

    def call(**given: Any) -> Any:
        bound = getattr(make(), name)
        positional = [
            given.pop(parameter.name)
            for parameter in inspect.signature(bound).parameters.values()
            if parameter.kind is parameter.POSITIONAL_ONLY
        ]
        several = [
            parameter.name
            for parameter in inspect.signature(bound).parameters.values()
            if parameter.kind is parameter.VAR_POSITIONAL
        ]
        return bound(*positional, *(given.pop(item) for item in several if item in given), **given)

    return call


def call_compare(reference: Any, other: Any, **given: Any) -> Any:
    return compare(reference, other, **given)


def call_isolated(**given: Any) -> Any:
    """Call `isolated`, without the process that it starts: what is wrong with a call is said before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profilerkit.isolation.api.run_jobs", instead_of_processes)
        return isolated(**given)


def call_isolated_comparison(reference: Any, other: Any, **given: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profilerkit.isolation.api.run_jobs", instead_of_processes)
        return isolated_comparison(reference, other, **given)


def instead_of_processes(jobs: Any, limits: Any, preload: Any) -> Any:
    require_possible(limits)
    return [report() for _ in jobs]


def one_key(func: Any, status_keys: Any) -> Any:
    return ExternalProfilerFunction(func, status_keys).list_keys()


def cases() -> dict[str, Case]:
    """Return the calls by the names they are reported with."""
    functions = arguments_of_functions()
    of_profile = {**MODEL, **OWN_ARGUMENTS, **functions}
    both = {"reference": model, "other": model, **{key: of_profile[key] for key in of_profile if key != "model"}}
    both = {key: value for key, value in both.items() if key != "name"}
    held: dict[str, Case] = {
        "profile": Case(profile, of_profile),
        "profile with options in one": Case(
            profile, {**MODEL, "run_options": RunOptions, "sampling": lambda: Sampling(num_iters=2, warmup=0)}
        ),
        "compare": Case(call_compare, {**both, "names": None, "metrics": lambda: ["macs", "execution_time"]}),
        "isolated": Case(call_isolated, {**of_profile, **ISOLATION}),
        "isolated_comparison": Case(
            call_isolated_comparison, {**{key: both[key] for key in both if key != "name"}, **ISOLATION}
        ),
        "Profiler": Case(Profiler, {**MODEL, "data_splits": None, "name": None, "input_shape": None}),
        "Profiler.compute_status": Case(
            method(profiler, "compute_status"), {"name": "execution_time", "recompute": False, **functions}
        ),
        "Profiler.compute": Case(
            method(profiler, "compute"), {"names": lambda: ["macs"], "recompute": False, "strict": False, **functions}
        ),
        "Profiler.compute_each": Case(
            lambda **given: list(method(profiler, "compute_each")(**given)),
            {"names": lambda: ["macs"], "recompute": False, "strict": False, **functions},
        ),
        "Profiler.compute_network_status": Case(
            method(profiler, "compute_network_status"),
            {"print_mode": None, "recompute": False, "short_print": True, "strict": False, **functions},
        ),
        "Profiler.compare": Case(
            method(profiler, "compare"),
            {"other": profiler, "print_mode": None, "short_print": True, "recompute": False, "strict": False, **QUICK},
        ),
        "Profiler.display_status": Case(
            method(profiler, "display_status"), {"other": None, "print_mode": "info", "short_print": True}
        ),
        "Profiler.register_profiler_function": Case(
            method(profiler, "register_profiler_function"),
            {"function": lambda: ComputeEvalMetric(score), "override": True},
        ),
        "Profiler.register_defaults": Case(method(profiler, "register_defaults"), {"leave_out": ()}),
        "Profiler.add_secondary_eval_metric": Case(
            method(profiler, "add_secondary_eval_metric"),
            {"key": "top-5", "unit_name": None, "description": None, "comparative": None},
        ),
        "Profiler.clone": Case(method(profiler, "clone"), {"model": None, "data_splits": None, "retain_status": False}),
        "Profiler.report": Case(method(profiler, "report"), {"names": None}),
        "Profiler.status_get": Case(method(profiler, "status_get"), {"name": "macs", "to_value": True}),
        "Profiler.status_contains": Case(method(profiler, "status_contains"), {"name": "macs"}),
        "Profiler.status_values": Case(method(profiler, "status_values"), {"to_value": True}),
        "Profiler.status_items": Case(method(profiler, "status_items"), {"to_value": True}),
        "Profiler.status_to_dict": Case(method(profiler, "status_to_dict"), {"to_value": True}),
        "Profiler.load_from_dict": Case(
            method(profiler, "load_from_dict"), {"status_dict": lambda: {"macs": 3}, "to_value": True}
        ),
        "Profiler.enable_forward_pass_data_splits": Case(
            Profiler.enable_forward_pass_data_splits, {"data_splits": lambda: SPLITS, "forward_pass": None}
        ),
        "Measurement": Case(Measurement, {"samples": (1.0, 2.0), "confidence": 0.95, "warmup": ()}, {"session": None}),
        "Measurement.percentile": Case(method(lambda: Measurement((1.0,)), "percentile"), {"percent": 50}),
        "Measurement.is_paired_with": Case(
            method(lambda: Measurement((1.0,)), "is_paired_with"), {"other": lambda: Measurement((1.0,))}
        ),
        "Ratio.of": Case(Ratio.of, {"reference": 1.0, "other": 2.0}),
        "Sampling": Case(
            Sampling,
            dict.fromkeys(("num_iters", "warmup"))
            | {"relative_precision": 0.1, "max_seconds": 1, "min_samples": 3, "confidence": 0.9},
        ),
        "RunOptions": Case(RunOptions, {"training": False, "compile": False, "autocast": None, "num_threads": None}),
        "Report.status": Case(method(report, "status"), {"key": "macs"}),
        "Report[]": Case(lambda key: report()[key], {"key": "macs"}),
        "Report.to_pandas": Case(method(report, "to_pandas"), {"table": "layers"}),
        "Comparison.to_pandas": Case(method(comparison, "to_pandas"), {"table": "metrics"}),
        "Report.to_text": Case(method(report, "to_text"), {"details": False}),
        "Report.plot": Case(method(report, "plot"), {"kind": "layer_bars"}),
        "Report.load": Case(Report.load, {"path": save_report}),
        "Report.save": Case(method(report, "save"), {"path": lambda: Path("saved.json")}),
        "Comparison": Case(Comparison, {"reference": report, "others": lambda: (report(),)}),
        "Comparison.ratio": Case(method(comparison, "ratio"), {"key": "macs", "other": None}),
        "Comparison.enhancement": Case(method(comparison, "enhancement"), {"key": "macs", "other": None}),
        "Comparison.difference": Case(method(comparison, "difference"), {"key": "macs", "other": None}),
        "Comparison.other": Case(method(comparison, "other"), {"which": None}),
        "Comparison.layers": Case(method(comparison, "layers"), {"other": None}),
        "LayerTable.top": Case(method(lambda: report().layers, "top"), {"k": 5, "by": "macs", "depth": None}),
        "LayerTable.by_type": Case(method(lambda: report().layers, "by_type"), {"depth": None}),
        "LayerTable.position": Case(method(lambda: report().layers, "position"), {"path": "a"}),
        "load": Case(load, {"path": save_report}),
        "render": Case(
            render, {"result": report, "form": "tree", "details": False, "depth": None, "top": None, "by": "macs"}
        ),
        "renderer": Case(renderer, {"form": "table"}),
        "figures.draw": Case(draw, {"result": report, "kind": "layer_bars", "top": 3, "depth": None, "by": "macs"}),
        "Ceilings": Case(Ceilings, {"flops_per_second": 1e12, "bytes_per_second": 1e11}),
        "load_model": Case(load_model, {"spec": "collections:OrderedDict"}),
        "Budget.of": Case(Budget.of, {"mapping": lambda: {"macs": "<= 5 G"}}),
        "Budget.load": Case(Budget.load, {"path": budget_file}),
        "Limit.parse": Case(Limit.parse, {"text": "<= 5 G"}, {"key": "macs"}),
        "budgets.check": Case(
            check, {"report": report, "budget": lambda: Budget.of({"macs": "<= 5 G"}), "baseline": None}
        ),
        "TensorSpec": Case(TensorSpec, {"shape": (3,), "dtype": "float32"}),
        "ForwardPass": Case(ForwardPass, {"model_input_pattern": (0, "_"), "expecting_common_inputs": True}),
        "ModelInputPattern": Case(ModelInputPattern, {"elements": (0, "_")}),
        "DataLoader": Case(DataLoader, {"native": list, "forward_pass": None}),
        "ExternalProfilerFunction": Case(one_key, {"func": lambda: score, "status_keys": lambda: Odd}),
        "EvalMetric": Case(EvalMetric, {"unit_name": "", "comparative": "diff", "description": None, "label": None}),
        "DynamicEvalMetric": Case(
            DynamicEvalMetric, {"name": "top-5", "unit_name": "", "description": None, "comparative": "diff"}
        ),
        "DynamicEvalMetric better": Case(DynamicEvalMetric, {"name": "top-5", "better": "lower"}),
        "ComputeEvalMetric": Case(
            ComputeEvalMetric,
            {"func": lambda: score, "key": None, "default_split": "test", "unit_name": ""}
            | {"comparative": "diff", "description": None, "secondary": ()},
        ),
        "ComputeEvalMetric better": Case(ComputeEvalMetric, {"func": lambda: score, "better": "higher"}),
        "metric": Case(
            plain_metric,
            {"name": "ratio", "better": None, "unit": "", "description": "", "friendly_name": "", "on_demand": False}
            | {"scale": profilerkit.Scale.NONE, "derived_from": None, "function": lambda: of_macs},
        ),
        "an evaluation's result": Case(evaluate, {"returned": 0.5}),
        "a metric's result": Case(compute_odd, {"returned": 0.5}),
        "inputs of a loaded model": Case(profile_loaded, {"inputs": None, "input_shape": (3,)}),
    }
    return held


def evaluate(returned: Any) -> Any:
    """Return the report of a model whose evaluation returns something, beside metrics that are fine."""
    function = ComputeEvalMetric(lambda network, loader: returned)
    given: dict[str, Any] = {"backend": FakeBackend(), "data_splits": SPLITS, "functions": [function]}
    found = profile(model(), metrics=["total_params", "eval_metric"], **given)
    str(found)
    found.to_dict()
    return found


def of_macs(macs: int) -> int:
    return macs


def plain_metric(name: str, function: Any, **given: Any) -> Any:
    """Return the report of a plain metric, shown."""
    found = profile(
        model(), FakeTensor((2, 3)), metrics=[name], backend=FakeBackend(), functions=[metric(name, **given)(function)]
    )
    str(found)
    return found


class Odd(Metric):
    """Whatever it is."""

    NAME = "odd"
    UNIT = "s"


class ComputeOdd(ProfilerFunction):
    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def get_bounded_status_keys(self) -> type[Metric]:
        return Odd

    def __call__(self) -> Any:
        return self.returned


def compute_odd(returned: Any) -> Any:
    """Return the report of a metric whose value is anything, shown in every form."""
    given: dict[str, Any] = {"backend": FakeBackend(), "functions": [ComputeOdd(returned)]}
    found = profile(model(), FakeTensor((2, 3)), metrics=["total_params", "odd"], **given)
    str(found)
    return found


def profile_loaded(**given: Any) -> Any:
    """Return the report of a model that comes with inputs of its own, as the command line makes it."""
    held = LoadedModel(model(), **given)
    return profile(held.model, held.inputs, input_shape=held.input_shape, backend=FakeBackend(), **QUICK)


def save_report() -> Path:
    path = Path("report.json")
    if not path.exists():
        report().save(path)
    return path


def budget_file() -> Path:
    path = Path("budget.toml")
    path.write_text("macs = '<= 5 G'", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


CASES = cases()
#: What takes no argument that could be wrong, and why.
NO_CASES = {
    "Backend": "an interface for authors of backends, whose methods are called with arguments that were read",
    "BackendInfo": "plain data of plugins, of which every use is guarded",
    "CommandInfo": "plain data of plugins, of which every use is guarded",
    "Comparative": "an enumeration",
    "FailureCode": "an enumeration",
    "FigureInfo": "plain data of plugins, of which every use is guarded",
    "Completeness": "an enumeration",
    "Device": "an enumeration",
    "DeviceInfo": "plain data; what its files may hold is tested in tests/profilerkit/devices",
    "Prediction": "plain data that predict returns",
    "find_mesh": "its mesh and its device are checked in tests/profilerkit_predict/meshes/test_mesh_uses.py",
    "write_execution_traces": "its mesh is checked in tests/profilerkit_predict/meshes/test_mesh_files.py",
    "write_step_timeline": "the same",
    "audit": "its plan is checked key by key; see tests/profilerkit_audits/test_plan.py",
    "JoinedProfile": "plain data that join returns",
    "join": "its arguments are those of profile, and a profile; see tests/profilerkit_torch/joining",
    "kv_bytes": "takes a language model; see tests/profilerkit_torch/language_models",
    "kv_bytes_per_token": "takes a language model; see tests/profilerkit_torch/language_models",
    "llm": "takes a language model; see tests/profilerkit_torch/language_models",
    "predict": "its arguments are those of profile, and a device; see tests/profilerkit_predict/prediction",
    "Failure": "plain data that a function returns",
    "Run": "what a backend yields, made by authors of backends; the suite that they run asks what it is",
    "JointFunction": "an interface",
    "LoadedModel": "plain data; see 'inputs of a loaded model'",
    "LoaderInfo": "plain data of plugins, of which every use is guarded",
    "OptionInfo": "plain data of plugins, of which every use is guarded",
    "PlacementInfo": "plain data of plugins, of which every use is guarded",
    "Metric": "takes no arguments",
    "ModelInputs": "takes anything: its arguments are the model's",
    "ModelTrace": "plain data of backends",
    "Noted": "plain data that a function returns",
    "Partial": "plain data that a function returns",
    "ProfilerFunction": "an interface",
    "RendererInfo": "plain data of plugins, of which every use is guarded",
    "Report": "plain data, which profile makes; its methods have cases",
    "Scale": "an enumeration",
    "StatusKey": "takes no arguments",
    "Unavailable": "plain data that a function returns",
    "effective_macs": "a function that profilers call with what they computed",
    "hookimpl": "pluggy's",
}


def combinations(name: str) -> list[tuple[str, str]]:
    return [(argument, wrong) for argument in CASES[name].arguments for wrong in WRONG]


@pytest.mark.parametrize("name", CASES)
def test_the_call_works_as_it_is(name: str) -> None:
    CASES[name].run()


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_value_works_or_is_said(name: str) -> None:
    wrong = {}
    for argument, kind in sample(combinations(name), 14, seed=len(name)):
        value = WRONG[kind]()
        found = complaint(lambda: CASES[name].run(argument, value), argument, value)  # noqa: B023
        if found:
            wrong[f"{name}({argument}={kind})"] = found
    assert not wrong, "\n".join(f"{call}: {found}" for call, found in wrong.items())


def test_every_public_name_has_a_case() -> None:
    with_case = {name.partition(".")[0].removesuffix("[]") for name in CASES}
    for module in (profilerkit, profilerkit_metrics):
        for name in getattr(module, "_MODULES", module.__all__):
            public = getattr(module, name)
            if isinstance(public, type) and issubclass(public, (Exception, StatusKey)) and name not in with_case:
                continue  # an error is raised, not called; the metrics take no arguments, or are listed
            if isinstance(public, type) and issubclass(public, ProfilerFunction) and takes_nothing(public):
                continue  # what its call takes, profile() is given
            assert name in with_case or name in NO_CASES, f"{module.__name__}.{name} has no case"


def takes_nothing(kind: type) -> bool:
    return not set(inspect.signature(kind).parameters) - {"optimizer"}


@pytest.mark.parametrize("kind", [Profiler, Measurement, Report, Comparison])
def test_every_public_method_has_a_case(kind: type) -> None:
    for name, found in inspect.getmembers(kind, inspect.isroutine):
        parameters = list(inspect.signature(found).parameters) if name[0] != "_" else []
        if set(parameters) - {"self", "cls"} and f"{kind.__name__}.{name}" not in CASES:
            assert f"{kind.__name__}.{name}" in NO_METHOD_CASES, f"{kind.__name__}.{name} has no case"


#: Methods that need no case, and why.
NO_METHOD_CASES = {
    "Report.get": "any key has an answer, as that of any mapping",
    "Comparison.get": "any key has an answer, as that of any mapping",
    "Profiler.layer_times": "the fake backend offers none; see the calls of profilerkit_torch",
    "Profiler.watch": "the fake backend offers none; see the calls of profilerkit_torch",
    "Report.log_to": "any object may be a tracker; see tests/profilerkit/render/test_trackers.py",
    "Comparison.log_to": "that of a report",
    "Measurement.map": "calls what it is given",
    "Comparison.all_layers": "names of columns, which a layer table checks",
    "Comparison.load": "that of a report",
    "Comparison.plot": "that of a report",
    "Comparison.save": "that of a report",
    "Comparison.to_text": "that of a report",
}


@pytest.mark.parametrize("name", ["profile", "compare"])
def test_every_argument_of_profile_and_compare_is_tried(name: str) -> None:
    parameters = inspect.signature(getattr(profilerkit, name)).parameters
    named = [parameter.name for parameter in parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    assert set(named) <= {*CASES[name].arguments, *CASES["profile with options in one"].arguments}


def test_the_walk_finds_what_comes_from_the_inside() -> None:
    def inside(value: Any) -> Any:
        return value.nothing

    assert complaint(lambda: inside(3), "value", 3).startswith("raised AttributeError")
    assert complaint(lambda: len(3), "top", "seven").startswith("TypeError names neither")  # type: ignore[arg-type]
    assert complaint(lambda: None, "top", 7) == ""
