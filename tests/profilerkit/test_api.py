"""One line for most people."""

from collections.abc import Callable
from typing import Any

import pytest
from weighing import ComputeWeight, Weight

from profilerkit import (
    ArgumentError,
    ArgumentWarning,
    BackendNotFoundError,
    Comparison,
    InputError,
    Profiler,
    ProfilerFunction,
    UnknownStatusError,
    compare,
    profile,
)
from profilerkit.job import Job
from profilerkit.render import render
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit_metrics import TotalParams

X = FakeTensor((2, 3))


def test_profile_computes_what_the_plugins_offer(model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, X, backend=backend, name="Mine", num_iters=3, warmup=0)
    assert report.name == "Mine"
    assert report["macs"] == 600
    assert report["execution_time"].median > 0
    assert report.batch_size == 2
    assert backend.traced == 1


def test_one_request_takes_no_fingerprints(
    model: FakeModel, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They tell a later request whether the model has changed; `profile` has none after it, a function one within."""
    taken: list[Any] = []
    monkeypatch.setattr(backend, "fingerprint", lambda model, values=True: taken.append(values))

    class Twice(ProfilerFunction):
        KEYS = (Weight,)

        def __call__(self, profiler: Profiler) -> int:
            return int(profiler.compute_status("macs") + profiler.compute_status("macs"))

    profilers: list[Profiler] = []
    monkeypatch.setattr(Profiler, "_report", note_calls(profilers, Profiler._report))
    report = profile(model, X, backend=backend, metrics=["macs", "weight"], functions=[Twice()])
    assert (report["macs"], report["weight"]) == (600, 1200)
    assert backend.traced == 1, "a request of a function's own is part of the same one"
    assert taken == []
    profilers[0].compute_status("macs")
    assert backend.traced == 2, "afterwards nobody knows whether the model has changed"
    assert taken
    profilers[0].compute_status("macs")
    assert backend.traced == 2


def test_a_clone_that_a_function_keeps_notices_a_changed_model(model: FakeModel, backend: FakeBackend) -> None:
    clones: list[Profiler] = []

    class Keep(ProfilerFunction):
        KEYS = (Weight,)

        def __call__(self, profiler: Profiler) -> int:
            clones.append(profiler.clone())
            return 1

    profile(model, X, backend=backend, metrics=["weight"], functions=[Keep()])
    assert clones[0].compute_status("macs") == 600
    model.layers.pop()
    assert clones[0].compute_status("macs") == 200


def note_calls(calls: list[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which notes what it is called on."""

    def call(first: Any, *rest: Any) -> Any:
        calls.append(first)
        return function(first, *rest)

    return call


def test_profile_restricted_and_extended(model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, input_shape=(3,), backend=backend, metrics=["macs", "weight"], functions=[ComputeWeight()])
    assert report["weight"] == 30
    assert "execution_time" not in report
    assert report.batch_size == 1


def test_further_functions_take_precedence(model: FakeModel, backend: FakeBackend) -> None:
    class Mine(ProfilerFunction):
        def get_bounded_status_keys(self) -> Any:
            return TotalParams

        def __call__(self) -> int:
            return -5

    assert profile(model, X, backend=backend, metrics=["total_params"], functions=[Mine()])["total_params"] == -5


def test_without_inputs_the_reason_is_said_everywhere(model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, backend=backend)
    assert (report["total_params"], report["model_size"]) == (30, 120), "some metrics need no inputs"
    for key in ("macs", "memory_footprint", "execution_time"):
        assert report[key] is None
        assert "nothing to run the model with" in report.status(key).missing[0]
    assert " ".join(str(report).split()).count("nothing to run the model with") == 1, "said once for all"
    assert (report.batch_size, report.inputs) == (None, "")


def test_a_typo_is_warned_of(model: FakeModel, backend: FakeBackend) -> None:
    with pytest.warns(ArgumentWarning, match="did you mean 'num_iters'"):
        profile(model, X, backend=backend, metrics=["macs"], num_iter=3)


def test_an_unknown_metric_is_said_before_anything_is_computed(model: FakeModel, backend: FakeBackend) -> None:
    with pytest.raises(UnknownStatusError, match="unknown metric 'mac'; this profiler knows, nearest first: macs"):
        profile(model, X, backend=backend, metrics=["total_params", "mac"])
    assert backend.traced == 0


def test_several_metrics_in_one_text_get_the_corrected_call(model: FakeModel, backend: FakeBackend) -> None:
    """The command line takes them so, --metric macs,params."""
    with pytest.raises(ArgumentError, match=r"give several names as a list, metrics=\['macs', 'params'\]"):
        profile(model, X, backend=backend, metrics="macs, params")


@pytest.mark.parametrize("given", ["report", "comparison"])
def test_a_result_given_for_a_model_names_comparison(given: str, model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, X, backend=backend, metrics=["macs"])
    result = report if given == "report" else Comparison(report, (report,))
    with pytest.raises(BackendNotFoundError, match=r"is a result, and not a model; .* Comparison\(report, \(other"):
        compare(result, result)


def test_no_attribute_of_an_object_that_is_no_model_is_asked_for() -> None:
    class Odd:
        @property
        def reports(self) -> None:
            raise AssertionError("asked for")

    with pytest.raises(BackendNotFoundError, match="no backend recognizes a model of type"):
        profile(Odd())


def test_text_in_any_form(model: FakeModel, backend: FakeBackend) -> None:
    report = profile(model, X, backend=backend, metrics=["macs"])
    for form in ("tree", "markdown", "csv"):
        assert report.to_text(form=form) == render(report, form)
    assert report.to_text(form="tree", depth=0) == render(report, "tree", depth=0) != report.to_text(form="tree")
    assert report.to_text(top=1) == render(report, "summary", top=1) != report.to_text()
    with pytest.raises(ArgumentError, match=r"details='tree': give True or False; a form is to_text\(form='tree'\)"):
        report.to_text("tree")  # type: ignore[arg-type]


def test_keys_are_left_out(model: FakeModel, make_profiler: Callable[..., Profiler], backend: FakeBackend) -> None:
    given: dict[str, Any] = {"inputs": X, "backend": backend, "num_iters": 2, "warmup": 0}
    report = profile(model, leave_out="execution_time", **given)
    assert list(profile(model, leave_out="latency", **given).statuses) == list(report.statuses), "its other name"
    assert "execution_time" not in report
    assert report["macs"] == 600
    comparison = compare(model, model, leave_out=iter(["macs", "execution_time"]), **given)
    assert not {"macs", "execution_time"} & {*comparison.reference, *comparison.others[0]}
    with pytest.raises(UnknownStatusError, match="unknown metric 'mac'; leave_out knows, nearest first: macs"):
        profile(model, X, backend=backend, leave_out=["mac"])
    own = profile(model, X, backend=backend, functions=[ComputeWeight()], metrics="weight", leave_out="weight")
    assert own["weight"] == 30, "what the user gives stays"
    profilers = [make_profiler(model).register_defaults() for _ in range(2)]
    with pytest.raises(TypeError, match="got profilers and leave_out, which they have themselves"):
        compare(*profilers, leave_out="macs")
    with pytest.raises(TypeError, match="got profilers and functions, which they have themselves"):
        compare(*profilers, functions=[ComputeWeight()])


def test_profiling_strictly_raises(backend: FakeBackend) -> None:
    partial = FakeModel([FakeLayer("a", macs=1, uncounted="my::op")])
    report = profile(partial, X, backend=backend, metrics=["macs"])
    assert report.status("macs").missing == ("my::op (1 call)",)
    from profilerkit import IncompleteStatusError

    with pytest.raises(IncompleteStatusError, match="macs of FakeModel is partial: my::op"):
        profile(partial, X, backend=backend, metrics=["macs"], strict=True)


def test_a_model_that_raises_keeps_its_parameters(model: FakeModel, backend: FakeBackend) -> None:
    def fail() -> None:
        raise ValueError("bad shape")

    model.on_call = fail
    report = profile(model, X, backend=backend)
    assert report["total_params"] == 30
    assert report["model_size"] == 120
    for key in ("macs", "flops", "memory_footprint", "execution_time"):
        assert "bad shape" in report.status(key).missing[0]


def test_compare_takes_models_or_profilers(model: FakeModel, make_profiler: Callable[..., Profiler]) -> None:
    teacher = make_profiler(model, name="Teacher").register_defaults()
    student = make_profiler(FakeModel(model.layers[:1]), name="Student").register_defaults()
    comparison = compare(teacher, student, metrics=["macs", "total_params"], batch_size=4)
    assert comparison.reference.name == "Teacher"
    assert comparison.ratio("macs").value == pytest.approx(1 / 3)
    assert list(comparison.reference) == ["total_params", "macs"]


def test_models_of_one_name_are_told_apart(model: FakeModel, make_profiler: Callable[..., Profiler]) -> None:
    profilers = [make_profiler(model).register_defaults() for _ in range(2)]
    comparison = compare(*profilers, metrics=["macs"])
    assert [comparison.reference.name, comparison.others[0].name] == ["FakeModel (1)", "FakeModel (2)"]
    assert [profiler.name for profiler in profilers] == ["FakeModel", "FakeModel"], "the profilers keep theirs"


def test_profilers_can_be_called_otherwise_and_have_their_own_inputs(
    model: FakeModel, make_profiler: Callable[..., Profiler], backend: FakeBackend
) -> None:
    profilers = [make_profiler(model).register_defaults() for _ in range(2)]
    comparison = compare(*profilers, metrics=["macs"], names=["Old", "New"])
    assert (comparison.reference.name, comparison.others[0].name) == ("Old", "New")
    assert profilers[0].status_get("macs") == 300, "the profilers keep what was computed"
    with pytest.raises(TypeError, match="got profilers and inputs, which they have themselves"):
        compare(*profilers, inputs=X)
    assert compare(model, model, inputs=X, backend=backend, metrics=["macs"]).ratio("macs").value == 1


def test_compare_needs_two_models_and_as_many_names(model: FakeModel, make_profiler: Callable[..., Profiler]) -> None:
    with pytest.raises(TypeError, match="needs a reference and at least one other model: compare"):
        compare(model)
    with pytest.raises(TypeError, match=r"one other model, one by one and not as a list: compare\(teacher, student"):
        compare([model, model])
    with pytest.raises(ValueError, match="names has 1 entries for 2 models"):
        compare(model, model, names=["a"])


def test_a_model_that_a_plugin_replaces_is_not_said_to_have_a_dtype() -> None:
    with pytest.raises(InputError, match="dtype='float16' and mesh cannot be combined"):
        Job("net.py:build", arguments={"mesh": {"data": 2}}, dtype="float16").load()
