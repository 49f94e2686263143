"""The zeros among the elements of a model's weights."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from profilerkit import WithoutValuesError
from profilerkit.backend_kit.keras_quantization import find_quantization_data

from ..model.stored_variables import count_elements, find_stored_variable
from ..model.weights import list_weights
from .required_values import require_values

__all__ = ["zero_weights"]


def zero_weights(model: Any) -> tuple[int, int]:
    """Return how many elements of the floating-point weights are zero, and how many there are; each weight once.

    The scales and histories of quantized layers are no weights.
    """
    require_values(model)
    nonzero = elements = 0
    weights = list_weights(model)
    scales = set(map(id, find_quantization_data(weights)))
    for weight in weights:
        dtype = tf.as_dtype(weight.dtype)
        if id(weight) not in scales and (dtype.is_floating or dtype.is_complex):
            elements += count_elements(weight)
            nonzero += _count_nonzero(weight)
    return elements - nonzero, elements


def _count_nonzero(variable: Any) -> int:
    try:
        with tf.init_scope():
            return int(tf.math.count_nonzero(find_stored_variable(variable).read_value()))
    except (AttributeError, tf.errors.OpError) as error:
        name = str(getattr(variable, "path", variable.name))
        raise WithoutValuesError(f"the weight {name!r} has no value yet; initialise it first") from error
