"""Models from files: ``.keras`` and ``.h5`` files, and the folders of saved models."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from profilerkit import InputError
from profilerkit.errors import error_summary
from profilerkit.process.files import require_whole

from .model.file_checks import require_harmless_keras_file, require_harmless_saved_model

__all__ = ["open_model"]


def open_model(model: Any, trust: bool = False) -> Any:
    """Return the model at a path; a value that is no path is returned unchanged.

    Raises `InputError` for a path without a model of TensorFlow or Keras, and, unless ``trust`` is True, for a file
    that may run code of its own.
    """
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(model)
    if (path / "saved_model.pb").is_file():
        if not trust:
            require_harmless_saved_model(path)
        return _load(path, lambda: tf.saved_model.load(str(path)))
    if path.is_file() and path.suffix in (".keras", ".h5", ".hdf5"):
        if path.suffix == ".keras":
            require_whole(path)
        if not trust:
            require_harmless_keras_file(path)
        return _load(path, lambda: tf.keras.models.load_model(path, safe_mode=not trust))
    problem = "exists, but holds no such model" if path.exists() else "does not exist"
    raise InputError(
        f"the path {str(path)!r} {problem}; give a model, the path of a .keras or .h5 file, or that of the folder of a "
        "saved model, with its saved_model.pb"
    )


def _load(path: Path, load: Callable[[], Any]) -> Any:
    """Return the model that a framework loads; raises `InputError` with the file and the reason if it cannot."""
    try:
        return load()
    except (InputError, MemoryError):
        raise
    except Exception as error:  # any error of a damaged file
        raise InputError(
            f"the model in {str(path)!r} cannot be loaded: {error_summary(error)}; if the file is damaged, save the "
            "model again; if it needs classes of your own, load it yourself and give the model"
        ) from error
