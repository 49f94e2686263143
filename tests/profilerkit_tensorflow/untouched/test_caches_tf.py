"""A cache that a model fills while it is traced keeps no tensor without a value, wherever it lies."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from time_limits import join, wait_for_child

pytest.importorskip("tensorflow")
import caching
import keras
import tensorflow as tf
from caching import KINDS
from tensorflow.python.framework.func_graph import FuncGraph

from profilerkit import ModelInputs, ProfilerKitWarning
from profilerkit.backend import RunOptions
from profilerkit_tensorflow import TFBackend, get_accuracy
from profilerkit_tensorflow.untouched.leftovers import forget_tensors
from profilerkit_tensorflow.untouched.new_graphs import collect_new_graphs

BACKEND = TFBackend()
X = np.ones((2, 4), "float32")


@pytest.fixture(scope="module", autouse=True)
def caches_are_not_frozen() -> None:
    """Import the caches anew: the search leaves out what was there when the tests were collected, see conftest.py."""
    sys.modules.pop("caching")
    globals()["caching"] = import_module("caching")


@pytest.fixture(autouse=True)
def caches_are_empty() -> None:
    for cache in (caching.NAMED, caching.LISTED, caching.QUEUED, caching.HIDDEN, caching.HIDDEN_LIST):
        cache.clear()
    caching.Keeper.store.clear()
    caching._innermost().clear()
    caching.remember.cache_clear()
    caching.remember_pair.cache_clear()
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


#: Every cache in a trace; one within reach and one out of it in everything else that traces.
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
    caching.HIDDEN["other"] = held = tf.constant(3.0)
    caching.HIDDEN_LIST[:] = []
    caching.NAMED["other"] = held
    for kind in ("a hidden dict", "a dict"):
        _statically(caching.Caching(kind))
    assert caching.HIDDEN["other"] is held
    assert {"other": held} == caching.NAMED


def test_an_attribute_out_of_reach_is_said_to_hold_one() -> None:
    state = type("State", (), {"__module__": "my_models"})()

    class Hiding(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            found = next(get_object for get_object in gc.get_objects() if type(get_object).__name__ == "State")
            found.last = x * 2
            return x

    model = Hiding()
    model.built = True
    with pytest.warns(ProfilerKitWarning, match="into an attribute of a State; .* set it anew"):
        RUNS["graph"](model)
    assert not hasattr(state.last, "numpy")


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_held() -> None:
    """Loops, branches, masks, outputs in a structure and tensors passed twice: none has a reference too many."""
    inputs = keras.Input((5, 4))
    masked = keras.layers.LSTM(3, return_sequences=True)(keras.layers.Masking()(inputs))
    model = keras.Model(inputs, {"one": masked, "two": [keras.layers.Add()([masked, masked])]})

    @tf.function  # type: ignore[untyped-decorator]
    def looping(x: Any) -> Any:
        for _ in tf.range(3):
            if tf.reduce_sum(x) > 0:
                x = x + x
        return x, tf.split(x, 2, 1)

    for item, example in ((model, tf.ones((2, 5, 4))), (looping, tf.ones((2, 4)))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Of TensorFlow's own trees of code, on Python 3.13.
            warnings.filterwarnings("ignore", r"\w+\.__init__ .*argument", DeprecationWarning)
            assert BACKEND.trace(item, ModelInputs(example)).method == "a traced graph"


def test_only_graphs_of_this_thread_and_of_this_call_are_looked_at() -> None:
    def keeping(x: Any) -> Any:
        caching.HIDDEN_LIST.append(x + 1)
        return x

    with collect_new_graphs() as outer:
        with collect_new_graphs() as inner:
            made = tf.function(keeping).get_concrete_function(tf.TensorSpec(()))
            thread = threading.Thread(target=tf.function(lambda x: x).get_concrete_function, args=(tf.TensorSpec(()),))
            thread.start()
            join(thread)
        assert [part() for part in inner] == [made.graph]
        assert not outer
    assert forget_tensors(inner) == []
    assert caching.HIDDEN_LIST == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_a_fork_has_tensorflows_own_method() -> None:
    """Forked while another thread profiles, whose patch nobody would take away in the child."""
    original, entered, done = FuncGraph.__init__, threading.Event(), threading.Event()

    def profiling() -> None:
        with collect_new_graphs():
            entered.set()
            done.wait(60)

    thread = threading.Thread(target=profiling)
    thread.start()
    assert entered.wait(60)
    assert FuncGraph.__init__ is not original
    child = os.fork()
    if not child:
        os._exit(0 if FuncGraph.__init__ is original else 1)
    status = os.waitstatus_to_exitcode(wait_for_child(child))
    done.set()
    join(thread)
    assert status == 0
    assert FuncGraph.__init__ is original


class Proxy:
    """Raises where it is asked for its class or attributes, as a proxy does whose object is not there."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("nothing behind it")


def test_an_object_that_cannot_be_asked_is_no_obstacle() -> None:
    proxy = Proxy()
    object.__getattribute__(proxy, "__dict__")["cache"] = caching.HIDDEN
    caching.HIDDEN["proxy"] = proxy
    model = caching.Caching("a hidden dict")
    assert BACKEND.trace(model, ModelInputs(tf.constant(X))).macs == 32
    assert caching.HIDDEN["proxy"] is proxy
