"""The state of a compiled Keras model's optimizer, computed from its settings without making it."""

from __future__ import annotations

from typing import Any

from profilerkit.backend_kit.keras_kinds import is_any_keras

from ..model.weights import count_bytes, count_elements

__all__ = ["optimizer_state_bytes"]

#: How many values an optimizer keeps for each element of a trainable weight; settings may add to it.
_SLOTS = {"SGD": 0, "RMSprop": 1, "Adagrad": 1, "Adadelta": 2, "Adamax": 2, "Adam": 2, "AdamW": 2, "Nadam": 2}
_SLOTS |= {"Lion": 1, "Ftrl": 2, "Lamb": 2}
#: Settings each of which adds one value.
_EXTRA_SLOT_SETTINGS = ("momentum", "amsgrad", "centered", "use_ema")


def optimizer_state_bytes(model: Any) -> int | str:
    """Return the bytes of a compiled model's optimizer state, the dtype of each weight's being the weight's own.

    0 if the model is not compiled. For an unknown optimizer, a text with what is missing. Adafactor keeps a
    row and a column of sums for each matrix (Shazeer and Stern 2018, arXiv:1804.04235), and one value for each element
    of a vector.
    """
    optimizer = getattr(model, "optimizer", None) if is_any_keras(model) else None
    if optimizer is None:
        return 0
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    name = type(inner).__name__
    weights = model.trainable_variables
    if name == "Adafactor":
        return sum(_count_factored(tuple(v.shape)) * count_bytes(v) // max(1, count_elements(v)) for v in weights)
    if name not in _SLOTS:
        names = ", ".join([*_SLOTS, "Adafactor"])
        return f"the state of the optimizer {name} (the known ones are: {names})"
    slots = _SLOTS[name] + sum(bool(getattr(inner, setting, False)) for setting in _EXTRA_SLOT_SETTINGS)
    return slots * sum(map(count_bytes, weights))


def _count_factored(shape: tuple[int, ...]) -> int:
    """Return how many values Adafactor keeps for a weight."""
    if len(shape) < 2:
        return shape[0] if shape else 1
    rest = 1
    for size in shape[:-2]:
        rest *= size
    return rest * (shape[-1] + shape[-2])
