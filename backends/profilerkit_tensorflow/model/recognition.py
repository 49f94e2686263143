"""Which framework a Keras model runs on; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from typing import Any

from profilerkit import BackendNotFoundError
from profilerkit.backend_kit.keras_layers import is_keras, keras_backend

__all__ = ["claims"]


def claims(model: Any) -> bool:
    """Return whether a model is one of TensorFlow: a Keras model on torch is left to the torch backend.

    Raises `BackendNotFoundError` for a Keras model on a framework without a backend, such as JAX.
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
