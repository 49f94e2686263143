"""Whose a Keras model is; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from typing import Any

from profilerkit import BackendNotFoundError
from profilerkit.backend_kit.keras_layers import is_keras, keras_backend

__all__ = ["claims"]


def claims(model: Any) -> bool:
    """Say whether a model is TensorFlow's: a Keras model on torch is a torch module too, and torch's to profile.

    Raises `BackendNotFoundError` for a Keras model on a framework that no backend is there for, such as JAX.
    """
    if not is_keras(model):
        return True
    framework = keras_backend()
    if framework not in ("tensorflow", "torch"):
        raise BackendNotFoundError(
            f"the model {model.name!r} is a Keras model on {framework}, which profilerkit does not support yet; set "
            "KERAS_BACKEND to 'tensorflow' or 'torch' in the environment before Keras is imported, and load the model "
            "there"
        )
    return framework == "tensorflow"
