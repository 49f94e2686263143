"""How each backend runs a model to time it. How long it takes is nobody's to assert; that it took any time is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frameworks import Framework

from profilerkit import Measurement, compare, profile

X = np.linspace(0, 1, 2 * 8, dtype=np.float32).reshape(2, 8)
MACS = 8 * 4 + 4 * 2


def network(framework: Framework) -> Any:
    return framework.dense(8, 4, 2)


def test_a_measurement_is_in_seconds_and_above_zero(framework: Framework) -> None:
    profiler = framework.profiler(network(framework), inputs=X)
    profiler.register_profiler_function(framework.ComputeExecutionTime())
    measured = profiler.compute_status("execution_time", num_iters=5, warmup=1)
    assert isinstance(measured, Measurement)
    assert len(measured.samples) == 5
    assert min(measured.samples) > 0
    throughput = profiler.compute_status("throughput", num_iters=5, warmup=1)
    assert throughput.samples == tuple(2 / seconds for seconds in measured.samples)


def test_training_times_are_in_a_report(framework: Framework) -> None:
    metrics = ["macs", "execution_time", "training_time"]
    report = profile(network(framework), X, training=True, num_iters=3, drop_first=2, metrics=metrics)
    assert len(report["execution_time"].samples) == len(report["training_time"].samples) == 3
    assert len(report["execution_time"].warmup) == 2
    assert any(note.startswith("Execution Time: one training step: the forward pass in tr") for note in report.notes)
    assert report["macs"] == 2 * MACS, "counts are those of the model as it is"


def test_training_times_of_two_models_are_taken_in_turn(framework: Framework) -> None:
    comparison = compare(network(framework), network(framework), inputs=X, metrics=["training_time"], num_iters=4)
    assert comparison.ratio("training_time").paired


def test_warmup_and_drop_first_are_one_number(framework: Framework) -> None:
    options: dict[str, Any] = {"metrics": "execution_time", "num_iters": 1, "warmup": 3}
    assert len(profile(network(framework), X, **options)["execution_time"].warmup) == 3
    assert len(profile(network(framework), X, drop_first=3, **options)["execution_time"].warmup) == 3
    report = profile(network(framework), X, drop_first=2, **options)
    assert "warmup=3 and drop_first=2 are two names of one number" in report.status("execution_time").missing[0]


def test_a_sweep_over_batch_sizes(framework: Framework) -> None:
    report = profile(network(framework), X, batch_size=(1, 4), metrics="macs", num_iters=2)
    assert [row["batch_size"] for row in report["batch_sweep"]] == [1, 4]
    assert report["macs"] == MACS


def test_the_memory_of_a_sweep_is_that_of_training_with_its_optimizer(framework: Framework) -> None:
    """Adam keeps two numbers of 4 bytes for each weight, and more than a step takes: it is part of the peak."""
    alone, memory = (
        profile(network(framework), X, batch_size=4, metrics=["training_memory"], optimizer=optimizer)[
            "training_memory"
        ]
        for optimizer in (None, "adam")
    )
    assert memory > alone
    how: dict[str, Any] = {"batch_size": (1, 4), "training": True, "optimizer": "adam", "num_iters": 2}
    sweep = profile(network(framework), X, metrics=["batch_sweep"], **how)["batch_sweep"]
    assert sweep[1]["memory_footprint"] == memory


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numpys_random_numbers_come_back_whatever_their_bits_are(framework: Framework) -> None:
    def draw_too(x: Any) -> Any:
        np.random.standard_normal()
        return x

    generator: Any = np.random  # the types of numpy lack these two functions
    before = generator.get_bit_generator()
    generator.set_bit_generator(np.random.PCG64(3))
    try:
        expected = np.random.RandomState(np.random.PCG64(3)).standard_normal(4)
        model, x = framework.function(draw_too), framework.tensor(np.ones((1, 2), np.float32))
        report = profile(model, x, backend=framework.name, metrics=["macs", "execution_time"], max_seconds=0.05)
        assert report["macs"] == 0
        np.testing.assert_array_equal(np.random.standard_normal(4), expected)
    finally:
        generator.set_bit_generator(before)
