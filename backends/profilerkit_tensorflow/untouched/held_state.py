"""The state that a model holds: a walk over its layers, modules and variables, and over their attributes.

Layers, modules, trackers, metrics and optimizers are followed at any depth; other objects only a few steps away from
one of those. Data sets, arrays, tensors, graphs and Python modules are not followed; of the globals of a function, or
of a method of the user, only those that its code names are.
"""

from __future__ import annotations

import dis
import enum
import functools
import logging
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from inspect import Signature
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from profilerkit.process.cached import once_for_each
from profilerkit.process.contents import list_slots

from ..compat import MethodTarget, ResourceVariable

__all__ = ["MISSING", "HeldState", "contents"]

#: The value of a name that is not bound.
MISSING: Any = object()
#: Packages whose objects make up a model.
_FRAMEWORKS = ("keras", "tf_keras", "keras_hub", "keras_cv", "keras_nlp", "tensorflow")
_BUILT_IN = ("builtins", "abc", "typing", "collections", "functools", "enum", "wrapt", "dataclasses", "threading")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
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
#: What may hold state although its class is not the user's.
_STATEFUL: tuple[type, ...] = (
    *(types.FunctionType, functools._lru_cache_wrapper, dict, list, set, deque),
    *(random.Random, np.random.Generator, np.random.RandomState),
)
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
        self.cells: list[tuple[types.CellType, Any]] = []
        #: (function that sets the state of a generator, its state).
        self.generators: list[tuple[Callable[[Any], Any], Any]] = []
        #: The user's classes of layers and modules, with their attributes.
        self.classes: list[tuple[type, dict[str, Any]]] = []
        #: (namespace of a module, name, value) of the globals that the user's functions assign to.
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
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
                    visit = visits[kind] = self.find_visit(kind)
                if visit is None or id(child) in met:
                    continue
                met.add(id(child))
                further = visit[0](child)
                if visit[1]:
                    waiting.append((further, _DEPTH))
                elif depth > 1:
                    waiting.append((further, depth - 1))

    def find_visit(self, kind: type) -> tuple[Callable[[Any], _Children], bool] | None:
        for above, visit in self._by_base():
            if issubclass(kind, above):
                return visit, _is_of_a_framework(kind)
        if issubclass(kind, np.random.Generator | np.random.RandomState):
            return self._numpy_generator, False
        if issubclass(kind, type):
            return self._class, False
        if issubclass(kind, _NOT_FOLLOWED) or (kind.__name__ in _NEVER_CHANGE and _package(kind) in _FRAMEWORKS):
            return None
        slots = tuple(slot.__name__ for slot in list_slots(kind))
        if not (kind.__dictoffset__ or slots or issubclass(kind, threading.local)):
            return None
        part_of_model = _is_of_a_framework(kind)
        if part_of_model or _is_users_own(kind.__module__):
            self._note_classes(kind)
        return (functools.partial(self._visit_slots, slots) if slots else self._object), part_of_model

    def _by_base(self) -> Iterable[tuple[type, Callable[[Any], _Children]]]:
        return (
            (tf.Variable, self._variable),
            (dict, self._dict),
            (list, functools.partial(self._sequence, list)),
            (deque, functools.partial(self._sequence, deque)),
            (tuple, lambda items: items),
            (set, self._set),
            (types.FunctionType, self._function),
            (_types.ConcreteFunction, self._concrete_function),
            (types.MethodType, lambda method: (method.__self__, method.__func__)),
            (MethodTarget, lambda method: (method.target,)),
            (types.CellType, self._cell),
            (functools.partial, lambda bound: (bound.func, *bound.args, *bound.keywords.values())),
            (random.Random, self._python_generator),
        )

    def _object(self, value: Any) -> _Children:
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

    def _visit_slots(self, slots: tuple[str, ...], value: Any) -> _Children:
        attributes = {name: getattr(value, name) if _can_be_read(value, name) else MISSING for name in slots}
        self.slotted.append((value, attributes))
        others = self._object(value) if hasattr(value, "__dict__") else ()
        return (*attributes.values(), *others)

    def _class(self, kind: type) -> _Children:
        if _is_users_own(kind.__module__):
            self._note_classes(kind)
        return ()

    def _variable(self, variable: Any) -> _Children:
        if isinstance(variable, ResourceVariable):
            self.variables.append(variable)
        return self._object(variable)

    def _dict(self, container: dict[Any, Any]) -> _Children:
        keys, values = contents(container)
        self.dicts.append((container, keys, values))
        return self._list_children(container, values)

    def _sequence(self, kind: Any, container: Any) -> _Children:
        items = tuple(kind.__iter__(container))
        self.sequences.append((container, items))
        return self._list_children(container, items)

    def _set(self, container: set[Any]) -> _Children:
        items = frozenset(set.__iter__(container))
        self.sets.append((container, items))
        return self._list_children(container, tuple(items))

    def _list_children(self, container: Any, items: tuple[Any, ...]) -> _Children:
        """Return the items to follow, and the attributes of a derived class; those of Keras hold only a tracker."""
        if len(items) > _LONGEST_FOLLOWED and not _is_of_a_framework(type(items[0])):
            items = ()
        kind = type(container)
        return (*items, *self._object(container)) if kind.__dictoffset__ and _package(kind) != "keras" else items

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
        scope = function.__globals__
        self.globals += [(scope, name, scope.get(name, MISSING)) for name in _names(function.__code__).written]
        return (*(function.__closure__ or ()), *self._object(function), *defaults, *_list_globals(function))

    def _concrete_function(self, function: Any) -> _Children:
        return (*self._object(function), *function.variables)

    def _python_generator(self, generator: random.Random) -> _Children:
        self.generators.append((generator.setstate, generator.getstate()))
        return ()

    def _numpy_generator(self, generator: Any) -> _Children:
        if isinstance(generator, np.random.RandomState):
            self.generators.append((generator.set_state, generator.get_state()))
        else:
            numbers = generator.bit_generator
            self.generators.append((functools.partial(setattr, numbers, "state"), numbers.state))
        return ()

    def _note_classes(self, kind: type) -> None:
        """Record the attributes of the user's classes, where some models keep counters, caches and functions."""
        for cls in kind.__mro__:
            if cls in self._known_classes or _package(cls) in (*_FRAMEWORKS, *_BUILT_IN):
                continue
            self._known_classes.add(cls)
            attributes = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
            self.classes.append((cls, attributes))
            followed = (dict, list, set, deque, _types.PolymorphicFunction, tf.Variable)
            self._waiting.append((tuple(value for value in attributes.values() if isinstance(value, followed)), _DEPTH))
            self._waiting.append((tuple(_functions_in(cls)), _DEPTH))


