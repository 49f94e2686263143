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
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function, tf_method_target
from tensorflow.python.ops import resource_variable_ops
from tensorflow.python.trackable import base, data_structures
from tensorflow.python.types import core, trace

from profilerkit.process.contents import slots_of

from .user_code import MISSING, GlobalBinding, assigned_globals, functions_of, is_users_own, named_globals

__all__ = ["HeldState", "contents"]

#: Packages whose objects make up a model.
_FRAMEWORKS = ("keras", "tf_keras", "keras_hub", "keras_cv", "keras_nlp", "tensorflow")
_BUILT_IN = ("builtins", "abc", "typing", "collections", "functools", "enum", "wrapt", "dataclasses", "threading")
#: The number of steps that other objects and containers are followed from a layer or module.
_DEPTH = 4
#: Longer containers are mostly vocabularies: their items are kept, and followed only if they are layers.
_LONGEST_FOLLOWED = 1000
#: Types with attributes that no model changes.
_NOT_FOLLOWED: tuple[type, ...] = (
    types.ModuleType,
    BaseException,
    enum.Enum,
    Signature,
    logging.Logger,
    threading.Thread,
    weakref.ref,
    np.ndarray,
    np.generic,
    trace.TraceType,
    atomic_function.AtomicFunction,
    tf.Graph,
    tf.Operation,
    tf.DType,
    tf.TensorShape,
    tf.TypeSpec,
    tf.data.Dataset,
    tf.data.Iterator,
    tf.distribute.Strategy,
    tf.summary.SummaryWriter,
)
#: Classes of Keras whose objects never change and hold no state.
_NEVER_CHANGE = frozenset(
    {
        ("keras.src.backend.common.keras_tensor", "KerasTensor"),
        ("keras.src.initializers.constant_initializers", "Ones"),
        ("keras.src.initializers.constant_initializers", "Zeros"),
        ("keras.src.layers.input_spec", "InputSpec"),
        ("keras.src.ops.node", "Node"),
        ("keras.src.saving.serialization_lib", "SerializableDict"),
        ("tensorflow.python.trackable.base", "TrackableReference"),
        ("tensorflow.python.trackable.layer_utils", "AttributeSentinel"),
    }
)
_TRACKING = "keras.src.utils.tracking"
_Children = Iterable[Any]


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
        #: Containers that were empty, as most are: lists, dicts and sets.
        self.empty: list[Any] = []
        self.cells: list[tuple[types.CellType, Any]] = []
        #: (function that sets the state of a generator, its state).
        self.generators: list[tuple[Callable[[Any], Any], Any]] = []
        #: The user's classes of layers and modules, with their attributes.
        self.classes: list[tuple[type, dict[str, Any]]] = []
        #: The globals that the user's functions assign to.
        self.globals: list[GlobalBinding] = []
        #: The variables with a value of their own, which Keras' and distributed variables wrap.
        self.variables: list[Any] = []
        self._waiting: deque[tuple[_Children, int]] = deque()
        self._visits: dict[type, tuple[Callable[[Any], _Children], bool] | None] = {}
        self._known_classes: set[type] = set()
        self._walk(roots)

    def _walk(self, roots: _Children) -> None:
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
                    visit = visits[kind] = self.visit_of(kind)
                if visit is None or id(child) in met:
                    continue
                met.add(id(child))
                further = visit[0](child)
                if visit[1]:
                    waiting.append((further, _DEPTH))
                elif depth > 1:
                    waiting.append((further, depth - 1))

    def visit_of(self, kind: type) -> tuple[Callable[[Any], _Children], bool] | None:
        for above, visit in self._by_base():
            if issubclass(kind, above):
                return visit, _is_of_a_framework(kind)
        if issubclass(kind, np.random.Generator | np.random.RandomState):
            return self._numpy_generator, False
        if issubclass(kind, type):
            return self._class, False
        if _is_not_followed(kind):
            return None
        slots = tuple(slot.__name__ for slot in slots_of(kind))
        if not (kind.__dictoffset__ or slots or issubclass(kind, threading.local)):
            return None
        part_of_model = _is_of_a_framework(kind)
        if part_of_model or is_users_own(kind.__module__):
            self._note_classes(kind)
        return (functools.partial(self._slotted, slots) if slots else self._object), part_of_model

    def _by_base(self) -> Iterable[tuple[type, Callable[[Any], _Children]]]:
        return (
            (tf.Variable, self._variable),
            (data_structures._DictWrapper, self._dict_proxy),
            (data_structures._TupleWrapper, lambda proxy: (proxy.__wrapped__,)),
            (dict, self._dict),
            (list, functools.partial(self._sequence, list)),
            (deque, functools.partial(self._sequence, deque)),
            (tuple, lambda items: items),
            (set, self._set),
            (types.FunctionType, self._function),
            (core.ConcreteFunction, self._concrete_function),
            (types.MethodType, lambda method: (method.__self__, method.__func__)),
            (tf_method_target.TfMethodTarget, lambda method: (method.target,)),
            (types.CellType, self._cell),
            (functools.partial, lambda bound: (bound.func, *bound.args, *bound.keywords.values())),
            (random.Random, self._python_generator),
        )

    def _object(self, value: Any) -> _Children:
        try:
            attributes = value.__dict__
        except MemoryError:
            raise
        except Exception:  # an object of the user that cannot be read yet cannot be changed either
            return ()
        names, values = tuple(attributes), tuple(attributes.values())
        self.objects.append((value, type(value), names, values))
        return values

    def _slotted(self, slots: tuple[str, ...], value: Any) -> _Children:
        attributes = {name: getattr(value, name) if _can_be_read(value, name) else MISSING for name in slots}
        self.slotted.append((value, attributes))
        others = self._object(value) if hasattr(value, "__dict__") else ()
        return (*attributes.values(), *others)

    def _class(self, kind: type) -> _Children:
        if is_users_own(kind.__module__):
            self._note_classes(kind)
        return ()

    def _variable(self, variable: Any) -> _Children:
        if isinstance(variable, resource_variable_ops.BaseResourceVariable):
            self.variables.append(variable)
        return self._object(variable)

    def _dict(self, container: dict[Any, Any]) -> _Children:
        keys, values = contents(container)
        if not keys:
            self.empty.append(container)
        else:
            self.dicts.append((container, keys, values))
        return self._children_of(container, values)

    def _sequence(self, kind: Any, container: Any) -> _Children:
        items = tuple(kind.__iter__(container))
        if not items:
            self.empty.append(container)
        else:
            self.sequences.append((container, items))
        return self._children_of(container, items)

    def _set(self, container: set[Any]) -> _Children:
        items = frozenset(set.__iter__(container))
        if not items:
            self.empty.append(container)
        else:
            self.sets.append((container, items))
        return self._children_of(container, tuple(items))

    def _children_of(self, container: Any, items: tuple[Any, ...]) -> _Children:
        """Return the items to follow, and the attributes of a derived class; those of Keras hold only a tracker."""
        kind = type(container)
        if len(items) > _LONGEST_FOLLOWED and not _is_of_a_framework(type(items[0])):
            items = ()
        if not kind.__dictoffset__ or kind.__module__ == _TRACKING:
            return items
        return (*items, *self._object(container))

    def _dict_proxy(self, proxy: Any) -> _Children:
        return (proxy.__wrapped__, *self._object(proxy))

    def _cell(self, cell: types.CellType) -> _Children:
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            return ()
        self.cells.append((cell, content))
        return (content,)

    def _function(self, function: types.FunctionType) -> _Children:
        if _package(function) in _FRAMEWORKS:
            return ()
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self.globals.extend(assigned_globals(function))
        return (*(function.__closure__ or ()), *self._object(function), *defaults, *named_globals(function))

    def _concrete_function(self, function: Any) -> _Children:
        return (*self._object(function), *function.variables)

    def _python_generator(self, generator: random.Random) -> _Children:
        self.generators.append((generator.setstate, generator.getstate()))
        return ()

    def _numpy_generator(self, generator: Any) -> _Children:
        numbers = generator.bit_generator if hasattr(generator, "bit_generator") else generator._bit_generator
        self.generators.append((lambda state: setattr(numbers, "state", state), numbers.state))
        return ()

    def _note_classes(self, kind: type) -> None:
        """Record the attributes of the user's classes, where some models keep counters, caches and functions."""
        for cls in kind.__mro__:
            if cls in self._known_classes or _package(cls) in (*_FRAMEWORKS, *_BUILT_IN):
                continue
            self._known_classes.add(cls)
            attributes = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
            self.classes.append((cls, attributes))
            followed = (dict, list, set, deque, core.PolymorphicFunction, tf.Variable)
            self._waiting.append((tuple(value for value in attributes.values() if isinstance(value, followed)), _DEPTH))
            self._waiting.append((tuple(functions_of(cls)), _DEPTH))


def _is_not_followed(kind: type) -> bool:
    if issubclass(kind, core.Tensor):
        return not issubclass(kind, base.Trackable)  # Keras' variables are both, and wrap TensorFlow's
    return issubclass(kind, _NOT_FOLLOWED) or (kind.__module__, kind.__name__) in _NEVER_CHANGE


def _is_of_a_framework(kind: type) -> bool:
    return any(_package(cls) in _FRAMEWORKS for cls in kind.__mro__)


def _package(named: Any) -> str:
    return (getattr(named, "__module__", None) or "").partition(".")[0]
