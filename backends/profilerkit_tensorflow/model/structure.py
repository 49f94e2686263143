"""What a model is made of right now, to notice that it was changed: in its layers, modules and their attributes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.types import core

from profilerkit.process.contents import Contents, Identity

from ..untouched.held_state import HeldState

__all__ = ["structure_of"]

#: What is written down by its identity alone: its content is another object of the walk, or never changes.
_WHOLE = (tf.Variable, tf.Graph, tf.Operation, tf.DType, core.Tensor, core.PolymorphicFunction, core.ConcreteFunction)
#: Values that are compared by what they are.
_PLAIN = (int, float, complex, bool, str, bytes, type(None), tf.DType, tf.TensorShape)


def structure_of(model: Any) -> list[Any]:
    """Return what changes when a model does, to be compared with ``==``: its objects, and the attributes of each.

    Layers, modules, trackers and what they lead to are written down by their identity, with the names and values of
    their attributes; lists, dicts and sets with what is in them. Values of variables and states of random generators
    are left out. What a `tf.function` keeps of its traces is too: it grows whenever the function is called.
    """
    held = _Structure(model)
    contents = Contents()
    written = contents.written
    for value, kind, names, values in held.objects:
        written += (Identity(value), kind)
        for name, each in zip(names, values, strict=True):
            written.append(name)
            _add(each, contents)
    for value, slots in held.slotted:
        written.append(Identity(value))
        for name, each in slots.items():
            written.append(name)
            _add(each, contents)
    for container, keys, values in held.dicts:
        written.append(len(container))
        for each in (*keys, *values):
            _add(each, contents)
    for _, items in held.sequences:
        written.append(len(items))
        for each in items:
            _add(each, contents)
    for _, items in held.sets:
        written.append(len(items))
    for _, content in held.cells:
        _add(content, contents)
    return written


class _Structure(HeldState):
    """The state of a model without what its functions keep of being traced."""

    def visit_of(self, kind: type) -> Any:
        if issubclass(kind, (core.PolymorphicFunction, core.ConcreteFunction, tf.Variable)):
            return None
        return super().visit_of(kind)


def _add(value: Any, contents: Contents) -> None:
    if isinstance(value, _PLAIN):
        contents.written += (type(value), value)
    elif isinstance(value, (list, dict, set)):  # walked for itself
        contents.written.append(len(value))
    elif isinstance(value, tuple):
        contents.written.append(len(value))
        for each in value:
            _add(each, contents)
    else:
        contents.written.append(Identity(value))
