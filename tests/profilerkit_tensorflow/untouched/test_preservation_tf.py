"""A model of any kind comes back as it was, whatever was done with it and whether or not that raised."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from time_limits import join

pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")
import tensorflow as tf
from restless import MODELS, RUNS, X, call, train, use_keras

from profilerkit_tensorflow.untouched.preservation import preserve


class Facts:
    """Every object that a model leads to, by its path; and the values of its variables."""

    def __init__(self, model: Any) -> None:
        self.at: dict[str, Any] = {}
        self.values: dict[int, bytes] = {}
        self._seen: set[int] = set()
        self._visit("model", model)
        for name in ("losses", "metrics", "variables", "trainable_variables", "built", "optimizer", "compiled"):
            try:
                value = getattr(model, name)
            except (AttributeError, ValueError):
                continue
            self.at[f"model.{name} (read)"] = len(value) if isinstance(value, list | tuple) else value
            for index, variable in enumerate(value if name == "variables" else ()):  # those that a function captured
                self._visit(f"model.variables[{index}]", variable)

    def _visit(self, path: str, value: Any) -> None:
        if isinstance(value, tf.Variable) and hasattr(value.handle, "_numpy"):
            self.values[id(value)] = value.numpy().tobytes()
        self.at[path] = value
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        for name, part in self._parts(value):
            self._visit(f"{path}{name}", part)

    def _parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            yield from ((f"[{key!r:.40}]", part) for key, part in value.items())
        elif isinstance(value, list | tuple | deque):
            yield from ((f"[{index}]", part) for index, part in enumerate(value))
        elif isinstance(value, set):
            yield "{}", sorted(map(hash, value))
        if self._is_followed(value):
            yield from ((f".{name}", part) for name, part in list(vars(value).items()))
        if isinstance(value, random.Random):
            yield ".state", value.getstate()[1][-1]
        if isinstance(value, np.random.Generator):
            yield ".state", value.bit_generator.state["state"]["state"]
        if getattr(value, "__closure__", None) and value.__module__ == "restless":
            yield from ((f"<{index}>", cell.cell_contents) for index, cell in enumerate(value.__closure__))

    @staticmethod
    def _is_followed(value: Any) -> bool:
        if isinstance(value, type | tf.Graph | tf.Operation | tf.TypeSpec | tf.DType) or not hasattr(value, "__dict__"):
            return False
        if isinstance(value, tf.Tensor):
            return False
        return type(value).__module__.startswith(("keras.", "tf_keras.", "tensorflow.python", "restless"))

    def differences(self, other: Facts) -> list[str]:
        changed = [path for path in self.at if path in other.at and not _alike(self.at[path], other.at[path])]
        values = [path for path, value in self.at.items() if self.values.get(id(value)) != other.values.get(id(value))]
        return [*sorted(self.at.keys() ^ other.at.keys()), *changed, *values]


def _alike(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, int | float | str | list) and one == other)


def facts(model: Any) -> Facts:
    return Facts(model)


@cache
def build_once(kind: str) -> Any:
    return MODELS[kind]()


def build(kind: str) -> Any:
    """Return a new model; one that is fitted, which takes seconds, is shared by the tests, as it comes back."""
    return build_once(kind) if "fitted" in kind else MODELS[kind]()


#: Models of which the run that fits, evaluates and predicts is not left to the slow tests.
QUICK = ("keras functional", "tf_keras functional", "module", "callable")


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize(
    ("kind", "run"),
    [
        pytest.param(kind, run, marks=pytest.mark.slow if run is use_keras and kind not in QUICK else (), id=name)
        for kind in MODELS
        for run in RUNS
        if (name := f"{kind}-{run.__name__}")
    ],
)
def test_a_model_comes_back_as_it_was(kind: str, run: Callable[[Any], None]) -> None:
    model = build(kind)
    before, attributes = facts(model), dict(vars(type(model)))
    with preserve(model, variable_values=True):
        run(model)
    assert facts(model).differences(before) == []
    assert dict(vars(type(model))) == attributes


@pytest.mark.filterwarnings("ignore:`build..` was called on layer")
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_from_an_error_too(kind: str) -> None:
    model = build(kind)
    before = facts(model)

    def fails_half_way(x: Any) -> None:
        call(model, x, training=True)
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"), preserve(model, variable_values=True):
        train(model)
        tf.function(fails_half_way, autograph=False).get_concrete_function(tf.TensorSpec((2, 4)))
    assert facts(model).differences(before) == []


def test_a_module_can_be_profiled_inside_its_own_profile_and_by_one_thread_at_a_time() -> None:
    model: Any = MODELS["keras functional"]()
    before = facts(model)
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
    assert facts(model).differences(before) == []