def _is_of_a_framework(kind: type) -> bool:
    return any(_package(cls) in _FRAMEWORKS for cls in kind.__mro__)


def _package(named: Any) -> str:
    return (getattr(named, "__module__", None) or "").partition(".")[0]


# What functions of the user lead to: the globals that their code names. -----------------------------------------------


class _Names(NamedTuple):
    """The globals that code reads and assigns to, and the attributes that it reads."""

    read: frozenset[str]
    written: frozenset[str]
    attributes: frozenset[str]


@once_for_each
def _names(code: types.CodeType) -> _Names:
    """Return the names in code, and in that of the functions inside of it."""
    read, written, attributes = set(), set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(str(step.argval))
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            written.add(str(step.argval))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            attributes.add(str(step.argval))
    for inner in [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]:
        read, written, attributes = read | inner.read, written | inner.written, attributes | inner.attributes
    return _Names(frozenset(read), frozenset(written), frozenset(attributes))


def _list_globals(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals, and the content of the user's modules, that a function's code names and may hold state."""
    names, scope = _names(function.__code__), function.__globals__
    for name in names.read | names.written:
        value = scope.get(name)
        if not isinstance(value, types.ModuleType):
            yield from (value,) if _may_hold(value) else ()
        elif _is_users_own(value.__name__):
            inside = vars(value)
            yield from (inside[name] for name in names.attributes & inside.keys() if _may_hold(inside[name]))


def _functions_in(cls: type) -> Iterator[types.FunctionType]:
    """Yield the functions that a class defines: methods of every kind, and the functions of its properties."""
    for value in vars(cls).values():
        for part in (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,):
            inner = getattr(part, "__func__", part)  # a static or class method
            inner = inner if isinstance(inner, types.FunctionType) else getattr(inner, "__wrapped__", None)
            if isinstance(inner, types.FunctionType):
                yield inner


def _may_hold(value: Any) -> bool:
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, _STATEFUL) or _is_of_a_framework(kind) or _is_users_own(kind.__module__)


@functools.lru_cache(maxsize=1000)
def _is_users_own(module: str) -> bool:
    """Return whether a module is a file of the user or ``__main__``: neither of Python nor an installed package."""
    package = module.partition(".")[0]
    if package == "__main__":
        return True
    if package in sys.stdlib_module_names or package.startswith("profilerkit"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return isinstance(file, str) and not any(folder in file for folder in _PACKAGE_FOLDERS)
