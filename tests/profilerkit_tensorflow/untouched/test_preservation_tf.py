"""A model of any kind comes back as it was, whatever was done with it and whether or not that raised."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from time_limits import join

pytest.importorskip("tf_keras")
import tensorflow as tf
from attack_cases import Case, find_differences, find_unexpected
from keras_allowed import ALLOWED
from keras_fingerprint import Facts, look_at
from keras_runs import RUNS, call, train
from keras_subjects import Subject, X, build
from slow_ones import slow_ones

from profilerkit import ModelInputs, profile
from profilerkit_tensorflow import TFBackend
from profilerkit_tensorflow.untouched.preservation import preserve

#: The kinds of models that are looked at here, which take the same inputs.
KINDS = (
    *("functional", "fitted", "unbuilt", "stateful", "single_layer", "restless"),
    *(f"legacy_{name}" for name in ("functional", "fitted", "unbuilt", "stateful", "layer", "restless")),
    *("module", "traced_module", "function", "function_of_a_method", "concrete_function", "closure", "saved_model"),
)


def require_the_same(kind: str, subject: Subject, before: Facts) -> None:
    assert find_unexpected(Case(kind, "preserve"), find_differences(before, look_at(subject)), ALLOWED) == []


@cache
def build_once(kind: str) -> Subject:
    return build(kind)


def build_kind(kind: str) -> Subject:
    """Return a new model; one that is fitted, which takes seconds, is shared by the tests, as it comes back."""
    return build_once(kind) if "fitted" in kind else build(kind)


#: Models with which all is done that is here; with the others the quick tests train and trace until an error comes.
QUICK = ("functional", "module", "closure")


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", slow_ones(KINDS, set(KINDS) - set(QUICK)))
def test_a_model_comes_back_as_it_was(kind: str, run: Callable[[Any], None]) -> None:
    subject = build_kind(kind)
    before, attributes = look_at(subject), dict(vars(type(subject.model)))
    with preserve(subject.model, variable_values=True):
        run(subject.model)
    require_the_same(kind, subject, before)
    assert dict(vars(type(subject.model))) == attributes


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_comes_back_from_an_error_too(kind: str) -> None:
    subject = build_kind(kind)
    before = look_at(subject)

    def fails_half_way(x: Any) -> None:
        call(subject.model, x, training=True)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"), preserve(subject.model, variable_values=True):
        train(subject.model)
        tf.function(fails_half_way, autograph=False).get_concrete_function(tf.TensorSpec((2, 4)))
    require_the_same(kind, subject, before)


def test_a_module_can_be_profiled_inside_its_own_profile_and_by_one_thread_at_a_time() -> None:
    subject = build("functional")
    model, before = subject.model, look_at(subject)
    failed: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(3):
                with preserve(model, variable_values=True), preserve(model):
                    model.kept = object()
                    model(X, training=True)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert not failed
    require_the_same("functional", subject, before)


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


#: What a container is asked by, all of which a subclass may refuse.
QUESTIONS = "__len__ __iter__ __contains__ __getitem__ __bool__ __eq__ __reversed__ __repr__ keys values items get copy"


@pytest.mark.parametrize("kind", [tuple, list, dict, OrderedDict, set, frozenset, deque])
def test_a_container_that_answers_no_question_comes_back(kind: Any) -> None:
    """In an object of the user: TensorFlow itself asks those that are attributes of a module."""
    refusals: dict[str, Any] = dict.fromkeys(QUESTIONS.split(), refuse) | {"__hash__": kind.__hash__}
    content = {"a": 1} if issubclass(kind, dict) else ["a"]
    container = type("Refusing", (kind,), refusals)(content)

    class Model(tf.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(tf.ones((4, 4)))
            self.holder = SimpleNamespace(container=container)

        def __call__(self, x: Any) -> Any:
            if issubclass(kind, dict):
                kind.__setitem__(self.holder.container, "b", 2)
            elif hasattr(kind, "clear"):
                kind.clear(self.holder.container)
            return x @ self.weight

    model = Model()
    before = TFBackend().fingerprint(model)
    trace = TFBackend().trace(model, ModelInputs(tf.ones((2, 4))))
    assert (trace.failure, trace.macs) == (None, 2 * 4 * 4)
    assert TFBackend().fingerprint(model) == before
    assert model.holder.container is container
    assert (dict(kind.items(container)) if issubclass(kind, dict) else list(kind.__iter__(container))) == content


def test_the_methods_of_a_class_come_back_special_ones_too() -> None:
    class Doubling(tf.Module):  # type: ignore[misc]
        def __call__(self, x: int) -> int:
            return 2 * x

        def work(self, x: int) -> int:
            return 2 * x

    model = Doubling()
    methods = Doubling.__call__, Doubling.work
    with preserve(model):
        for name in ("__call__", "work", "__len__", "added"):
            setattr(Doubling, name, lambda self, x=0: 5)
    assert (Doubling.__call__, Doubling.work) == methods
    assert not hasattr(Doubling, "__len__")
    assert not hasattr(Doubling, "added")
    assert (model(3), model.work(3)) == (6, 6)


class SlottedCounter:
    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class PlainCounter:
    def __init__(self) -> None:
        self.calls = 0


class Counting(tf.Module):  # type: ignore[misc]
    counters = (SlottedCounter(), PlainCounter())
    slotted, plain = SlottedCounter(), PlainCounter()

    def __call__(self, x: Any) -> Any:
        for counter in (*self.counters, self.slotted, self.plain):
            counter.calls += 1
        return x + x


def test_objects_that_only_the_class_of_a_model_holds_come_back() -> None:
    profile(Counting(), tf.ones((2, 3)), metrics=["flops", "execution_time"], num_iters=3)
    held: list[Any] = [*Counting.counters, Counting.slotted, Counting.plain]
    assert [counter.calls for counter in held] == [0, 0, 0, 0]
