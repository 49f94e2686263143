"""The framework that runs a Keras model; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from typing import Any

from profilerkit import BackendNotFoundError
from profilerkit.backend_kit.keras_kinds import is_keras, keras_backend

__all__ = ["claims"]


def claims(model: Any) -> bool:
    """Return whether TensorFlow runs a model: Keras models on torch and JAX are left to the backends of torch and JAX.

    Raises `BackendNotFoundError` for a Keras model on a framework without a backend, such as numpy.
    """
    if not is_keras(model):
        return True
    framework = keras_backend()
    if framework not in ("jax", "tensorflow", "torch"):
        raise BackendNotFoundError(
            f"the model {model.name!r} is a Keras model on {framework}, which profilerkit does not support yet; set "
            "KERAS_BACKEND to 'tensorflow', 'torch' or 'jax' in the environment before Keras is imported, and load the "
            "model there"
        )
    return framework == "tensorflow"
