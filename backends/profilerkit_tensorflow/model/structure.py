"""What a model is made of right now, to notice that it was changed: in its layers, modules and their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.keras_layers import OF_CALLS, keras_bookkeeping
from profilerkit.process.contents import Contents, Identity

from ..untouched.held_state import NOT_FOLLOWED
from .kinds import is_layer, is_variable

__all__ = ["read_structure"]

#: Functions that keep a trace of TensorFlow's for each kind of argument.
_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)
#: What is written down by its identity alone; numpy's arrays change in place.
_WHOLE = tuple(kind for kind in (*_FUNCTIONS, *NOT_FOLLOWED) if kind is not np.ndarray)


def read_structure(model: Any) -> list[Any]:
    """Return what changes when a model does, to be compared with ``==``.

    It has the identity, the class and the attributes of each layer and module that the model leads to: plain values,
    and the contents of containers and of further objects. Of each class it has the attributes too, and of functions
    what they close over and the global variables that they name. Values of variables are left out, and so is what a
    ``tf.function`` keeps of its traces, which grows whenever the function is called.
    """
    layers: dict[int, Any] = {}

    def add_special(value: Any, contents: Contents) -> bool:
        """Write down a layer, whose attributes follow later, a variable, or what is no part of the structure."""
        if isinstance(value, list) and type(value).__module__.startswith("tensorflow."):
            contents.add_attributes(vars(value))  # one of a module's, which keeps its items in an attribute
            return True
        if is_layer(value):
            layers.setdefault(id(value), value)
        elif not (is_variable(value) or isinstance(value, _WHOLE)):
            return False
        contents.written.append(Identity(value))
        return True

    contents = Contents(add_special, reads_globals=True)
    contents.add(model)
    written = 0
    while written < len(layers):
        layer = list(layers.values())[written]
        written += 1
        contents.written += (Identity(layer), type(layer))
        contents.add_class(type(layer))
        ignored = OF_CALLS | keras_bookkeeping(layer)
        contents.add_attributes({name: value for name, value in vars(layer).items() if name not in ignored})
    return contents.written
