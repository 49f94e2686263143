"""A torch teacher and a Keras student in one report; what is said without either framework."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from source_tree import oldest_release
from time_limits import run_python

from profilerkit import BackendNotInstalledError, Comparison, Measurement, Profiler, compare
from profilerkit.hooks.backends import backend_named
from profilerkit.hooks.manager import forget_loaded
from profilerkit.testing.architectures import ARCHITECTURES

pytestmark = pytest.mark.slow

STATIC = ("total_params", "macs", "flops")
IMAGES = np.zeros((2, 28, 28, 1), "float32")  # batch, height, width, channels
FEATURES = np.zeros((2, 20), "float32")

# The student, 28 x 28 x 1: a 5 x 5 convolution with stride 2 to four channels, ReLU, a linear classifier; all with bias
OUTPUTS = 14 * 14 * 4
STUDENT = {
    "total_params": 4 * (25 + 1) + 10 * (OUTPUTS + 1),
    "macs": 2 * (OUTPUTS * 25 + OUTPUTS * 10),
    "flops": 2 * (2 * (OUTPUTS * 25 + OUTPUTS * 10) + 2 * OUTPUTS + 10),
}


@pytest.fixture
def keras() -> Any:
    """Keras, where both frameworks are there."""
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    return pytest.importorskip("keras")


@pytest.fixture
def teacher(keras: Any) -> Profiler:
    """LeNet-5 in torch, channels first."""
    from profilerkit_torch import TorchProfiler

    model = import_module("torch_architectures").build("lenet5")
    profiler = TorchProfiler(model, inputs=IMAGES.transpose(0, 3, 1, 2).copy(), name="Teacher")
    return profiler.register_defaults()


@pytest.fixture
def student(keras: Any) -> Profiler:
    """A smaller network in Keras, channels last."""
    from profilerkit_tensorflow import TFProfiler

    layers = keras.layers
    network = [layers.Conv2D(4, 5, strides=2, padding="same"), layers.ReLU(), layers.Flatten(), layers.Dense(10)]
    model = keras.Sequential([keras.Input((28, 28, 1)), *network])
    profiler: Profiler = TFProfiler(model, inputs=IMAGES, name="Student").register_defaults()
    return profiler


@pytest.fixture
def comparison(teacher: Profiler, student: Profiler) -> Comparison:
    return compare(teacher, student, metrics=STATIC, strict=True)


def test_the_student_by_hand() -> None:
    assert STUDENT == {"total_params": 7_954, "macs": 54_880, "flops": 112_916}


def test_one_comparison_holds_both_with_their_own_layouts(comparison: Comparison) -> None:
    lenet = ARCHITECTURES["lenet5"]
    reference, other = comparison.reference, comparison.other()
    assert [reference[key] for key in STATIC] == [lenet.params, lenet.macs(2), lenet.flops(2)]
    assert {key: other[key] for key in STATIC} == STUDENT
    assert (reference.backend, other.backend) == ("torch", "tensorflow")
    assert (reference.batch_size, other.batch_size) == (2, 2)
    assert comparison.ratio("macs").value == STUDENT["macs"] / (2 * 416_520)
    assert comparison.enhancement("total_params") == 61_706 / STUDENT["total_params"]


def test_each_report_says_what_it_was_measured_in(comparison: Comparison) -> None:
    reference, other = comparison.reference.environment, comparison.other().environment
    assert "torch" in reference
    assert "tensorflow" not in reference
    assert "tensorflow" in other
    assert "torch" not in other


def test_the_header_names_the_frameworks(comparison: Comparison) -> None:
    """Below the models' names, in the order of the columns."""
    lines = comparison.to_text().splitlines()
    header = next(place for place, line in enumerate(lines) if "Teacher" in line)
    assert lines[header].split() == ["Teacher", "Student"]
    assert lines[header + 1].split()[-3:] == ["(torch)", "(tensorflow)", "Enhancement"]
    assert "batch of 2" in comparison.to_text()
    assert "same batch size" not in comparison.to_text()


def test_the_details_show_the_layers_of_both(teacher: Profiler, student: Profiler) -> None:
    text = compare(teacher, student, metrics=STATIC).to_text(details=True)
    assert "Layers of Teacher and Student" in text
    assert "AvgPool2d" in text, "a layer of torch"
    assert "Conv2D" in text, "a layer of Keras"


