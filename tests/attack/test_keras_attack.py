"""Every Keras model with every call; what can go wrong meanwhile; what the caller may be in the middle of.

Slices are run with ``-k``: ``pytest tests/attack/test_keras_attack.py -k "caching and faults"``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from attack_sampling import WHOLE, sample
from time_limits import run_python

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")
import keras
from attack_cases import NO_CONTEXT, NO_FAULT, Case, quiet
from keras_allowed import surprises
from keras_calls import CALLS, FEW
from keras_contexts import CONTEXTS
from keras_faults import FAULTS
from keras_harness import find_case_differences, made
from keras_subjects import MODELS, Subject

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # what the models themselves warn of

#: One model of each kind.
KINDS = ("functional", "restless", "module", "values_asked_for", "legacy_functional", "unbuilt")
WITH_NOTHING_WRONG = [Case(model, call) for model in MODELS for call in CALLS]
WITH_FAULTS = [
    *(Case("functional", call, fault) for call in CALLS for fault in FAULTS),
    *(Case(model, call, fault) for model in KINDS[1:] for call in FEW for fault in FAULTS),
]
_CONTEXTS = [context for context in CONTEXTS if context != NO_CONTEXT]
WITH_CONTEXTS = [
    *(Case("functional", call, NO_FAULT, context) for call in CALLS for context in _CONTEXTS),
    *(Case(model, call, NO_FAULT, context) for model in KINDS[1:] for call in FEW for context in _CONTEXTS),
    *(Case("functional", call, fault, context) for call in FEW[:2] for fault in FAULTS[::2] for context in _CONTEXTS),
]


@pytest.mark.parametrize("case", sample(WITH_NOTHING_WRONG, 5), ids=str)
def test_nothing_differs(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("case", sample(WITH_FAULTS, 3), ids=str)
def test_nothing_differs_where_something_goes_wrong(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("case", sample(WITH_CONTEXTS, 3), ids=str)
def test_nothing_differs_for_a_caller_in_the_middle_of_something(case: Case) -> None:
    assert not surprises(case)


@pytest.mark.parametrize("model", ["restless", "module", "closure"])
def test_what_a_plain_call_changes_is_found(model: str) -> None:
    """Each of these changes itself when it is called, which is done here in the place of a profile."""
    assert find_case_differences(Case(model, "static_profile"), do=Subject.__call__)


#: What is done to an ordinary model or the process, and the fact that must be named.
DAMAGE: dict[str, tuple[Callable[[Subject], Any], str]] = {
    "an attribute": (lambda subject: setattr(subject.model.layers[1], "left_behind", True), "*.left_behind"),
    "a weight": (lambda subject: subject.model.weights[0].assign_add(subject.model.weights[0]), "*kernel* value"),
    "a policy": (lambda subject: keras.config.set_dtype_policy("mixed_float16"), "process keras settings"),
    "a layer's name used": (lambda subject: keras.layers.Dense(1), "process keras state"),
    "the environment": (lambda subject: os.environ.update(LEFT="1"), "process environment"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_by_name(name: str) -> None:
    damage, fact = DAMAGE[name]
    found = [item.fact for item in find_case_differences(Case("sequential", "static_profile"), do=damage)]
    assert any(fnmatchcase(difference, fact) for difference in found), found


@pytest.mark.parametrize("call", sample(list(CALLS), 3))
def test_every_call_gets_through_with_an_ordinary_model(call: str) -> None:
    """A call that always raised would change nothing, and every case of it would pass."""
    with made("sequential", NO_FAULT) as subject, quiet():
        CALLS[call](subject)


in_a_process_of_its_own = pytest.mark.skipif(not WHOLE, reason="a process of its own; make attack runs it")


@in_a_process_of_its_own
def test_a_keras_model_on_torch_comes_back_too() -> None:
    pytest.importorskip("torch")
    code = """
import keras, numpy as np
from profilerkit import profile
layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
model = keras.Sequential([keras.Input((4,)), *layers])
x = np.ones((2, 4), "float32")
first = np.array(model(x).detach())
before, attributes = [np.array(w) for w in model.get_weights()], [dict(vars(l)) for l in model.layers]
profile(model, x, num_iters=3)
assert all((a == b).all() for a, b in zip(before, model.get_weights()))
assert [set(vars(l)) for l in model.layers] == [set(a) for a in attributes]
assert all(vars(l)[k] is v for l, a in zip(model.layers, attributes) for k, v in a.items() if k != "training")
assert (np.array(model(x).detach()) == first).all()
"""
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    run_python(code, env=environment)


@in_a_process_of_its_own
def test_without_eager_execution_that_is_said() -> None:
    code = """
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
from profilerkit import TracingError, profile
try:
    profile(tf.Module(), backend="tensorflow")
except TracingError as error:
    print(error)
"""
    done = run_python(code, check=False)
    assert "inside a tf.Graph, where TensorFlow runs nothing" in done.stdout, done.stderr[-2000:]
