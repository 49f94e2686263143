"""An error of the backend's own code is the backend's; one of the model, or of what it calls, is the model's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from profilerkit import (
    BackendFailedError,
    CostFormulaError,
    InputError,
    ModelFailedError,
    ModelInputs,
    ModelTrace,
    Report,
    profile,
)
from profilerkit.backend import DeviceLike
from profilerkit.backend_kit.failures import explain_failure, find_raising_line
from profilerkit.backend_kit.installed import declare_tested
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor

#: A backend's module: each function is one way to raise, or to hand on what another raises.
SOURCE = """
def key(): return {}["x"]
def attribute(): return None.shape
def index(): return [][0]
def unpacked(): a, b = (1,)
def added(): return 1 + None
def unbound():
    if False: value = 1
    return value
def popped(): return {}.pop("x")
def compiled(): return int("x")
def on_purpose(): raise ValueError("the program takes no such input")
def deep(): return deep()
def again():
    try:
        int("x")
    finally:
        pass
def run(call): return call()
def run_and_fail(call):
    call()
    return {}["x"]
"""


def module_named(name: str) -> dict[str, Any]:
    module = ModuleType(name)
    exec(compile(SOURCE, f"{name}.py", "exec"), module.__dict__)
    return module.__dict__


MINE = module_named("my_backend.tracing")
MODEL = module_named("users_models")
HOOK = MINE["run"]


def catch(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("how", ["key", "attribute", "index", "unpacked", "added", "unbound"])
def test_an_error_in_the_backends_code_is_the_backends(how: str) -> None:
    error = catch(MINE[how])
    lines = [number for number, line in enumerate(SOURCE.splitlines(), 1) if line.startswith(f"def {how}(")]
    line = lines[0] + (2 if how == "unbound" else 0)
    assert find_raising_line(error, "my_backend.running") == f"line {line} of my_backend.tracing"
    failure = explain_failure(error, ModelInputs(3), "mine", "my_backend")
    assert isinstance(failure, BackendFailedError)
    assert failure.__cause__ is error
    assert str(failure).startswith(f"the mine backend raised {type(error).__name__}: ")
    assert str(failure).endswith(
        f", at line {line} of my_backend.tracing; this is a fault of the backend, not of the model: tell its authors"
    )


def test_an_error_under_a_release_that_is_not_tested_names_those_that_are() -> None:
    error = catch(MINE["key"])
    declare_tested("mine", {"numpy": ("0.1", "0.2")})
    failure = explain_failure(error, ModelInputs(3), "mine", "my_backend")
    declare_tested("mine", {})
    assert str(failure) == (
        "the mine backend raised KeyError: 'x', at line 2 of my_backend.tracing; the mine backend is tested with numpy "
        f"0.1 to 0.2, and {numpy.__version__} is installed: install a release that is tested, or tell the backend's "
        "authors"
    )


@pytest.mark.parametrize("how", ["key", "attribute", "index", "added", "popped", "compiled", "on_purpose"])
def test_an_error_in_the_models_code_is_the_models(how: str) -> None:
    error = catch(lambda: HOOK(MODEL[how]))
    assert find_raising_line(error, "my_backend") is None
    failure = explain_failure(error, ModelInputs(3), "mine", "my_backend")
    assert isinstance(failure, ModelFailedError)
    assert str(failure).startswith(f"the model raised {type(error).__name__}")


@pytest.mark.parametrize(
    ("method", "answers"),
    [
        ("model_name", [5, None, object(), ["x"]]),
        ("model_type", [5, None, object(), ["x"]]),
        ("resolve_device", [5, None, object(), ("cpu", 0)]),
        ("count_samples", ["", "a", 2.5, math.nan, object(), {}, (1, 2)]),
    ],
)
def test_an_answer_of_a_wrong_kind_is_the_backends(method: str, answers: list[Any]) -> None:
    """It was an error of a renderer, or a file that could not be written."""
    for answer in answers:
        odd = type("Odd", (FakeBackend,), {method: lambda self, *args, answer=answer: answer})
        said = rf"^the fake backend returned .* from its method {method}\(\), which is no .*; this is a fault of the"
        with pytest.raises(BackendFailedError, match=said):
            profile(FakeModel(), FakeTensor((1, 3)), backend=odd(), num_iters=2, warmup=0)


def test_a_number_of_samples_may_be_of_numpys(tmp_path: Path) -> None:
    odd = type("Odd", (FakeBackend,), {"count_samples": lambda self, *args: numpy.int32(3)})
    report = profile(FakeModel(), FakeTensor((3, 3)), backend=odd(), metrics=["macs"])
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json").batch_size == 3


@pytest.mark.parametrize("kind", [InputError, CostFormulaError])
def test_errors_of_inputs_and_of_formulas_are_not_the_models(kind: type[Exception]) -> None:
    error = kind("give an array of floats")
    assert explain_failure(error, ModelInputs(3), "mine", "my_backend") is error


def test_an_error_in_a_hook_that_the_model_runs_is_the_backends() -> None:
    error = catch(lambda: HOOK(lambda: MODEL["run"](MINE["key"])))
    assert find_raising_line(error, "my_backend") is not None
    error = catch(lambda: HOOK(lambda: MINE["run_and_fail"](lambda: None)))
    assert find_raising_line(error, "my_backend") is not None


@pytest.mark.parametrize("how", ["popped", "compiled", "on_purpose", "again", "deep"])
def test_errors_of_compiled_code_and_recursion_are_not_the_backends(how: str) -> None:
    """An operator of the model that raises in C has no frame of its own: the last one is the backend's."""
    assert find_raising_line(catch(MINE[how]), "my_backend") is None


