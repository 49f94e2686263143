"""The fingerprint of a Keras model is sharp: damage of every kind, planted in the place of a call, is named."""

from __future__ import annotations

import os
import random
import sys
import threading
import warnings
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")
import keras
import keras_subjects
import tensorflow as tf
import tf_keras
from attack_cases import NO_FAULT, Case, quiet
from attack_sampling import sample
from keras_calls import CALLS
from keras_faults import FAULTS
from keras_harness import find_case_differences, made
from keras_subjects import Subject
from tensorflow.python.framework import func_graph

#: Of the harness itself, and of no promise to users; warnings are those of the models.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Damage = Callable[[Subject], Any]
_event = threading.Event()


def _smallest_step(subject: Subject) -> None:
    kernel = subject.model.weights[0]
    values = kernel.numpy()
    values.flat[3] = np.nextafter(values.flat[3], 9)
    kernel.assign(values)


def _another_variable(subject: Subject) -> None:
    layer = subject.model.layers[1]
    layer.__dict__["_kernel"] = keras.Variable(layer.kernel)


def _attribute(subject: Subject) -> None:
    subject.model.layers[1].left_behind = True


def _remove(subject: Subject) -> None:
    del subject.model.layers[1].__dict__["built"]


def _frozen(subject: Subject) -> None:
    subject.model.layers[1].trainable = False


def _loss(subject: Subject) -> None:
    subject.model.layers[1]._losses.append(tf.constant(1.0))


def _node(subject: Subject) -> None:
    subject.model.layers[1](keras.Input((4,)))


def _optimizer(subject: Subject) -> None:
    subject.model.optimizer.iterations.assign_add(1)


def _metric(subject: Subject) -> None:
    subject.model.metrics[0].variables[0].assign_add(1.0)


def _class_attribute(subject: Subject) -> None:
    type(subject.model).calls += 1


def _slot(subject: Subject) -> None:
    subject.model.slots.last = 1


def _cache(subject: Subject) -> None:
    keras_subjects.CACHE["left"] = 1


def _symbolic_in_a_cache(subject: Subject) -> None:
    keras_subjects.HIDDEN["x"] = keras.Input((4,))


def _closure(subject: Subject) -> None:
    subject.model.__closure__[0].cell_contents += 1


def _module_list(subject: Subject) -> None:
    subject.model.parts.append(tf.Variable(1.0))


def _built(subject: Subject) -> None:
    subject.model(subject.inputs)


def _thread(subject: Subject) -> None:
    _event.clear()
    threading.Thread(target=_event.wait, name="left behind", daemon=True).start()


def _patch(subject: Subject) -> None:
    func_graph.FuncGraph.__init__ = lambda *args, __was=func_graph.FuncGraph.__init__, **kwargs: __was(*args, **kwargs)


def _callback(subject: Subject) -> None:
    tf.debugging.enable_check_numerics()


