"""What TensorFlow shows of an eager run: its operators, the numbers of its tensors, and the values that leave it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from profilerkit.backend_kit.private_names import field, find

# Its operators. Where these are missing, no eager run is counted, nor compared with the trace.
_add_callback: Any = find("tensorflow.python.framework.op_callbacks.add_op_callback")
_remove_callback: Any = find("tensorflow.python.framework.op_callbacks.remove_op_callback")

# Its calls of functions that were traced. Where these are missing, a run with such a call is not compared.
FUNCTION_CLASS: Any = find("tensorflow.python.eager.polymorphic_function.atomic_function.AtomicFunction")
CALL_FLAT = field("call_flat")

# What tells whether all work was shown. Where one of these is missing, an eager run is a lower bound.
#: The class of eager tensors, and its method that gives all values to numpy.
EAGER_TENSOR: Any = find("tensorflow.python.framework.ops._EagerTensorBase")
GIVE_VALUES = field("_numpy")
#: The module with the functions that run every operator, and those of them that this release has.
RUNTIME: Any = find("tensorflow.python.pywrap_tfe")
_ALL_EXECUTORS = (field("TFE_Py_FastPathExecute"), field("TFE_Py_Execute"), field("TFE_Py_ExecuteCancelable"))
EXECUTORS = tuple(name for name in _ALL_EXECUTORS if hasattr(RUNTIME, name))
#: The number of a tensor: each new tensor has a larger one.
_NUMBER = field("_id")


def shows_operators() -> bool:
    """Return whether this release shows the operators that it runs."""
    return None not in (_add_callback, _remove_callback)


def add_callback(callback: Callable[..., Any]) -> None:
    """Have a function called after each operator; do nothing where this release shows no operators."""
    if shows_operators():
        _add_callback(callback)


def remove_callback(callback: Callable[..., Any]) -> None:
    """Undo `add_callback`; a callback that is not there is no error, so that this can be repeated."""
    if shows_operators():
        with suppress(KeyError):
            _remove_callback(callback)


def read_number(tensor: Any) -> int:
    """Return the number of an eager tensor; 0 where this release has none, so that no tensor looks new."""
    return int(getattr(tensor, _NUMBER, 0))


def identify_tensor(tensor: Any) -> int:
    """Return the number of an eager tensor, or else its `id`, which another tensor may get once this one is gone."""
    return read_number(tensor) or id(tensor)


def shows_departures(tensor: Any) -> bool:
    """Return whether this release shows all values that leave TensorFlow or its thread, for tensors like this one."""
    return EXECUTORS == _ALL_EXECUTORS and hasattr(EAGER_TENSOR, GIVE_VALUES) and read_number(tensor) > 0
