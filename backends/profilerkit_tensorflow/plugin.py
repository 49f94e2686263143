"""The TensorFlow backend as a plugin; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from typing import Any

from profilerkit import Backend, BackendInfo, BackendNotFoundError, hookimpl
from profilerkit.keras_layers import is_keras, keras_backend

MINIMUM = (2, 16)


def load() -> Backend:
    """Import TensorFlow and return the backend; raises ImportError where it is missing or too old."""
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split("-")[0].split(".")[:2])
    if version < MINIMUM:
        raise ImportError(f"tensorflow {tf.__version__} is too old, {'.'.join(map(str, MINIMUM))} or newer is needed")
    from .backend import TFBackend

    return TFBackend()


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


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the TensorFlow backend."""
    return [
        BackendInfo(
            name="tensorflow",
            frameworks=("keras", "tf_keras", "tensorflow"),
            load=load,
            requirement="profilerkit[tensorflow]",
            claims=claims,
        )
    ]