#: What is done, to which model, and the fact that must be named.
DAMAGE: dict[str, tuple[str, Damage, str]] = {
    "a weight's last bit": ("sequential", _smallest_step, "*kernel* value"),
    "a variable replaced": ("functional", _another_variable, "*._kernel"),
    "an attribute added": ("functional", _attribute, "*.left_behind"),
    "an attribute removed": ("functional", _remove, "*.built"),
    "a layer frozen": ("functional", _frozen, "*._trainable"),
    "a loss": ("functional", _loss, "*._losses*"),
    "a node": ("functional", _node, "*._inbound_nodes*"),
    "the optimizer's steps": ("fitted", _optimizer, "*_iterations* value"),
    "a metric's state": ("fitted", _metric, "* value"),
    "a class attribute": ("restless", _class_attribute, "* class Restless.calls"),
    "a slot": ("caching", _slot, "*.last (slot)"),
    "a cache of the module": ("caching", _cache, "outside cache[[]'left']"),
    "a tensor without a value in a cache": ("caching", _symbolic_in_a_cache, "outside hidden[[]'x']"),
    "a variable of a closure": ("closure", _closure, "* closure *"),
    "a module's list": ("module", _module_list, "*parts*length"),
    "a model that was not built": ("unbuilt", _built, "model.built (read)"),
    "a patched method": ("sequential", _patch, "process patched functions"),
    "operator callbacks": ("sequential", _callback, "process tensorflow settings"),
    "functions that run eagerly": (
        "sequential",
        lambda subject: tf.config.run_functions_eagerly(True),
        "process tensorflow settings",
    ),
    "a policy": (
        "sequential",
        lambda subject: keras.config.set_dtype_policy("mixed_float16"),
        "process keras settings",
    ),
    "floatx": ("sequential", lambda subject: tf_keras.backend.set_floatx("float16"), "process tf_keras settings"),
    "a layer's name used": ("sequential", lambda subject: keras.layers.Dense(1), "process keras state"),
    "a random number of Keras'": ("sequential", lambda subject: keras.random.normal((1,)), "process keras state"),
    "a random number of TensorFlow's": (
        "sequential",
        lambda subject: tf.random.normal((1,)),
        "process tensorflow random state",
    ),
    "a random number of Python's": ("sequential", lambda subject: random.random(), "process python random state"),
    "a random number of numpy's": ("sequential", lambda subject: np.random.rand(), "process numpy random state"),
    "the global generator": (
        "sequential",
        lambda subject: tf.random.get_global_generator().normal((1,)),
        "process global generator",
    ),
    "the environment": ("sequential", lambda subject: os.environ.update(LEFT="1"), "process environment"),
    "the import path": ("sequential", lambda subject: sys.path.append("left"), "process sys.path"),
    "warnings": ("sequential", lambda subject: warnings.simplefilter("always"), "process warnings filters"),
    "a thread": ("sequential", _thread, "process threads"),
}


@pytest.fixture(autouse=True)
def _tidy() -> Any:
    original = func_graph.FuncGraph.__init__
    yield
    func_graph.FuncGraph.__init__ = original
    tf.debugging.disable_check_numerics()
    _event.set()


@pytest.mark.parametrize("name", sample(list(DAMAGE), 8))
def test_damage_is_found_and_named(name: str) -> None:
    model, damage, fact = DAMAGE[name]
    found = find_case_differences(Case(model, "static_profile"), do=damage)
    assert any(fnmatchcase(difference.fact, fact) for difference in found), [difference.fact for difference in found]


@pytest.mark.parametrize("model", ["functional", "restless", "caching"])
def test_nothing_is_found_where_nothing_was_done(model: str) -> None:
    assert find_case_differences(Case(model, "static_profile"), do=lambda subject: None) == []


def test_a_wrong_output_afterwards_is_found_where_no_fact_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two models built alike, one gives something else: the harness compares what they give."""
    scale = [1.0]
    monkeypatch.setattr(keras_subjects, "fire", lambda owner, x: x * scale[0])
    found = find_case_differences(
        Case("own_train_step", "static_profile"), do=lambda subject: scale.__setitem__(0, 2.0)
    )
    assert [difference.fact for difference in found] == ["output afterwards"]


@pytest.mark.parametrize("call", sample(list(CALLS), 3))
def test_every_call_gets_through_with_an_ordinary_model(call: str) -> None:
    """The harness swallows whatever a call raises: one that always raised would find nothing."""
    with made("sequential", NO_FAULT) as subject, quiet():
        CALLS[call](subject)


@pytest.mark.parametrize("fault", [item for item in FAULTS if not item.startswith("in the backward")])
def test_every_fault_comes_at_its_call_and_at_no_other(fault: str) -> None:
    at = int(fault.partition("@")[2])
    with made("sequential", fault) as subject:
        raised = [_raises(subject) for _ in range(4)]
    assert raised == [number == at for number in range(1, 5)]


def _raises(subject: Subject) -> bool:
    try:
        subject()
    except BaseException:
        return True
    return False


def test_a_backward_pass_can_fail_in_the_trap() -> None:
    with made("sequential", "in the backward pass@1") as subject, tf.GradientTape() as tape:
        loss = tf.reduce_sum(subject())
    with pytest.raises(RuntimeError, match="in the backward pass"):
        tape.gradient(loss, subject.model.trainable_weights)


@pytest.mark.parametrize("model", ["restless", "module", "closure"])
def test_a_plain_call_in_the_place_of_a_profile_is_found(model: str) -> None:
    """Each of these changes itself when it is called, which a profile must not show."""
    assert find_case_differences(Case(model, "static_profile"), do=Subject.__call__)
