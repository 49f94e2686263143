"""The state of a compiled Keras model's optimizer, computed from its settings without making it."""

from __future__ import annotations

import math
from typing import Any

from profilerkit.backend_kit.keras_kinds import is_any_keras

from ..model.weights import count_bytes, count_elements

__all__ = ["optimizer_state_bytes"]

#: How many values an optimizer keeps for each element of a trainable weight; settings may add to it.
_SLOTS = {"SGD": 0, "RMSprop": 1, "Adagrad": 1, "Adadelta": 2, "Adamax": 2, "Adam": 2, "AdamW": 2, "Nadam": 2}
_SLOTS |= {"Lion": 1, "Ftrl": 2, "Lamb": 2, "Adafactor": 1}
#: Settings each of which adds one value.
_EXTRA_SLOT_SETTINGS = ("momentum", "amsgrad", "centered", "use_ema")


def optimizer_state_bytes(model: Any) -> int | str:
    """Return the bytes of a compiled model's optimizer state: 0 for a model that is not compiled.

    The state of each weight has the weight's dtype. For an unknown optimizer a text is returned, with what is missing.
    """
    optimizer = getattr(model, "optimizer", None) if is_any_keras(model) else None
    if optimizer is None:
        return 0
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    name = type(inner).__name__
    weights = model.trainable_variables
    if name not in _SLOTS:
        return f"the state of the optimizer {name} (the known ones are: {', '.join(_SLOTS)})"
    slots = _SLOTS[name] + sum(bool(getattr(inner, setting, False)) for setting in _EXTRA_SLOT_SETTINGS)
    sums = sum(map(_count_factored_bytes, weights)) if name == "Adafactor" else 0
    return slots * sum(map(count_bytes, weights)) + sums


def _count_factored_bytes(weight: Any) -> int:
    """Return the bytes of the row and the column of sums that Adafactor keeps for each matrix; a vector has none.

    Keras keeps the product of both too (its ``velocity``), which Shazeer and Stern (2018, arXiv:1804.04235) do without.
    """
    shape: tuple[int, ...] = tuple(weight.shape)
    if len(shape) < 2:
        return 0
    *stacked, rows, columns = shape
    element = count_bytes(weight) // max(1, count_elements(weight))
    return math.prod(stacked) * (rows + columns) * element
