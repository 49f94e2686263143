"""What the tests of the core share: a fake model with round numbers, and profilers over it."""

from collections.abc import Callable

import pytest

from profilerkit import Metric, ModelTrace, Profiler, ProfilerFunction
from profilerkit.testing import FakeBackend, FakeLayer, FakeModel, FakeTensor


class Doubled(Metric):
    """Twice the multiply-accumulates."""

    NAME = "doubled"


class Weight(Metric):
    """How many parameters there are."""

    NAME = "weight"


class ComputeWeight(ProfilerFunction):
    """Counts its calls, so that tests see what is remembered."""

    def __init__(self) -> None:
        self.calls = 0

    def get_bounded_status_keys(self) -> type[Metric]:
        return Weight

    def __call__(self, trace: ModelTrace, factor: int = 1) -> int:
        self.calls += 1
        return trace.total_params * factor


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
