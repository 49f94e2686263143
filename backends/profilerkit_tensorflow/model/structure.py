"""The current state of a model, to notice changes: its layers and attributes, and its weights."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.keras_layers import OF_CALLS, keras_bookkeeping
from profilerkit.process.contents import Contents, Identity

from ..untouched.held_state import NOT_FOLLOWED
from .kinds import TRACED_FUNCTIONS, is_layer
from .stored_variables import find_id, find_stored_variable, is_variable
from .weights import list_weights

__all__ = ["fingerprint", "read_structure"]

#: Objects that are written down only by their identity.
_WHOLE = (*TRACED_FUNCTIONS, *NOT_FOLLOWED)


def read_structure(model: Any) -> list[Any]:
    """Return a list that changes when a model does, for a comparison with ``==``.

    It has the identity, the class and the attributes of each layer and module that the model leads to: plain values,
    and the contents of containers and of further objects. It also has the attributes of each class, and the closures
    and global variables of functions. Values of variables are left out, and so are the traces that a ``tf.function``
    keeps, which grow with its calls.
    """
    layers: list[Any] = []
    met: set[int] = set()

    def add_special(value: Any, contents: Contents) -> bool:
        """Write down a layer, whose attributes follow later, a variable, or an object outside the structure."""
        if isinstance(value, list) and type(value).__module__.startswith("tensorflow."):
            contents.add_attributes(vars(value))  # one of a module's, which keeps its items in an attribute
            return True
        if is_layer(value):
            if id(value) not in met:
                met.add(id(value))
                layers.append(value)
        elif not (is_variable(value) or isinstance(value, _WHOLE)):
            return False
        contents.written.append(Identity(value))
        return True

    contents = Contents(add_special, reads_globals=True)
    contents.add(model)
    for layer in layers:  # the list grows meanwhile
        contents.written += (Identity(layer), type(layer))
        contents.add_class(type(layer))
        ignored = OF_CALLS | keras_bookkeeping(layer)
        contents.add_attributes({name: value for name, value in vars(layer).items() if name not in ignored})
    return contents.written


def fingerprint(model: Any, values: bool = True) -> object:
    """Return a value that changes when the parameters do: identities, shapes, dtypes, flags and, optionally, values.

    Variables do not count their changes, so their values are summed up by CRC-32: some 15 ms for 100 MB if zlib uses
    the processor's instructions for it, otherwise some 100 ms. Values outside the memory of the CPU are not fetched:
    such weights count as changed only if the variable was replaced.
    """
    return [
        (find_id(weight), tuple(weight.shape), weight.dtype, weight.trainable, _checksum(weight) if values else None)
        for weight in list_weights(model)
    ]


def _checksum(variable: Any) -> int | None:
    """Return a number that changes with the elements of a variable; None if they are not in memory of the CPU."""
    stored = find_stored_variable(variable)
    if not hasattr(getattr(stored, "handle", None), "numpy"):  # in a graph, spread over devices, or not made yet
        return None
    try:
        with tf.init_scope():
            value = stored.read_value()
    except tf.errors.OpError:  # it has no value
        return None
    if "CPU" not in value.backing_device:
        return None
    array = np.asarray(value)
    if array.dtype.hasobject:
        return hash(tuple(array.ravel().tolist()))
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
