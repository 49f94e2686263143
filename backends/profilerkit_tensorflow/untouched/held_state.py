"""The state that a model holds: a walk over its layers, modules and variables, and over their attributes.

Layers, modules, trackers, metrics and optimizers are followed at any depth; other objects only a few steps away from
one of those. Data sets, arrays, tensors, graphs and Python modules are not followed; of the globals of a function, or
of a method of the user, only those that its code names are.
"""

from __future__ import annotations

import enum
import functools
import logging
import random
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from inspect import Signature
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from profilerkit.process.contents import list_slots

from ..compat.variables import MethodTarget, ResourceVariable
from .users_code import (
    FRAMEWORKS,
    is_of_a_framework,
    is_users_own,
    list_functions,
    list_globals,
    name_package,
    read_names,
)

__all__ = ["MISSING", "HeldState", "Visit", "contents"]

#: The value of a name that is not bound.
MISSING: Any = object()
_BUILT_IN = ("builtins", "abc", "typing", "collections", "functools", "enum", "wrapt", "dataclasses", "threading")
#: The number of steps that other objects and containers are followed from a layer or module.
_DEPTH = 4
#: Longer containers are mostly vocabularies: their items are kept, and followed only if they are layers.
_LONGEST_FOLLOWED = 1000
_types = tf.types.experimental
#: Types with attributes that no model changes.
_NOT_FOLLOWED: tuple[type, ...] = (
    *(types.ModuleType, BaseException, enum.Enum, Signature, logging.Logger, threading.Thread, weakref.ref),
    *(np.ndarray, np.generic, tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices),
    *(_types.TraceType, _types.AtomicFunction, tf.Graph, tf.Operation, tf.DType, tf.TensorShape, tf.TypeSpec),
    *(tf.data.Dataset, tf.data.Iterator, tf.distribute.Strategy, tf.summary.SummaryWriter),
)
#: Classes of Keras and TensorFlow whose objects never change: not to follow them only takes less time.
_NEVER_CHANGE = ("KerasTensor", "Node", "InputSpec", "SerializableDict", "TrackableReference", "AttributeSentinel")


class Visit(NamedTuple):
    """How objects of a class are visited.

    Attributes:
        follow: Notes what one holds, and returns what it leads to.
        is_part_of_model: Whether it is of a framework: what it leads to is then followed at any depth.
    """

    follow: Callable[[Any], Iterable[Any]]
    is_part_of_model: bool