def test_times_are_measured_in_turn(teacher: Profiler, student: Profiler) -> None:
    found = compare(teacher, student, metrics=["execution_time"], num_iters=3, warmup=1)
    times = [found.reference["execution_time"], found.other()["execution_time"]]
    assert all(isinstance(time, Measurement) and time.median > 0 for time in times)
    assert [len(time.samples) for time in times] == [3, 3]
    ratio = found.ratio("execution_time")
    assert 0 < ratio.low <= ratio.value <= ratio.high


def test_two_models_of_one_layout_in_one_line(keras: Any) -> None:
    """The same numpy batch goes into both; each model's backend is found from it."""
    mlp = ARCHITECTURES["mlp"]
    models = [import_module(name).build("mlp") for name in ("torch_architectures", "keras_architectures")]
    found = compare(*models, inputs=FEATURES, metrics=STATIC, strict=True)
    for report in (found.reference, found.other()):
        assert [report[key] for key in STATIC] == [mlp.params, mlp.macs(2), mlp.flops(2)]
    assert [report.backend for report in (found.reference, found.other())] == ["torch", "tensorflow"]
    assert [report.name for report in (found.reference, found.other())] == ["Mlp (1)", "Mlp (2)"]


def test_a_profiler_is_cloned_for_a_model_of_the_other_framework(keras: Any) -> None:
    models = [import_module(name).build("mlp") for name in ("torch_architectures", "keras_architectures")]
    first = Profiler(models[0], inputs=FEATURES, name="torch's").register_defaults()
    second = first.clone(model=models[1])
    assert (first.backend.name, second.backend.name) == ("torch", "tensorflow")
    assert second.compute_status("flops") == first.compute_status("flops") == ARCHITECTURES["mlp"].flops(2)


def test_a_profiler_of_one_framework_refuses_a_model_of_the_other(teacher: Profiler, student: Profiler) -> None:
    with pytest.raises(TypeError, match="the torch backend cannot profile a Sequential"):
        teacher.clone(model=student.model)
    with pytest.raises(TypeError, match="the tensorflow backend cannot profile a LeNet5"):
        student.clone(model=teacher.model)


# Neither ------------------------------------------------------------------------------------------------------------

#: Makes packages as if they were not installed: no finder finds them.
ABSENT = """
import json, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {absent!r} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)

def said(call):
    try:
        call()
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
"""

#: The packages of each framework, and a public name of its backend that needs them.
PACKAGES = {"torch": {"torch"}, "tensorflow": {"tensorflow", "keras", "tf_keras"}}
PROFILERS = {"torch": "profilerkit_torch.TorchProfiler", "tensorflow": "profilerkit_tensorflow.TFProfiler"}


def run_code(code: str, absent: set[str]) -> Any:
    """Return what code prints last, as JSON, in a process of its own where packages are absent."""
    program = ABSENT.format(absent=absent) + code
    done = run_python(program)
    return json.loads(done.stdout.splitlines()[-1])


def ask_for(framework: str) -> str:
    """Return code that says in ``messages`` what happens where a framework's backend is asked for, in both ways."""
    package = PROFILERS[framework].partition(".")[0]
    return f"""
from profilerkit import profile
import {package}
messages = [said(lambda: profile(object(), backend={framework!r})), said(lambda: {PROFILERS[framework]})]
"""


def assert_says_what_to_install(message: str, framework: str) -> None:
    assert message.startswith("BackendNotInstalledError: ")
    assert f"No module named '{framework}'" in message
    assert message.endswith(f"install it with: pip install 'profilerkit[{framework}]'")


@pytest.mark.parametrize("framework", PACKAGES)
@pytest.mark.parametrize("way", ["by name", "by its profiler"])
def test_without_any_framework_each_backend_says_what_to_install(framework: str, way: str) -> None:
    code = ask_for(framework) + "print(json.dumps(messages))"
    by_name, by_profiler = run_code(code, absent=set().union(*PACKAGES.values()))
    assert_says_what_to_install(by_name if way == "by name" else by_profiler, framework)


@pytest.mark.parametrize(("framework", "old"), [("torch", "2.5.1+cpu"), ("tensorflow", "2.15.1")])
def test_a_framework_that_is_too_old_says_which_is_needed(
    framework: str, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, framework, SimpleNamespace(__version__=old))
    forget_loaded()  # as in a new process
    with pytest.raises(BackendNotInstalledError) as raised:
        backend_named(framework)
    needed = oldest_release(framework)
    assert str(raised.value) == (
        f"the {framework} backend cannot be used: {framework} {old} is too old, {needed} or newer is needed; "
        f"install it with: pip install 'profilerkit[{framework}]'"
    )
