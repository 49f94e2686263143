"""A profiler that has computed every metric is pickled, with its values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from frameworks import Framework

from profilerkit import Metric, Profiler, metric


@metric("macs_for_each_weight", better="lower")
def macs_for_each_weight(macs: int, total_params: int) -> float:
    """Multiply-accumulates for each weight."""
    return macs / total_params


def shown(profiler: Profiler) -> dict[str, Any]:
    statuses = profiler.report().statuses
    return {name: (status.shown, status.completeness, status.missing) for name, status in statuses.items()}


def test_every_metric_is_pickled_with_its_profiler(framework: Framework) -> None:
    """What any of them remembers, of the framework too, is left behind or restored."""
    profiler = framework.profiler(framework.dense(4, 3, 2), input_shape=(4,)).register_defaults()
    profiler.register_profiler_function(macs_for_each_weight)
    keys = [binding.key.NAME for binding in profiler._registry if isinstance(binding.key, Metric)]
    assert "macs_for_each_weight" in keys
    assert "layer_times" in keys
    profiler.compute(keys, passes=1, num_iters=3, warmup=1, batch_sizes=(1, 2), max_seconds=0.1)
    again = pickle.loads(pickle.dumps(profiler))
    assert shown(again) == shown(profiler)
    assert again.status_get("macs") == 4 * 3 + 3 * 2
    assert again.compute_status("macs", batch_size=2) == 2 * (4 * 3 + 3 * 2), "it goes on computing"


def test_a_value_is_computed_again_after_it_was_pickled() -> None:
    """Whether the model has changed meanwhile is told by the identity of its parts, which another process lacks."""
    torch = pytest.importorskip("torch")
    from profilerkit_torch import TorchProfiler

    profiler = TorchProfiler(torch.nn.Linear(4, 2), input_shape=(4,)).register_defaults()
    assert profiler.compute_status("trainable_params") == 10
    again = pickle.loads(pickle.dumps(profiler))
    again.model.bias.requires_grad_(False)
    assert again.status_get("trainable_params") == 10
    assert again.compute_status("trainable_params") == 8


def test_a_value_that_was_loaded_stays_when_it_is_pickled(framework: Framework) -> None:
    """It was computed from nothing that could have changed; the model itself has 4 * 3 MACs."""
    profiler = framework.profiler(framework.dense(4, 3), input_shape=(4,)).register_defaults()
    profiler.load_from_dict({"macs": 123})
    again = pickle.loads(pickle.dumps(profiler))
    assert again.status_get("macs") == again.compute_status("macs") == 123
    assert again.compute_status("macs", recompute=True) == 4 * 3
