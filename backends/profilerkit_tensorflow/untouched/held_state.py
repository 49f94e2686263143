"""The state that a model holds: a walk over its layers, modules and variables, and over their attributes.

Layers, modules, trackers, metrics and optimizers are followed at any depth; other objects only a few steps away from
them. Data sets, tensors, graphs and Python modules are not followed; of the globals of a function, or of a method of
the user, only the globals that its code names are followed.
"""

from __future__ import annotations

import enum
import functools
import logging
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from inspect import Signature
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import tensorflow as tf

from profilerkit.process.containers import refill
from profilerkit.process.inner_states import list_state_kinds, note_inner_state
from profilerkit.process.object_facts import copy_content, list_slots
from profilerkit.process.restoring import Step

from ..compat.variables import MethodTarget, ResourceVariable
from .contents import (
    MISSING,
    empty_cache,
    list_class_attributes,
    restore_cell,
    restore_class,
    restore_global,
    restore_object,
    restore_slots,
)
from .users_code import (
    CACHED_FUNCTION,
    FRAMEWORKS,
    is_of_a_framework,
    is_users_own,
    list_functions,
    list_globals,
    name_package,
    read_names,
)

__all__ = ["NOT_FOLLOWED", "Follow", "HeldState"]

_BUILT_IN = ("builtins", "abc", "typing", "collections", "functools", "enum", "wrapt", "dataclasses", "threading")
#: The number of steps that other objects and containers are followed from a layer or module.
_DEPTH = 4
#: Longer containers are mostly vocabularies: their items are kept, and followed only if they are layers.
_LONGEST_FOLLOWED = 1000
_types = tf.types.experimental
#: Types with attributes that no model changes.
NOT_FOLLOWED: tuple[type, ...] = (
    *(types.ModuleType, BaseException, enum.Enum, Signature, logging.Logger, threading.Thread, weakref.ref),
    *(np.generic, tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices),
    *(_types.TraceType, _types.AtomicFunction, tf.Graph, tf.Operation, tf.DType, tf.TensorShape, tf.TypeSpec),
    *(tf.data.Dataset, tf.data.Iterator, tf.distribute.Strategy, tf.summary.SummaryWriter),
)
#: Classes of Keras and TensorFlow whose objects never change: not to follow them only takes less time.
_NEVER_CHANGE = ("KerasTensor", "Node", "InputSpec", "SerializableDict", "TrackableReference", "AttributeSentinel")


#: Notes the contents of an object, and returns the objects that it leads to.
Follow: TypeAlias = Callable[[Any], Iterable[Any]]


class _Visit(NamedTuple):
    """The visit of objects of a class; what objects of a framework lead to is followed at any depth."""

    follow: Follow
    is_of_a_framework: bool


def _read_slot(value: Any, name: str) -> Any:
    """Return the content of a slot; `MISSING` if it is empty or cannot be read."""
    try:
        return getattr(value, name, MISSING)
    except MemoryError:
        raise
    except Exception:  # a class of the user may raise anything
        return MISSING


