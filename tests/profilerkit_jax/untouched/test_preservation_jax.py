"""The state of Python and numpy that the code of a model changes comes back: JAX runs that code while it traces."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from profilerkit import profile
from profilerkit_jax.backend import JaxBackend

X = np.ones((2, 3), np.float32)


def _ignore(*arguments: object) -> None:
    """Take the place of a hook."""


CHANGES: dict[str, Callable[[], object]] = {
    "Python's random numbers": random.random,
    "numpy's random numbers": np.random.rand,
    "numpy's errors": lambda: np.seterr(over="raise"),
    "what numpy calls": lambda: np.seterrcall(_ignore),
    "numpy's printing": lambda: np.set_printoptions(precision=2),
    "the hook of errors": lambda: setattr(sys, "excepthook", _ignore),
    "the recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
}


def _look() -> list[Any]:
    numbers = random.getstate(), str(np.random.get_state())
    return [numbers, np.geterr(), np.geterrcall(), np.get_printoptions(), sys.excepthook, sys.getrecursionlimit()]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("metrics", [["macs"], ["training_memory", "execution_time"]])
def test_what_the_code_of_a_model_changes_comes_back(change: Callable[[], object], metrics: list[str]) -> None:
    changed: list[bool] = []

    def model(x: Any) -> Any:
        before = _look()
        change()
        changed.append(_look() != before)
        return x * 2

    before = _look()
    profile(jax.jit(model), X, metrics=metrics)
    assert all(changed)
    assert changed
    assert _look() == before


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_an_evaluation_changes_comes_back(change: Callable[[], object]) -> None:
    before = _look()
    with JaxBackend().preserve(jax.jit(lambda x: x)):
        change()
        assert _look() != before
    assert _look() == before


@pytest.mark.parametrize("wrap", [lambda norm: norm, lambda norm: lambda x: norm(x) + 1])
def test_variables_that_a_call_changes_come_back(wrap: Callable[[Any], Any]) -> None:
    """Of a module that is the model, and of one in a function; the mean of a batch norm begins as zeros."""
    nnx = pytest.importorskip("flax.nnx")
    norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
    model = wrap(norm)
    with JaxBackend().preserve(model):
        model(X)
        assert norm.mean[...].any()
    assert not norm.mean[...].any()
