"""Keras 3 on another framework than TensorFlow: on torch it is torch's to profile, on numpy a clear message.

Keras' framework is fixed when it is imported, so what needs it on torch is in `keras_on_torch`, run by a pytest of its
own.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from source_tree import SUPPORT
from time_limits import run_program

from profilerkit import BackendNotFoundError, profile
from profilerkit.backend_kit.keras_kinds import keras_backend
from profilerkit.models.recognition import find_backend

pytestmark = pytest.mark.slow

IN_ITS_PROCESS = [str(SUPPORT / name) for name in ("keras_elsewhere.py", "keras_on_torch.py")]


def test_keras_on_torch() -> None:
    pytest.importorskip("keras")
    pytest.importorskip("torch")
    done = run_program(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *IN_ITS_PROCESS],
        variables={"KERAS_BACKEND": "torch", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert " passed" in done.stdout


@pytest.fixture
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Keras model, and Keras that says that it runs on numpy."""
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)], name="student")
    monkeypatch.setattr(keras.config, "backend", lambda: "numpy")
    return model


MESSAGE = (
    "the model 'student' is a Keras model on numpy, which profilerkit does not support yet; set KERAS_BACKEND to "
    "'tensorflow', 'torch' or 'jax' in the environment before Keras is imported, and load the model there"
)


def test_a_keras_model_on_numpy_gets_a_clear_message(on_numpy: Any) -> None:
    with pytest.raises(BackendNotFoundError) as raised:
        find_backend(on_numpy)
    assert str(raised.value) == MESSAGE
    with pytest.raises(BackendNotFoundError, match="is a Keras model on numpy"):
        profile(on_numpy, input_shape=(3,))


def test_the_tensorflow_backend_does_not_take_it_either(on_numpy: Any) -> None:
    from profilerkit_tensorflow import TFProfiler

    with pytest.raises(BackendNotFoundError, match="is a Keras model on numpy"):
        TFProfiler(on_numpy)
    with pytest.raises(BackendNotFoundError, match="is a Keras model on numpy"):
        profile(on_numpy, input_shape=(3,), backend="tensorflow")


def test_what_keras_runs_on_is_asked_of_keras_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    assert keras_backend() is None