class HeldState:
    """Every object that `visit` reaches, once each, with its content at that time.

    Attributes:
        steps: Restore the contents of the objects, and those of the user's classes of layers and modules, and the
            globals that functions assign to.
        variables: The variables with a value of their own, which Keras' and distributed variables wrap.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.variables: list[Any] = []
        #: The objects that wait for a visit, and the number of steps that are left from each.
        self._waiting: deque[tuple[Iterable[Any], int]] = deque()
        self._visits: dict[type, _Visit | None] = {}
        self._known_classes: set[type] = set()

    def visit(self, *roots: Any) -> Self:
        """Visit the objects that the roots lead to, the nearest first."""
        met: set[int] = set()
        self._waiting.append((roots, _DEPTH))
        while self._waiting:
            children, depth = self._waiting.popleft()
            for child in children:
                visit = self._find_visit(type(child))
                if visit is None or id(child) in met:
                    continue
                met.add(id(child))
                further, steps_left = visit.follow(child), _DEPTH if visit.is_of_a_framework else depth - 1
                if steps_left:
                    self._waiting.append((further, steps_left))
        return self

    def _find_visit(self, kind: type) -> _Visit | None:
        """Return how objects of a class are visited; at the first object, note the attributes of the user's classes."""
        if kind not in self._visits:
            follow, is_framework = self.find_follow(kind), is_of_a_framework(kind)
            self._visits[kind] = None if follow is None else _Visit(follow, is_framework)
            if follow is not None and (is_framework or is_users_own(kind.__module__)):
                self._note_classes(kind)
        return self._visits[kind]

    def find_follow(self, kind: type) -> Follow | None:
        """Return how objects of a class are followed; None if they are not visited."""
        for base, follow in self._list_follows():
            if issubclass(kind, base):
                return follow
        if issubclass(kind, NOT_FOLLOWED) or (kind.__name__ in _NEVER_CHANGE and name_package(kind) in FRAMEWORKS):
            return None
        slots = tuple(slot.__name__ for slot in list_slots(kind))
        if slots:
            return functools.partial(self._visit_slots, slots)
        return self._visit_object if kind.__dictoffset__ or issubclass(kind, threading.local) else None

    def _list_follows(self) -> Iterable[tuple[type, Follow]]:
        """Return how objects of some classes, and of derived classes, are followed: the first fit counts."""
        return (
            (tf.Variable, self._visit_variable),
            *((kind, self._visit_container) for kind in (dict, list, deque, set)),
            (tuple, tuple.__iter__),
            *((kind, self._visit_state) for kind in list_state_kinds()),
            (types.FunctionType, self._visit_function),
            (CACHED_FUNCTION, self._visit_cached_function),
            (_types.ConcreteFunction, self._visit_concrete_function),
            (types.MethodType, lambda method: (method.__self__, method.__func__)),
            (MethodTarget, lambda method: (method.target,)),
            (types.CellType, self._visit_cell),
            (functools.partial, lambda bound: (bound.func, *bound.args, *bound.keywords.values())),
            (type, self._visit_class),
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
        self.steps.append(functools.partial(restore_object, value, kind, dict(attributes)))
        return (*wrapped, *attributes.values())

    def _visit_slots(self, slots: tuple[str, ...], value: Any) -> Iterable[Any]:
        attributes = {name: _read_slot(value, name) for name in slots}
        self.steps.append(functools.partial(restore_slots, value, attributes))
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

    def _visit_container(self, container: Any) -> Iterable[Any]:
        """Return the items to follow, and the attributes of a derived class; Keras' classes hold only a tracker."""
        content = copy_content(container)
        self.steps.append(functools.partial(refill, container, content))
        items = tuple(content.values() if isinstance(content, dict) else content)
        if len(items) > _LONGEST_FOLLOWED and not is_of_a_framework(type(items[0])):
            items = ()
        kind = type(container)
        has_attributes = kind.__dictoffset__ and name_package(kind) != "keras"
        return (*items, *self._visit_object(container)) if has_attributes else items

    def _visit_state(self, value: Any) -> Iterable[Any]:
        step = note_inner_state(value)
        if step is not None:
            self.steps.append(step)
        return ()

    def _visit_cell(self, cell: types.CellType) -> Iterable[Any]:
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            return ()
        self.steps.append(functools.partial(restore_cell, cell, content))
        return (content,)

    def _visit_function(self, function: types.FunctionType) -> Iterable[Any]:
        if name_package(function) in FRAMEWORKS:
            return ()
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        scope = function.__globals__
        written = read_names(function.__code__).written
        for name in written:
            self.steps.append(functools.partial(restore_global, scope, name, scope.get(name, MISSING)))
        return (*(function.__closure__ or ()), *self._visit_object(function), *defaults, *list_globals(function))

    def _visit_cached_function(self, function: Any) -> Iterable[Any]:
        self.steps.append(functools.partial(empty_cache, function, function.cache_info().misses))
        return self._visit_object(function)

    def _visit_concrete_function(self, function: Any) -> Iterable[Any]:
        return (*self._visit_object(function), *function.variables)

    def _note_classes(self, kind: type) -> None:
        """Record the attributes of the user's classes: some models keep counters, caches and functions there."""
        for cls in kind.__mro__:
            if cls in self._known_classes or name_package(cls) in (*FRAMEWORKS, *_BUILT_IN):
                continue
            self._known_classes.add(cls)
            attributes = list_class_attributes(cls)
            self.steps.append(functools.partial(restore_class, cls, attributes))
            followed = (dict, list, tuple, set, deque, _types.PolymorphicFunction, tf.Variable)
            members = [v for v in attributes.values() if isinstance(v, followed) or is_users_own(type(v).__module__)]
            self._waiting.append((tuple(members), _DEPTH))
            self._waiting.append((tuple(list_functions(cls)), _DEPTH))
