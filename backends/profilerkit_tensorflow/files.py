"""Models from files: ``.keras`` and ``.h5`` files, and the folders of saved models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tensorflow as tf

from profilerkit import InputError

__all__ = ["opened"]


def opened(model: Any) -> Any:
    """Return the model that a path leads to; anything else as it is.

    Raises `InputError` for a path where no model of TensorFlow's or Keras' is.
    """
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(model)
    if (path / "saved_model.pb").is_file():
        return tf.saved_model.load(str(path))
    if path.is_file() and path.suffix in (".keras", ".h5", ".hdf5"):
        return tf.keras.models.load_model(path)
    found = "is there, but is no such model" if path.exists() else "does not exist"
    raise InputError(
        f"the path {str(path)!r} {found}; give a model, the path of a .keras or .h5 file, or that of the folder of a "
        "saved model, with its saved_model.pb"
    )
