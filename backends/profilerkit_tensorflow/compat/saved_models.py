"""Saved models: their classes and their files."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import field, find

from .names import make_refusal

#: The module of the classes of saved models. Without it saved models are known by their attributes about the saving.
_LOADED = field("tensorflow.python.saved_model.load")
#: The format of a saved model's file. Without it a saved model is not loaded unless it is trusted.
_SavedModel: Any = find("tensorflow.core.protobuf.saved_model_pb2.SavedModel")


def is_saved_model(value: Any) -> bool:
    """Return whether a value came from ``tf.saved_model.load``."""
    is_loaded = any(base.__module__ == _LOADED for base in type(value).__mro__)
    return is_loaded or isinstance(
        vars(value).get("tensorflow_git_version") if hasattr(value, "__dict__") else None, str
    )


def make_saved_model() -> Any:
    """Return an empty description of a saved model, to read a file with."""
    if _SavedModel is None:
        raise make_refusal("saved_model_pb2", "looks for code in a saved model; it is loaded with trust")
    return _SavedModel()
