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
from profilerkit.process.object_facts import count_items

from ..untouched.held_state import HeldState, Visit
from ..untouched.snapshots import (
    CellSnapshot,
    DictSnapshot,
    ObjectSnapshot,
    SequenceSnapshot,
    SetSnapshot,
    SlotsSnapshot,
)

__all__ = ["read_structure"]

#: Values that never change: written down as they are, so that equal ones are equal.
_PLAIN = (int, float, complex, bool, str, bytes, type(None), tf.DType, tf.TensorShape)
#: Containers that the walk visits: what is in them is written down once, in its place in the walk.
_VISITED_CONTAINERS = (list, dict, set)
#: Values whose identity says too little: they change in place, or are made anew at each access, as bound methods are.
_READ_THROUGH = (np.ndarray, bytearray, memoryview, array, partial, MethodType, MappingProxyType, deque)
#: Functions that keep a trace of TensorFlow's for each kind of argument.
_FUNCTIONS = (tf.types.experimental.PolymorphicFunction, tf.types.experimental.ConcreteFunction)


def read_structure(model: Any) -> list[Any]:
    """Return what changes when a model does, to be compared with ``==``: its objects, and the attributes of each.

    Layers, modules, trackers and what they lead to are written down by their identity, with the names and values of
    their attributes and those of their classes; lists, dicts and sets with what is in them. Values of variables and
    states of random generators are left out. What a `tf.function` keeps of its traces is too: it grows whenever the
    function is called.
    """
    writer = _Writer()
    for snapshot in _Structure(model).snapshots:
        match snapshot:
            case ObjectSnapshot():
                writer.write_object(snapshot)
            case SlotsSnapshot():
                writer.write_slots(snapshot)
            case DictSnapshot(_, keys, values):
                writer.write_values((*keys, *values))
            case SequenceSnapshot(_, items):
                writer.write_values(items)
            case SetSnapshot():
                writer.write_set(snapshot)
            case CellSnapshot(_, content):
                writer.write_values((content,))
    return writer.written


class _Structure(HeldState):
    """All that a model holds, from a walk when this is made; without what its functions keep of being traced."""

    def find_visit(self, kind: type) -> Visit | None:
        """Return how objects of a class are visited: functions and variables are not followed."""
        return None if issubclass(kind, (*_FUNCTIONS, tf.Variable)) else super().find_visit(kind)


class _Writer:
    """Writes down what a model holds, one thing after the other, into a flat list.

    Behind a group of values stands how many entries the group has in the list: without it, a value that moved from the
    end of one list to the beginning of the next would leave the same entries.
    """

    def __init__(self) -> None:
        self._contents = Contents(_write_part_of_model, reads_globals=True)
        #: All that was written so far; `Contents` adds to the same list.
        self.written: list[Any] = self._contents.written

    def write_object(self, snapshot: ObjectSnapshot) -> None:
        """Write down which object it is, its class with what that defines, and its attributes."""
        self.written += (Identity(snapshot.value), snapshot.kind, snapshot.names)
        self._contents.add_class(snapshot.kind)
        self.write_values(snapshot.values)

    def write_slots(self, snapshot: SlotsSnapshot) -> None:
        """Write down which object it is, and what is in its ``__slots__``."""
        self.written += (Identity(snapshot.value), tuple(snapshot.attributes))
        self.write_values(snapshot.attributes.values())

    def write_set(self, snapshot: SetSnapshot) -> None:
        """Write down how many members a set has, and those that are plain, or tuples of plain values.

        The other members are left out: a set has no order in which to write them, and their identities have none
        either. Layers and other objects in a set are visited by the walk, and so are written down for themselves.
        """
        self.written += (len(snapshot.members), set(filter(_is_plain, snapshot.members)))

    def write_values(self, values: Iterable[Any]) -> None:
        """Write down a group of values, then how many entries they took."""
        start = len(self.written)
        for value in values:
            self._write_value(value)
        self.written.append(len(self.written) - start)

    def _write_value(self, value: Any) -> None:
        """Write down one value of an attribute, of an item, or of a variable that a function closes over.

        ==========================  ==============================  ====================================================
        value                       what is written                 why
        ==========================  ==============================  ====================================================
        plain                       its type, and itself            ``1`` and ``True`` are equal, and differ in type
        list, dict, set             its length                      the walk visits it, and writes down what is in it
        tuple                       its length, then its items      the walk looks through it, and writes nothing of it
        array, partial, method ...  what it holds, by `Contents`    its identity says too little, see ``_READ_THROUGH``
        anything else               its identity                    the walk visits it, or nothing in it matters
        ==========================  ==============================  ====================================================
        """
        if isinstance(value, _PLAIN):
            self.written += (type(value), value)
        elif isinstance(value, _VISITED_CONTAINERS):
            self.written.append(count_items(value))
        elif isinstance(value, tuple):
            self.written.append(count_items(value))
            for item in tuple.__iter__(value):
                self._write_value(item)
        elif isinstance(value, _READ_THROUGH):
            self._contents.add(value)
        else:
            self.written.append(Identity(value))


def _write_part_of_model(value: Any, contents: Contents) -> bool:
    """Write down by its identity a layer, variable or function that `Contents` meets; returns whether it was one.

    The code of a class, or a global variable that a function names, may lead to another model, or to this one again:
    `Contents` would write down all of its attributes, and the traces of its functions.
    """
    if is_keras(value) or isinstance(value, (tf.Module, tf.Variable, *_FUNCTIONS)):
        contents.written.append(Identity(value))
        return True
    return False


def _is_plain(member: Any) -> bool:
    """Return whether a member of a set is a plain value, or a tuple of such, at any depth."""
    if isinstance(member, tuple):
        return all(map(_is_plain, tuple.__iter__(member)))
    return isinstance(member, _PLAIN)
