"""Kernels of Keras' layers that hold two numbers of 4 bits in a byte."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

__all__ = ["list_packed_variables"]

_FOUR_BIT_MODES = ("int4", "gptq", "awq")
#: Where layers keep such kernels.
_PACKED = ("_kernel", "_embeddings", "reverse_embeddings", "quantized_kernel")


def list_packed_variables(layer: Any) -> Iterator[tuple[Any, int]]:
    """Yield the variables of a Keras layer itself that hold two numbers in a byte, with how many numbers they hold."""
    if getattr(layer, "quantization_mode", None) not in _FOUR_BIT_MODES:
        return
    for name in _PACKED:
        variable: Any = getattr(layer, name, None)
        if hasattr(variable, "shape"):
            yield variable, _count_unpacked(layer, name, tuple(variable.shape))


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
