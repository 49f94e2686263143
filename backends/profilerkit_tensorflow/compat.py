"""The private names of TensorFlow and Keras: the only file with them, each with its purpose and its substitute."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.private_names import find

__all__ = ["EAGER_TENSOR", "EXECUTORS", "RUNTIME", "number_of", "shows_departures"]

#: The class whose ``_numpy`` gives all values to numpy. Without it an eager run is a lower bound.
EAGER_TENSOR: Any = find("tensorflow.python.framework.ops._EagerTensorBase")
#: The module with the functions that run each operator. Without them an eager run is a lower bound.
RUNTIME: Any = find("tensorflow.python.pywrap_tfe")
_KINDS = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
EXECUTORS = tuple(name for name in _KINDS if hasattr(RUNTIME, name))


def number_of(tensor: Any) -> int:
    """Return the number of an eager tensor, which grows with each; 0 without it, so that no result looks foreign."""
    return int(getattr(tensor, "_id", 0))


def shows_departures(tensor: Any) -> bool:
    """Return whether this release shows, of tensors such as this one, all that leaves TensorFlow or runs in threads."""
    return EXECUTORS == _KINDS and hasattr(EAGER_TENSOR, "_numpy") and number_of(tensor) > 0
