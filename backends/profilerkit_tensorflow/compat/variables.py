"""Variables, with memory and without, and the modules that hold them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit.keras_layers import find_keras_state, set_variable_value
from profilerkit.backend_kit.private_names import field, find

from .graphs import FuncGraph
from .names import find_first, make_refusal

#: A variable without memory. Without it a model that is not built is built with values.
_UninitializedVariable: Any = find("tensorflow.python.ops.resource_variable_ops.UninitializedVariable")
#: The class of variables that hold a value. Without it, variables that wrap other variables are read too.
ResourceVariable: Any = find_first(
    "tensorflow.python.ops.resource_variable_ops.BaseResourceVariable", instead=tf.Variable
)
#: The function for a variable's first value. Without it a model that is not built is built with values.
_INITIALIZER = field("_initializer")
#: The mirrored variable that a copy on one device belongs to. Without it a model with such copies is refused.
_HANDLE, _CONTAINER = field("_handle"), field("_distributed_container")
#: The layers and variables of a module by their paths. Without it a module is refused.
_FLATTEN = field("_flatten")


def can_make_unallocated() -> bool:
    """Return whether this release can make variables without values."""
    shows_keras = "keras" not in sys.modules or hasattr(find_keras_state(), "get_global_attribute")
    return shows_keras and None not in (_UninitializedVariable, FuncGraph)


def make_unallocated_variable(**arguments: Any) -> Any:
    """Return a variable of TensorFlow that has a shape and a dtype, and no value."""
    return _UninitializedVariable(**arguments)


def set_unallocated(variable: Any) -> None:
    """Give a variable of Keras, which has no value yet, one of TensorFlow's without a value; Keras makes none then."""
    stand_in = _UninitializedVariable(
        trainable=variable.trainable, name=variable.name, shape=variable.shape, dtype=tf.as_dtype(variable.dtype)
    )
    set_variable_value(variable, stand_in)
    setattr(variable, _INITIALIZER, None)


def find_whole_variable(variable: Any) -> Any:
    """Return the mirrored variable that a copy on one device belongs to; any other variable as it is."""
    container = getattr(getattr(variable, _HANDLE, None), _CONTAINER, None)
    whole = None if container is None else container()
    return variable if whole is None else whole


def require_whole(variable: Any) -> None:
    """Raise `NotOfferedError` if the copies of a mirrored variable do not show that they are copies."""
    if any(find_whole_variable(copy) is copy for copy in variable.values):
        raise make_refusal(_CONTAINER, "tells copies of a variable on several devices from variables")


def list_parts(module: Any, is_part: Callable[[Any], bool]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the parts right inside a ``tf.Module`` with their paths."""
    flatten = getattr(module, _FLATTEN, None)
    if flatten is None:
        raise make_refusal(_FLATTEN, "finds the layers and variables of a module")
    yield from flatten(recursive=False, predicate=is_part, with_path=True)


#: The reference to a module in the ``tf.function`` of its bound method.
MethodTarget: Any = find_first(
    "tensorflow.python.eager.polymorphic_function.tf_method_target.TfMethodTarget",
    instead=type("MethodTarget", (), {}),
    off="of a module, a bound method of which is profiled, the variables are not put back",
)