def contents(container: dict[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the keys and the values of a dict, by the methods of its base class: a subclass may do more."""
    if type(container) is dict:
        return tuple(container), tuple(container.values())
    if isinstance(container, OrderedDict):
        keys = tuple(OrderedDict.__iter__(container))
        return keys, tuple(dict.__getitem__(container, key) for key in keys)
    return tuple(dict.__iter__(container)), tuple(dict.values(container))


def _can_be_read(value: Any, name: str) -> bool:
    try:
        return hasattr(value, name)
    except MemoryError:
        raise
    except Exception:  # a property of the user may raise anything
        return False


class HeldState:
    """Every object that is reached from the roots, once each, with its content at that time."""

    def __init__(self, *roots: Any) -> None:
        #: (object, its class, names, values), and the same for slots.
        self.objects: list[tuple[Any, type, tuple[Any, ...], tuple[Any, ...]]] = []
        self.slotted: list[tuple[Any, dict[str, Any]]] = []
        #: (container, keys, values); for sequences and sets (container, items).
        self.dicts: list[tuple[dict[Any, Any], tuple[Any, ...], tuple[Any, ...]]] = []
        self.sequences: list[tuple[Any, tuple[Any, ...]]] = []
        self.sets: list[tuple[set[Any], frozenset[Any]]] = []
        self.cells: list[tuple[types.CellType, Any]] = []
        #: (function that sets the state of a generator, its state).
        self.generators: list[tuple[Callable[[Any], Any], Any]] = []
        #: The user's classes of layers and modules, with their attributes.
        self.classes: list[tuple[type, dict[str, Any]]] = []
        #: (namespace of a module, name, value) of the globals that the user's functions assign to.
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        #: The variables with a value of their own, which Keras' and distributed variables wrap.
        self.variables: list[Any] = []
        self._waiting: deque[tuple[Iterable[Any], int]] = deque()
        self._visits: dict[type, Visit | None] = {}
        self._known_classes: set[type] = set()
        self._walk(roots)

    def _walk(self, roots: Iterable[Any]) -> None:
        met: set[int] = set()
        visits, waiting = self._visits, self._waiting
        waiting.append((roots, _DEPTH))
        while waiting:
            children, depth = waiting.popleft()
            for child in children:
                kind = type(child)
                try:
                    visit = visits[kind]
                except KeyError:
                    visit = visits[kind] = self.find_visit(kind)
                if visit is None or id(child) in met:
                    continue
                met.add(id(child))
                further = visit.follow(child)
                if visit.is_part_of_model:
                    waiting.append((further, _DEPTH))
                elif depth > 1:
                    waiting.append((further, depth - 1))

    def find_visit(self, kind: type) -> Visit | None:
        """Return how objects of a class are visited; None for those that are not."""
        for above, follow in self._visits_by_base():
            if issubclass(kind, above):
                return Visit(follow, is_of_a_framework(kind))
        if issubclass(kind, np.random.Generator | np.random.RandomState):
            return Visit(self._visit_numpy_generator, is_part_of_model=False)
        if issubclass(kind, type):
            return Visit(self._visit_class, is_part_of_model=False)
        if issubclass(kind, _NOT_FOLLOWED) or (kind.__name__ in _NEVER_CHANGE and name_package(kind) in FRAMEWORKS):
            return None
        slots = tuple(slot.__name__ for slot in list_slots(kind))
        if not (kind.__dictoffset__ or slots or issubclass(kind, threading.local)):
            return None
        is_part_of_model = is_of_a_framework(kind)
        if is_part_of_model or is_users_own(kind.__module__):
            self._note_classes(kind)
        follow = functools.partial(self._visit_slots, slots) if slots else self._visit_object
        return Visit(follow, is_part_of_model)

    def _visits_by_base(self) -> Iterable[tuple[type, Callable[[Any], Iterable[Any]]]]:
        """Return how objects of some classes, and of those derived from them, are followed; the first that fits."""
        return (
            (tf.Variable, self._visit_variable),
            (dict, self._visit_dict),
            (list, functools.partial(self._visit_sequence, list)),
            (deque, functools.partial(self._visit_sequence, deque)),
            (tuple, lambda items: items),
            (set, self._visit_set),
            (types.FunctionType, self._visit_function),
            (_types.ConcreteFunction, self._visit_concrete_function),
            (types.MethodType, lambda method: (method.__self__, method.__func__)),
            (MethodTarget, lambda method: (method.target,)),
            (types.CellType, self._visit_cell),
            (functools.partial, lambda bound: (bound.func, *bound.args, *bound.keywords.values())),
            (random.Random, self._visit_python_generator),
        )

    def _visit_object(self, value: Any) -> Iterable[Any]:
        kind = type(value)
        wrapped = (value.__wrapped__,) if hasattr(kind, "__wrapped__") else ()  # TensorFlow wraps dicts and tuples
        try:
            attributes = value.__dict__
        except MemoryError:
            raise
        except Exception:  # an object of the user that cannot be read yet cannot be changed either
            return wrapped
        names, values = tuple(attributes), tuple(attributes.values())
        self.objects.append((value, kind, names, values))
        return (*wrapped, *values)

    def _visit_slots(self, slots: tuple[str, ...], value: Any) -> Iterable[Any]:
        attributes = {name: getattr(value, name) if _can_be_read(value, name) else MISSING for name in slots}
        self.slotted.append((value, attributes))
        others = self._visit_object(value) if hasattr(value, "__dict__") else ()
        return (*attributes.values(), *others)

    def _visit_class(self, kind: type) -> Iterable[Any]:
        if is_users_own(kind.__module__):
            self._note_classes(kind)
        return ()

    def _visit_variable(self, variable: Any) -> Iterable[Any]:
        if isinstance(variable, ResourceVariable):
            self.variables.append(variable)
        return self._visit_object(variable)

    def _visit_dict(self, container: dict[Any, Any]) -> Iterable[Any]:
        keys, values = contents(container)
        self.dicts.append((container, keys, values))
        return self._list_children(container, values)

    def _visit_sequence(self, kind: Any, container: Any) -> Iterable[Any]:
        items = tuple(kind.__iter__(container))
        self.sequences.append((container, items))
        return self._list_children(container, items)

    def _visit_set(self, container: set[Any]) -> Iterable[Any]:
        items = frozenset(set.__iter__(container))
        self.sets.append((container, items))
        return self._list_children(container, tuple(items))

    def _list_children(self, container: Any, items: tuple[Any, ...]) -> Iterable[Any]:
        """Return the items to follow, and the attributes of a derived class; those of Keras hold only a tracker."""
        if len(items) > _LONGEST_FOLLOWED and not is_of_a_framework(type(items[0])):
            items = ()
        kind = type(container)
        return (
            (*items, *self._visit_object(container)) if kind.__dictoffset__ and name_package(kind) != "keras" else items
        )

    def _visit_cell(self, cell: types.CellType) -> Iterable[Any]:
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            return ()
        self.cells.append((cell, content))
        return (content,)

    def _visit_function(self, function: types.FunctionType) -> Iterable[Any]:
        if name_package(function) in FRAMEWORKS:
            return ()
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        scope = function.__globals__
        self.globals += [(scope, name, scope.get(name, MISSING)) for name in read_names(function.__code__).written]
        return (*(function.__closure__ or ()), *self._visit_object(function), *defaults, *list_globals(function))

    def _visit_concrete_function(self, function: Any) -> Iterable[Any]:
        return (*self._visit_object(function), *function.variables)

    def _visit_python_generator(self, generator: random.Random) -> Iterable[Any]:
        self.generators.append((generator.setstate, generator.getstate()))
        return ()

    def _visit_numpy_generator(self, generator: Any) -> Iterable[Any]:
        if isinstance(generator, np.random.RandomState):
            self.generators.append((generator.set_state, generator.get_state()))
        else:
            numbers = generator.bit_generator
            self.generators.append((functools.partial(setattr, numbers, "state"), numbers.state))
        return ()

    def _note_classes(self, kind: type) -> None:
        """Record the attributes of the user's classes, where some models keep counters, caches and functions."""
        for cls in kind.__mro__:
            if cls in self._known_classes or name_package(cls) in (*FRAMEWORKS, *_BUILT_IN):
                continue
            self._known_classes.add(cls)
            attributes = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
            self.classes.append((cls, attributes))
            followed = (dict, list, set, deque, _types.PolymorphicFunction, tf.Variable)
            self._waiting.append((tuple(value for value in attributes.values() if isinstance(value, followed)), _DEPTH))
            self._waiting.append((tuple(list_functions(cls)), _DEPTH))