def test_an_error_of_profilerkit_is_not_the_models() -> None:
    core = module_named("profilerkit.somewhere")
    assert find_raising_line(catch(core["key"]), "my_backend") is not None


def test_an_error_without_frames_is_not_the_backends() -> None:
    assert find_raising_line(KeyError("x"), "my_backend") is None


class Careless(FakeBackend):
    """A backend whose trace raises: ``how`` is a function of its own module, or of the model."""

    how: Callable[[], Any]

    def trace(self, model: FakeModel, inputs: ModelInputs | None) -> ModelTrace:
        type(self).how()
        return super().trace(model, inputs)


def statuses(how: Callable[[], Any]) -> Any:
    kind = type("Careless", (Careless,), {"how": staticmethod(how), "__module__": "my_backend.backend"})
    model = FakeModel([FakeLayer("layer", params=3, macs=5, flops=10)])
    asked = ["macs", "execution_time"]
    return profile(model, FakeTensor((1, 3)), backend=kind(), metrics=asked, num_iters=2, warmup=1).statuses


def test_a_trace_with_an_unintended_error_makes_only_the_counts_unavailable() -> None:
    records = statuses(MINE["key"])
    assert records["macs"].missing == (
        "the fake backend raised KeyError: 'x', at line 2 of my_backend.tracing; "
        "this is a fault of the backend, not of the model: tell its authors",
    )
    assert records["execution_time"].value.median > 0


def test_other_errors_of_a_trace_are_reported_unchanged() -> None:
    assert statuses(MODEL["key"])["macs"].missing == ("KeyError: 'x'",)

    def refuse() -> None:
        raise InputError("no such input")

    records = statuses(refuse)
    assert (records["macs"].missing, records["macs"].note) == (("no such input",), "")


def test_other_errors_are_reported_with_the_line_that_raised_them() -> None:
    """``KeyError: 'x'`` alone tells nobody which part of a backend to look at."""
    assert statuses(MODEL["key"])["macs"].note == "raised at line 2 of users_models"

    class NoRandom(FakeBackend):
        def resolve_device(self, model: FakeModel, device: DeviceLike) -> str:
            MINE["key"]()
            return "cpu"

    model = FakeModel([FakeLayer("layer", params=3)])
    record = profile(model, FakeTensor((1, 3)), backend=NoRandom(), metrics=["execution_time"])
    assert record.status("execution_time").missing == ("KeyError: 'x'",)
    assert record.status("execution_time").note == "raised at line 2 of my_backend.tracing"
