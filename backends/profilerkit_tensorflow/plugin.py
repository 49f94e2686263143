"""The TensorFlow backend as a plugin; importing this imports neither TensorFlow nor Keras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profilerkit import Backend, BackendInfo, LoaderInfo, hookimpl

from .recognition import claims

MINIMUM = (2, 16)


def load() -> Backend:
    """Import TensorFlow and return the backend; raises ImportError where it is missing or too old."""
    import tensorflow as tf

    version = tuple(int(part) for part in tf.__version__.split("-")[0].split(".")[:2])
    if version < MINIMUM:
        raise ImportError(f"tensorflow {tf.__version__} is too old, {'.'.join(map(str, MINIMUM))} or newer is needed")
    from .backend import TFBackend

    return TFBackend()


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


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Offer the models in Keras' files and in the folders of saved models."""
    return [
        LoaderInfo("tensorflow", is_model_path, load_path, "path/to/model.keras (or .h5, or a saved model's folder)")
    ]


def is_model_path(spec: str) -> bool:
    """Say whether a text is the path of a Keras file, which need not exist, or of the folder of a saved model."""
    path = Path(spec)
    return path.suffix in (".keras", ".h5", ".hdf5") or (path / "saved_model.pb").is_file()


def load_path(spec: str) -> Any:
    """Return the model of a Keras file or of a saved model's folder."""
    from profilerkit.plugins import backend_named

    return backend_named("tensorflow").opened(spec)
