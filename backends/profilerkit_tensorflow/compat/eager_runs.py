"""Eager runs: the private names that show the operators that TensorFlow runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from profilerkit.backend_kit.private_names import field, find

#: Calls a function after each operator of an eager run. Without these no eager run is counted, nor compared.
_add_callback: Any = find("tensorflow.python.framework.op_callbacks.add_op_callback")
_remove_callback: Any = find("tensorflow.python.framework.op_callbacks.remove_op_callback")
#: Runs a function that was traced. Without it a run in which such a function is called is not compared with the trace.
CALL_FLAT = field("call_flat")
FUNCTION_CLASS: Any = find("tensorflow.python.eager.polymorphic_function.atomic_function.AtomicFunction")
#: The class whose ``_numpy`` gives all values to numpy. Without it an eager run is a lower bound.
EAGER_TENSOR: Any = find("tensorflow.python.framework.ops._EagerTensorBase")
GIVE_VALUES = field("_numpy")
#: The module with the functions that run each operator. Without them an eager run is a lower bound.
RUNTIME: Any = find("tensorflow.python.pywrap_tfe")
_KINDS = (field("TFE_Py_FastPathExecute"), field("TFE_Py_Execute"), field("TFE_Py_ExecuteCancelable"))
EXECUTORS = tuple(name for name in _KINDS if hasattr(RUNTIME, name))
#: The number of an eager tensor. Without it an eager run is a lower bound.
_NUMBER = field("_id")


def shows_operators() -> bool:
    """Return whether this release shows the operators that it runs."""
    return None not in (_add_callback, _remove_callback)


def add_callback(callback: Callable[..., Any]) -> None:
    """Have a function called after each operator; nothing if this release shows none."""
    if shows_operators():
        _add_callback(callback)


def remove_callback(callback: Callable[..., Any]) -> None:
    """Stop the calls of the function; a second call of this does nothing."""
    if shows_operators():
        with suppress(KeyError):  # it is not there
            _remove_callback(callback)


def read_number(tensor: Any) -> int:
    """Return the number of an eager tensor, which grows with each; 0 without it, so that no result looks foreign."""
    return int(getattr(tensor, _NUMBER, 0))


def identify_tensor(tensor: Any) -> int:
    """Return its number; without it its `id`, which another tensor may get once this one is gone."""
    return read_number(tensor) or id(tensor)


def shows_departures(tensor: Any) -> bool:
    """Return whether this release shows, for tensors like this one, all values that leave TensorFlow or its thread."""
    return EXECUTORS == _KINDS and hasattr(EAGER_TENSOR, GIVE_VALUES) and read_number(tensor) > 0
