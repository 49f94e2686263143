"""What a model is made of right now, to notice that it was changed: in its layers, modules and their attributes."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from functools import partial
from types import MappingProxyType, MethodType
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.process.contents import Contents, Identity

from ..untouched.held_state import HeldState, Visit

__all__ = ["read_structure"]

#: Values that are compared by what they are.
_PLAIN = (int, float, complex, bool, str, bytes, type(None), tf.DType, tf.TensorShape)

#: Values without attributes of their own that may change in place, or lead to what may.
_BY_CONTENTS = (np.ndarray, bytearray, memoryview, array, partial, MethodType, MappingProxyType, deque)

_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)
#: What is walked for itself where it belongs to the model, or keeps its traces.
_WALKED = (tf.Module, tf.Variable, *_FUNCTIONS)


def read_structure(model: Any) -> list[Any]:
    """Return what changes when a model does, to be compared with ``==``: its objects, and the attributes of each.

    Layers, modules, trackers and what they lead to are written down by their identity, with the names and values of
    their attributes and those of their classes; lists, dicts and sets with what is in them. Values of variables and
    states of random generators are left out. What a `tf.function` keeps of its traces is too: it grows whenever the
    function is called.
    """
    parts = _Structure(model)
    contents = Contents(_write_identity, reads_globals=True)
    written = contents.written
    for of_object in parts.objects:
        written += (Identity(of_object.value), of_object.kind, of_object.names)
        contents.add_class(of_object.kind)
        _add_all(of_object.values, contents)
    for slotted in parts.slotted:
        written += (Identity(slotted.value), tuple(slotted.attributes))
        _add_all(slotted.attributes.values(), contents)
    for of_dict in parts.dicts:
        _add_all((*of_dict.keys, *of_dict.values), contents)
    for sequence in parts.sequences:
        _add_all(sequence.items, contents)
    for of_set in parts.sets:
        plain = [member for member in of_set.members if isinstance(member, _PLAIN)]
        written += (len(of_set.members), set(plain))
    _add_all((cell.content for cell in parts.cells), contents)
    return written


class _Structure(HeldState):
    """The state of a model without what its functions keep of being traced."""

    def find_visit(self, kind: type) -> Visit | None:
        """Return how objects of a class are visited: functions and variables are not followed."""
        return None if issubclass(kind, (*_FUNCTIONS, tf.Variable)) else super().find_visit(kind)


def _write_identity(value: Any, contents: Contents) -> bool:
    """Write down by its identity what is walked for itself, where the code of a class names it."""
    if is_keras(value) or isinstance(value, _WALKED):
        contents.written.append(Identity(value))
        return True
    return False


def _add_all(values: Iterable[Any], contents: Contents) -> None:
    start = len(contents.written)
    for value in values:
        _add(value, contents)
    contents.written.append(len(contents.written) - start)


def _add(value: Any, contents: Contents) -> None:
    """Add what a value consists of; what may be changed in place, but for plain containers, by its identity."""
    if isinstance(value, _PLAIN):
        contents.written += (type(value), value)
    elif isinstance(value, (list, dict, set)):  # walked for itself
        contents.written.append(len(value))
    elif isinstance(value, tuple):
        contents.written.append(len(value))
        for item in value:
            _add(item, contents)
    elif isinstance(value, _BY_CONTENTS):
        contents.add(value)
    else:
        contents.written.append(Identity(value))
