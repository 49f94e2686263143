"""Facts about a model, by name: every object that it leads to, every value, and what is read of it."""

from __future__ import annotations

import random
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras_subjects import Subject
from tensorflow.python.eager.polymorphic_function import polymorphic_function

__all__ = ["Facts", "Same", "digest", "look_at"]

Facts = dict[str, Any]

_FOLLOWED = ("keras", "tf_keras", "tensorflow", "keras_subjects", "keras_faults", "harming_tensorflow", "wrapt")
_LEFT = (type, tf.Graph, tf.Operation, tf.TypeSpec, tf.DType, tf.TensorShape, tf.distribute.Strategy, types.ModuleType)
_READ = ("losses", "metrics", "variables", "trainable_variables", "built", "optimizer", "compiled", "trainable", "name")
_PLAIN = (bool, int, float, str, bytes, complex, type(None))


class Same:
    """Equal to what wraps the very same object; it keeps none alive."""

    def __init__(self, value: Any) -> None:
        self._key = id(value)
        try:
            self._alive: Any = weakref.ref(value)
        except TypeError:
            self._alive = lambda: True
        self._name = type(value).__name__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._key == other._key and self._alive() is not None

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._name}>"


def digest(value: Any) -> Any:
    """Return the bits of a tensor or variable, with its dtype and shape; None where it has no value to be read."""
    try:
        array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    except Exception:  # a resource, a symbolic tensor, a variable of a graph
        return None
    return array.dtype.name, array.shape, array.tobytes() if not array.dtype.hasobject else repr(array.tolist())


def look_at(subject: Subject) -> Facts:
    """Return all facts of a model, of its inputs and of what else is watched; nothing of the model is called."""
    look = _Look()
    look.visit("model", subject.model)
    for name in _READ:
        look.read("model", subject.model, name)
    look.visit("inputs", subject.inputs)
    for name, value in subject.watched.items():
        look.visit(f"outside {name}", value)
    return look.facts


class _Look:
    def __init__(self) -> None:
        self.facts: Facts = {}
        self._met: set[int] = set()

    def read(self, path: str, owner: Any, name: str) -> None:
        """Note what a property gives, which may be made from something that nobody sees."""
        try:
            value = getattr(owner, name)
        except Exception as error:  # a model that is not built has no variables to show
            self.facts[f"{path}.{name} (read)"] = type(error).__name__
            return
        if isinstance(value, (list, tuple)):
            self.facts[f"{path}.{name} (read)"] = [Same(item) for item in value] if name != "losses" else len(value)
            for index, item in enumerate(value if name == "variables" else ()):
                self.visit(f"{path}.{name}[{index}]", item)
        else:
            self.facts[f"{path}.{name} (read)"] = value if isinstance(value, _PLAIN) else Same(value)

    def visit(self, path: str, value: Any) -> None:
        """Note a value, and what it holds when it is met for the first time."""
        waiting = deque([(path, value)])  # the short ways first: they are the names
        while waiting:
            path, value = waiting.popleft()
            self.facts[path] = value if isinstance(value, _PLAIN) else Same(value)
            if isinstance(value, (tf.Tensor, tf.Variable)):
                self.facts[f"{path} value"] = digest(value)
            if id(value) in self._met or isinstance(value, (*_PLAIN, *_LEFT)):
                continue
            self._met.add(id(value))
            self._note_state(path, value)
            waiting += [(f"{path}{name}", part) for name, part in _parts(value)]

    def _note_state(self, path: str, value: Any) -> None:
        if isinstance(value, (dict, list, tuple, set, deque)):
            self.facts[f"{path} length"] = len(value)
        if isinstance(value, polymorphic_function.Function):
            self.facts[f"{path} traces"] = value.experimental_get_tracing_count()
        if isinstance(value, random.Random):
            self.facts[f"{path} state"] = value.getstate()
        if isinstance(value, np.random.Generator):
            self.facts[f"{path} state"] = value.bit_generator.state
        if isinstance(value, np.ndarray):
            self.facts[f"{path} value"] = digest(value)
        cache = getattr(type(value), "cache_info", None)
        if cache is not None:
            self.facts[f"{path} entries"] = value.cache_info().currsize


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(type(value), "__wrapped__"):  # Keras' and TensorFlow's tracked containers: a proxy of the user's own
        yield " wrapped", value.__wrapped__
    elif isinstance(value, dict):
        yield from ((f"[{_shown(key)}]", part) for key, part in list(dict.items(value)))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    for cell, name in _cells(value):
        yield f" closure {name}", cell
    kind = type(value)
    if kind.__module__.partition(".")[0] in _FOLLOWED and not isinstance(value, tf.Tensor):
        yield from ((f".{name}", part) for name, part in list(getattr(value, "__dict__", {}).items()))
        yield from ((f".{name} (slot)", part) for name, part in _slots(value))
        for cls in kind.__mro__:
            if cls.__module__ in ("keras_subjects", "keras_faults"):
                yield from (
                    (f" class {cls.__name__}.{name}", part) for name, part in vars(cls).items() if name[:2] != "__"
                )


def _cells(value: Any) -> Iterator[tuple[Any, str]]:
    if isinstance(value, types.FunctionType) and value.__module__ in ("keras_subjects", "keras_faults"):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                yield cell.cell_contents, name
            except ValueError:
                continue


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for cls in type(value).__mro__:
        if cls.__module__ not in ("keras_subjects", "keras_faults"):
            continue
        for name in vars(cls).get("__slots__", ()):
            own = f"_{cls.__name__}{name}" if name.startswith("__") else name
            if hasattr(value, own):
                yield own, getattr(value, own)


def _shown(key: Any) -> str:
    return repr(key)[:40] if isinstance(key, _PLAIN) else f"<{type(key).__name__} {id(key)}>"
