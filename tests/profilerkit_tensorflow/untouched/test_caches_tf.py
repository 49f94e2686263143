"""A cache that a model fills while it is traced keeps no tensor without a value, where the model's code names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import caching
import numpy as np
import pytest
import tensorflow as tf
from caching import KINDS

from profilerkit import ModelInputs
from profilerkit.backend import RunOptions
from profilerkit_tensorflow import TFBackend, get_accuracy

BACKEND = TFBackend()
X = np.ones((2, 4), "float32")


@pytest.fixture(autouse=True)
def caches_are_empty() -> None:
    for cache in (caching.NAMED, caching.LISTED, caching.QUEUED):
        cache.clear()
    caching.Keeper.store.clear()
    caching.remember.cache_clear()
    caching.remember_pair.cache_clear()
    caching.Keeper.remember.cache_clear()
    caching.Keeper.remember_statically.cache_clear()
    caching.BOUND = None


def _statically(model: Any) -> None:
    BACKEND.trace(model, ModelInputs(tf.constant(X)))


def _in_training(model: Any) -> None:
    BACKEND.trace_training(model, ModelInputs(tf.constant(X)))


def _time(mode: str) -> Callable[[Any], None]:
    def run(model: Any) -> None:
        with BACKEND.run(model, ModelInputs(tf.constant(X)), RunOptions(mode=mode)) as call:
            call()

    return run


RUNS: dict[str, Callable[[Any], Any]] = {
    "trace": _statically,
    "training trace": _in_training,
    "graph": _time("graph"),
    "predict": _time("predict"),
    "layer times": lambda model: BACKEND.layer_times(model, ModelInputs(tf.constant(X)), passes=1),
    "operator times": lambda model: BACKEND.operator_times(model, ModelInputs(tf.constant(X)), passes=1),
    "accuracy of batches of two sizes": lambda model: get_accuracy(model, [(X, np.zeros(2, int)), (X[:1], [0])]),
}


#: Every cache in a trace; two in everything else that traces.
CASES = [(kind, "trace") for kind in KINDS] + [
    (kind, run) for run in list(RUNS)[1:] for kind in ("a dict", "a cached pair")
]


@pytest.mark.parametrize(("kind", "run"), CASES)
def test_the_model_can_be_called_afterwards(kind: str, run: str) -> None:
    model = caching.Caching(kind)
    RUNS[run](model)
    expected = model.dense(X).numpy() * model_table(kind)
    np.testing.assert_allclose(model(X).numpy(), expected, rtol=1e-6)


def model_table(kind: str) -> Any:
    return np.sin(np.arange(4)) if kind == "a cached pair" else np.arange(4) * 2.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_counted_wherever_the_cache_is(kind: str) -> None:
    found = BACKEND.trace(caching.Caching(kind), ModelInputs(tf.constant(X)))
    assert found.failure is None
    assert found.macs == 2 * 4 * 4
    assert found.method == "a traced graph"


def test_what_a_cache_had_before_stays() -> None:
    caching.NAMED["other"] = held = tf.constant(3.0)
    _statically(caching.Caching("a dict"))
    assert {"other": held} == caching.NAMED


def test_a_cached_function_that_no_trace_has_filled_keeps_its_results() -> None:
    kept = caching.remember(4)
    _statically(caching.Caching("a cached function"))
    assert caching.remember(4) is kept
