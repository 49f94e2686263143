"""Kernels of Keras' layers that hold two numbers of 4 bits in a byte."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import flat_layers

from .stored_variables import find_id, keras_variable_classes

__all__ = ["count_packed_elements"]

_FOUR_BIT_MODES = ("int4", "gptq", "awq")
#: Where layers keep such kernels.
_PACKED = ("_kernel", "_embeddings", "reverse_embeddings", "quantized_kernel")


def count_packed_elements(layer: Any) -> Iterator[tuple[int, int]]:
    """Yield the variables of a layer that hold two 4-bit numbers in a byte, by id, with how many numbers they hold."""
    for part in flat_layers(layer) if is_keras(layer) else ():
        if getattr(part, "quantization_mode", None) not in _FOUR_BIT_MODES:
            continue
        for name in _PACKED:
            variable = getattr(part, name, None)
            if isinstance(variable, keras_variable_classes()):
                yield find_id(variable), _count_unpacked(part, name, tuple(variable.shape))


def _count_unpacked(layer: Any, name: str, stored: tuple[int, ...]) -> int:
    """Return how many numbers a packed variable stands for; the number stored where its layer does not record it.

    ``stored`` is its shape. What a layer records may be of another of its variables: it must fit the number stored.
    """
    attributes = vars(layer)
    candidates = []
    for key in ("original_kernel_shape", "kernel_shape"):
        if attributes.get(key):
            candidates.append(math.prod(attributes[key]))
    if name == "reverse_embeddings":
        candidates.append(layer.input_dim * layer.output_dim)
    if attributes.get("_orig_output_dim"):  # of the last axis, before it was packed
        candidates.append(math.prod(stored[:-1]) * int(attributes["_orig_output_dim"]))
    if attributes.get("_orig_input_dim"):  # of the first one
        candidates.append(int(attributes["_orig_input_dim"]) * math.prod(stored[1:]))
    count = math.prod(stored)
    fitting = [candidate for candidate in candidates if count <= candidate <= 2 * count]
    return fitting[0] if fitting else count
