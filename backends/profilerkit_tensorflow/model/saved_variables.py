"""The variables of a saved model: those that it lists, or that its functions and attributes lead to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from profilerkit.backend_kit import keras_quantization, keras_variables
from profilerkit.backend_kit.keras_kinds import is_keras

from ..compat.saved_models import is_saved_model
from .stored_variables import find_id, find_stored_variable, is_variable

__all__ = ["holds_saved_model", "list_saved_scales", "list_saved_variables"]

#: Attributes of a saved model that lead to no weights: its optimizer, metadata of Keras, and the table of
#: signatures, which are asked apart.
_NOT_FOLLOWED = ("optimizer", "_optimizer", "keras_api", "signatures")


def holds_saved_model(layer: Any) -> bool:
    """Return whether a layer is the one by which Keras calls a saved model, with all of its variables."""
    return is_keras(layer) and type(layer).__name__ == "TFSMLayer"


def list_saved_scales(layer: Any) -> list[Any]:
    """Return the scales among the variables of a saved model, or of the layer that calls one; none for other layers."""
    if holds_saved_model(layer):
        variables = [variable for _, variable in keras_variables.name_own_weights(layer)]
    else:
        variables = list_saved_variables(layer) if is_saved_model(layer) else []
    by_id = {find_id(variable): variable for variable in variables}
    stored = map(find_stored_variable, by_id.values())  # these have the names of the file
    return [by_id[id(scale)] for scale in keras_quantization.find_quantization_data(stored)]


def list_saved_variables(model: Any) -> list[Any]:
    """Return the variables that a saved model lists; otherwise the variables of its functions and attributes."""
    listed = getattr(model, "variables", None)
    if not (listed is None or callable(listed) or is_variable(listed)):  # no attribute of the user's with this name
        return list(listed)
    call = getattr(model, "__call__", None)  # noqa: B004 (the stored value is read; no test whether it is callable)
    functions = [call, *(getattr(model, "signatures", None) or {}).values()]
    by_id: dict[int, Any] = {}
    for function in functions:
        for concrete in getattr(function, "concrete_functions", [function]):  # a signature is concrete itself
            captured = getattr(getattr(concrete, "graph", None), "variables", ())
            by_id.update((id(variable), variable) for variable in captured)
    by_id.update((id(variable), variable) for variable in _find_variables(model))
    return list(by_id.values())


def _find_variables(model: Any) -> Iterator[Any]:
    """Yield the variables that were saved with a model, except its optimizer's."""
    waiting, seen = [model], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_variable(value):
            yield value
        else:
            children = tf.train.TrackableView.children(value)
            waiting += [child for name, child in reversed(children.items()) if name not in _NOT_FOLLOWED]
