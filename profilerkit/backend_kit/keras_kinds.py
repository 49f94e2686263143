"""Which values are layers and models of Keras, on any framework that Keras runs on: Keras 3, and ``tf_keras``.

Keras is never imported here: if a model is a Keras model, Keras is imported already.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from ..process.cached import once_for_each

__all__ = [
    "ends_in_sigmoid",
    "is_any_keras",
    "is_keras",
    "is_layer_class",
    "is_legacy_keras",
    "is_shipped",
    "is_shipped_class",
    "keras_backend",
]


def is_keras(value: Any) -> bool:
    """Return whether a value is a layer or model of Keras 3."""
    return _is_from("keras", type(value))


def is_legacy_keras(value: Any) -> bool:
    """Return whether a value is a layer or model of ``tf_keras``, the new name of Keras 2."""
    return _is_from("tf_keras", type(value))


def is_any_keras(value: Any) -> bool:
    """Return whether a value is a layer or model of Keras 3 or of ``tf_keras``."""
    return is_keras(value) or is_legacy_keras(value)


def is_layer_class(kind: type) -> bool:
    """Return whether a class is one of layers or models, of Keras 3 or ``tf_keras``."""
    return any(_is_from(package, kind) for package in _is_derived)


def _is_from(package: str, kind: type) -> bool:
    """Return whether a class is one of layers or models of one of the two."""
    return package in sys.modules and _is_derived[package](kind)


def _derives_from(package: str, kind: type) -> bool:
    # By names first: a module of that name need not have ``layers``, as while it is being imported.
    is_named_so = any(base.__module__.partition(".")[0] == package for base in kind.__mro__)
    return is_named_so and issubclass(kind, sys.modules[package].layers.Layer)


#: The check of a class by the package of Keras; each remembers its answers, because it is asked many times in one pass.
_is_derived = {package: once_for_each(partial(_derives_from, package)) for package in ("keras", "tf_keras")}


def keras_backend() -> str | None:
    """Return the name of the framework that Keras 3 runs on in this process; None if Keras is not imported."""
    keras = sys.modules.get("keras")
    return None if keras is None else str(keras.config.backend())


def is_shipped(layer: Any) -> bool:
    """Return whether a layer's class is part of Keras, and not the user's own."""
    return is_shipped_class(type(layer))


def is_shipped_class(kind: type) -> bool:
    """Return whether a class is part of Keras."""
    return kind.__module__.partition(".")[0] in ("keras", "tf_keras")


def ends_in_sigmoid(model: Any) -> bool | None:
    """Return whether a Keras model ends in a sigmoid; None where its last layer leaves open what its scores are.

    A linear layer's are logits. Other activations (``hard_sigmoid``, a function of the user's) may give either, as may
    a model of the user's own class: the layer that it has made last need not be the one that it calls last.
    """
    last = model
    while is_shipped(last) and getattr(last, "layers", None):
        last = last.layers[-1]
    activation = getattr(last, "activation", None) if is_shipped(last) else None
    return {"sigmoid": True, "linear": False}.get(getattr(activation, "__name__", ""))
