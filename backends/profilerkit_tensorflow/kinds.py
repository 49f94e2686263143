"""The kinds of model this backend knows, and how each holds its layers and variables.

Layers are Keras 3's, those of ``tf_keras`` (only where it is imported already), and ``tf.Module``s. Functions, saved
models and plain callables are one layer each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from .calling import is_keras, is_legacy_keras

__all__ = ["children_of", "is_function", "is_layer", "is_saved_model", "is_unbuilt", "is_variable", "own_variables"]


#: Attributes in which Keras keeps its books: layers are held there too, by no name of the user's.
_BOOKS = ("_self_", "_tracker", "_layers", "_inbound", "_outbound", "_functional", "_operations")


def is_layer(value: Any) -> bool:
    """Say whether something is a layer: Keras' or a ``tf.Module``."""
    return is_keras(value) or is_legacy_keras(value) or isinstance(value, tf.Module)


def is_saved_model(value: Any) -> bool:
    """Say whether something came from ``tf.saved_model.load``."""
    return any(base.__module__ == "tensorflow.python.saved_model.load" for base in type(value).__mro__)


def is_function(value: Any) -> bool:
    """Say whether something is a ``tf.function``, one of its traces, or a callable of Python's."""
    return callable(value) and not isinstance(value, type) and not is_layer(value) and not is_saved_model(value)


def is_unbuilt(model: Any) -> bool:
    """Say whether a Keras model lacks variables that its first call would make."""
    if not (is_keras(model) or is_legacy_keras(model)):
        return False
    return not all(layer.built for layer in model._flatten_layers())


def is_variable(value: Any) -> bool:
    """Say whether something is a variable of TensorFlow's or of Keras 3."""
    keras = sys.modules.get("keras")
    return isinstance(value, tf.Variable) or (keras is not None and isinstance(value, keras.Variable))


def children_of(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layers directly inside a layer, by name; one that is held under several names under each.

    A layer of the user's own class names them by its attributes (``blocks[0]`` in a list), one of Keras' by the names
    that the layers have. Keras' input layers do nothing and are left out, and so are the cells of its own recurrent
    layers, which are one layer to everybody.
    """
    if is_keras(layer) or is_legacy_keras(layer):
        inside = [child for child in _keras_children(layer) if not _is_input(child)]
        names = {} if _is_shipped(layer) else _attribute_names(layer)
        yield from () if _hides_its_cell(layer) else _named(inside, names)
    elif isinstance(layer, tf.Module):
        for path, child in layer._flatten(recursive=False, predicate=is_layer, with_path=True):
            yield _attribute_path(path), child


def own_variables(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a layer holds itself, by name; those of a saved model are its own."""
    if is_keras(layer) or is_legacy_keras(layer):
        yield from _keras_variables(layer)
    elif isinstance(layer, tf.Module):
        for path, variable in layer._flatten(recursive=False, predicate=is_variable, with_path=True):
            yield _attribute_path(path), variable
    elif is_saved_model(layer):
        for variable in _variables_of_saved(layer):
            yield _last(variable), variable


def _keras_variables(layer: Any) -> Iterator[tuple[str, Any]]:
    kind = "weights" if is_legacy_keras(layer) else "variables"
    for held in (f"_trainable_{kind}", f"_non_trainable_{kind}"):
        yield from ((_last(variable), variable) for variable in getattr(layer, held, ()))
    if _hides_its_cell(layer):
        for child in _keras_children(layer):
            for inside in (child, *_keras_children(child)):
                yield from _keras_variables(inside)


def _variables_of_saved(model: Any) -> list[Any]:
    listed = getattr(model, "variables", None)
    if listed is not None and not callable(listed):
        return list(listed)
    functions = [getattr(model, "__call__", None), *dict(getattr(model, "signatures", {}) or {}).values()]  # noqa: B004
    concrete = [each for function in functions for each in getattr(function, "concrete_functions", [function])]
    found = {id(v): v for each in concrete for v in getattr(getattr(each, "graph", None), "variables", ())}
    return list(found.values())


def _keras_children(layer: Any) -> list[Any]:
    if is_legacy_keras(layer):
        return list(layer._flatten_layers(recursive=False, include_self=False))
    return list(getattr(layer, "_layers", ()))


def _is_shipped(layer: Any) -> bool:
    return type(layer).__module__.partition(".")[0] in ("keras", "tf_keras")


def _is_input(layer: Any) -> bool:
    return _is_shipped(layer) and type(layer).__name__ == "InputLayer"


def _hides_its_cell(layer: Any) -> bool:
    return _is_shipped(layer) and hasattr(layer, "cell") and type(layer).__name__ != "RNN"


def _named(layers: list[Any], names: Mapping[int, list[str]]) -> Iterator[tuple[str, Any]]:
    taken: set[str] = set()
    for layer in layers:
        for name in names.get(id(layer)) or [getattr(layer, "name", None) or type(layer).__name__]:
            unique = name = name.replace(".", "_")
            number = 1
            while unique in taken:
                number += 1
                unique = f"{name}#{number}"
            taken.add(unique)
            yield unique, layer


def _attribute_names(layer: Any) -> dict[int, list[str]]:
    """Return under which attributes a layer holds others, by their ``id``, through lists and mappings."""
    found: dict[int, list[str]] = {}

    def look(name: str, value: Any, depth: int) -> None:
        if is_layer(value):
            found.setdefault(id(value), []).append(name)
        elif depth and isinstance(value, Mapping):
            for key, item in value.items():
                look(f"{name}[{key}]", item, depth - 1)
        elif depth and isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                look(f"{name}[{index}]", item, depth - 1)

    for name, value in vars(layer).items():
        if not name.startswith(_BOOKS):
            look(name, value, 3)
    return found


def _attribute_path(path: tuple[Any, ...]) -> str:
    first, *rest = path
    return "".join([str(first), *(f"[{key}]" for key in rest)]).replace(".", "_")


def _last(variable: Any) -> str:
    """Return the last part of a variable's name, without the number of its output."""
    return re.sub(r":\d+$", "", str(variable.name)).rpartition("/")[2]
