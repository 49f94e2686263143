"""What the tests of the core share: a fake model with round numbers, and profilers over it."""

import gc
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from _pytest.doctest import DoctestModule
from conformance_marks import mark_slow_architectures
from heavy import is_heavy, is_heavy_file
from hook_plugins import manager, priced  # noqa: F401 (fixtures for all tests)
from plugin_fixtures import core, entry_points, install  # noqa: F401 (fixtures for all tests)

from profilerkit import Profiler, ProfilerFunction
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor
from profilerkit.times import conditions

if TYPE_CHECKING:
    from frameworks import Framework

# Threads of an operator that wait for one another sleep. By default they spin, which takes the cores from the other
# process of tests: a fifth of the time of those of torch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What XLA compiles here runs once or twice: without LLVM's optimizations, which change no count, the tests of JAX take
# two thirds of the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Compiled files are kept, even where Python is told to keep none, as in many containers: each program that a test
# starts would compile all of profilerkit, and pytest all of the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# OpenVINO's converter forks this process at each call, to send word of it over the network, but not on a service that
# builds and tests, as it is told by this variable.
os.environ.setdefault("TF_BUILD", "True")

# CUDA builds of torch bring Triton, which crashes the process if TensorFlow 2.20 or 2.21 was imported before it:
# https://github.com/tensorflow/tensorflow/issues/124205
with suppress(ImportError):
    import_module("triton")

# A shell has what it starts in the background ignore interrupts, and all that starts from there: many tests send one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine takes longer for an example than hypothesis allows.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

