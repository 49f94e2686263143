"""The TensorFlow backend as a plugin; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

import sys
from typing import Any

from profilerkit import Backend, BackendInfo, hookimpl

MINIMUM = (2, 16)


def load() -> Backend:
    """Import TensorFlow and return the backend; raises ImportError where it is missing or too old."""
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split("-")[0].split(".")[:2])
    if version < MINIMUM:
        raise ImportError(f"tensorflow {tf.__version__} is too old, {'.'.join(map(str, MINIMUM))} or newer is needed")
    from .backend import TFBackend

    return TFBackend()


def runs_on_torch(model: Any) -> bool:
    """Say whether a model is Keras' on the torch backend: then it is a torch module too, and torch's to profile."""
    keras = sys.modules.get("keras")
    is_keras = any(cls.__module__.partition(".")[0] == "keras" for cls in type(model).__mro__)
    return keras is not None and is_keras and bool(keras.config.backend() == "torch")


@hookimpl
def profilerkit_backends() -> list[BackendInfo]:
    """Offer the TensorFlow backend."""
    return [
        BackendInfo(
            name="tensorflow",
            frameworks=("keras", "tf_keras", "tensorflow"),
            load=load,
            requirement="profilerkit[tensorflow]",
            claims=lambda model: not runs_on_torch(model),
        )
    ]
