"""Metrics for tests of the core, and a function that counts its calls."""

from profilerkit import Metric, ModelTrace, ProfilerFunction


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