_TESTS_OF_THE_CORE = Path(__file__).parent / "profilerkit"
#: Folders whose tests all need a framework, which their files import at the top.
_FRAMEWORK_OF_FOLDER = {"profilerkit_jax": "jax", "profilerkit_tensorflow": "tensorflow"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders whose framework is not there, and files that import one, where no heavy tests are asked for."""
    if find_spec(_FRAMEWORK_OF_FOLDER.get(collection_path.name, "pytest")) is None:
        return True
    is_left_out = "not heavy" in (config.option.markexpr or "") and collection_path.name.startswith("test_")
    return True if is_left_out and is_heavy_file(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect no doctests of tests: one whose import fails is skipped, and hides that the tests cannot be imported."""
    collected = yield
    return [collector for collector in collected if not isinstance(collector, DoctestModule)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow in the conformance suite, and what starts processes or needs a framework, where it is asked."""
    mark_slow_architectures(items)
    if config.pluginmanager.hasplugin("_cov"):
        _leave_out_of_coverage(items)
    if "heavy" not in (config.option.markexpr or ""):
        return
    for item in items:
        if isinstance(item, pytest.Function) and is_heavy(Path(item.path), item.function.__name__):
            item.add_marker("heavy")


def _leave_out_of_coverage(items: list[pytest.Item]) -> None:
    """Count the lines of the core in the first case of each test of a backend: counting takes as long as the tests."""
    seen = set()
    for item in items:
        if _TESTS_OF_THE_CORE in item.path.parents or not isinstance(item, pytest.Function):
            continue
        test = item.path, item.cls, item.function.__name__
        if test in seen:
            item.add_marker("no_cover")
        seen.add(test)


def pytest_collection() -> None:
    """Import and collect without searching for garbage: there is none yet."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of each later search for garbage: it stays until the end anyway.

    There are millions of such objects, and a full search that goes through them takes longer than most tests. What of
    them is garbage is not looked for either.
    """
    gc.freeze()
    gc.enable()
    _let_loggers_propagate()


def _let_loggers_propagate() -> None:
    """Have the messages of torch's loggers, of which there are fifty, go to their common root too.

    Pytest adds its two handlers to each logger that lets none through, and takes them away, three times for each test.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == "torch" and isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture(scope="module", autouse=True)
def leavings_of_the_file_are_frozen() -> Iterator[None]:
    """Do the same with what a file of tests leaves, such as what frameworks cache: half of the time went there."""
    yield
    gc.collect()
    gc.freeze()


def settings() -> dict[str, Any]:
    """The settings of this process that a test could leave changed for those after it."""
    # setuptools, which torch.compile imports, adds a folder of its own.
    paths = tuple(path for path in sys.path if "setuptools" not in path)
    found: dict[str, Any] = {"folder": os.getcwd(), "sys.path": paths}  # noqa: PTH109
    found["frameworks"] = _FRAMEWORKS & sys.modules.keys()
    found |= {f"${name}": value for name, value in os.environ.items() if name not in _ANY_TEST_SETS}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "nn"):
        found |= {
            "default dtype": torch.get_default_dtype(),
            "default device": torch.get_default_device(),
            "threads": torch.get_num_threads(),
            "gradients": torch.is_grad_enabled(),
            "inference mode": torch.is_inference_mode_enabled(),
            "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
            "autocast's cache": torch.is_autocast_cache_enabled(),
            "fast path": torch.backends.mha.get_fastpath_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "anomaly": torch.is_anomaly_enabled(),
            "quantized engine": torch.backends.quantized.engine,
            "hooks of all modules": tuple(map(len, _global_hooks(torch))),
        }
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        found["keras"] = (keras.config.floatx(), keras.config.image_data_format(), str(keras.config.dtype_policy()))
    return found


#: Set while a test runs, by pytest, and by torch.compile, torch.cuda and their users at the first use.
_ANY_TEST_SETS = frozenset(
    {
        "PYTEST_CURRENT_TEST",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "CUDA_MODULE_LOADING",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    }
)
_FRAMEWORKS = frozenset(
    {"torch", "tensorflow", "keras", "tf_keras", "jax", "transformers", "sklearn", "matplotlib", "h5py"}
)
#: Where tests run in several processes, each is told how wide the terminal is: tests that ask for a width set one.
os.environ.pop("COLUMNS", None)
os.environ.pop("LINES", None)


def _global_hooks(torch: Any) -> tuple[Any, ...]:
    module = torch.nn.modules.module
    return module._global_forward_hooks, module._global_forward_pre_hooks, module._global_backward_hooks


@pytest.fixture(autouse=True)
def process_is_left_as_found() -> Iterator[None]:
    """Fail the test that leaves a setting of the process changed: later tests would fail of it, and not say why."""
    before = settings()
    yield
    after = settings()
    names = set(before)
    if after["frameworks"] == before["frameworks"]:  # they set some themselves, when they are imported
        names |= set(after)
    changed = {name: (before.get(name), after.get(name)) for name in names if after.get(name) != before.get(name)}
    changed.pop("frameworks", None)
    assert not changed, f"the test leaves settings of this process changed: {changed}"


@pytest.fixture(autouse=True)
def no_machine_is_busy() -> Iterator[None]:
    """Leave out of reports that the machine is busy: tests run on machines that are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conditions, "MOST_LOAD_OF_A_CORE", math.inf)
        patched.setattr(conditions, "FEWEST_SWITCHES", math.inf)
        yield


@pytest.fixture(autouse=True)
def frozen_objects_are_left_out() -> Iterator[None]:
    """Let no search for the holders of a tensor go through what was imported and collected."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gc, "get_freeze_count", lambda: 0)
        yield


@pytest.fixture
def torch_settings_put_back() -> Iterator[None]:
    """For tests of models that leave settings changed, and of faults planted in what puts them back."""
    import torch

    fast = torch.backends.mha.get_fastpath_enabled()
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    yield
    torch.backends.mha.set_fastpath_enabled(fast)
    torch.set_autocast_enabled("cpu", autocast[0])
    torch.set_autocast_dtype("cpu", autocast[1])
    torch.set_autocast_cache_enabled(autocast[2])


@pytest.fixture
def model() -> FakeModel:
    """A model of 10 + 20 parameters (the 20 frozen), 100 + 200 MACs and 250 + 450 FLOPs for one sample."""
    first = FakeLayer("first", params=10, macs=100, flops=250, activation_bytes=64)
    second = FakeLayer("second", params=20, macs=200, flops=450, activation_bytes=32, trainable=False)
    return FakeModel([first, second])


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def make_profiler(backend: FakeBackend) -> Callable[..., Profiler]:
    """Build a profiler over the fake backend, with one example input of batch size 1 unless told otherwise."""

    def make(model: FakeModel, *functions: ProfilerFunction, **kwargs: object) -> Profiler:
        arguments = {"inputs": FakeTensor((1, 3)), **kwargs}
        profiler = Profiler(model, backend=backend, **arguments)  # type: ignore[arg-type]
        for function in functions:
            profiler.register_profiler_function(function)
        return profiler

    return make


@pytest.fixture(params=["torch", "tensorflow"])
def framework(request: pytest.FixtureRequest) -> "Framework":
    """The framework of each backend in turn, for the tests that are the same for all of them."""
    from frameworks import framework_named

    return framework_named(request.param)
