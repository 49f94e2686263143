"""Quantized layers of Keras: the variables that quantization adds, and weights with two numbers in a byte."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .keras_layers import PACKED_KERNELS, UNPACKED_LENGTHS

__all__ = ["find_quantization_data", "is_quantization_data", "list_packed_variables", "name_variable"]

#: The names of the variables that quantization adds to a Keras layer.
_QUANTIZATION_DATA = re.compile(r"(_scales?|_zero|zero_point|_amax_history)$|^g_idx$")
#: How Keras calls layers whose kernels have two numbers in each byte.
_FOUR_BIT_MODES = ("int4", "gptq", "awq")


def name_variable(variable: Any) -> str:
    """Return the last part of a variable's name, without the number of its output."""
    return re.sub(r":\d+$", "", str(variable.name)).rpartition("/")[2]


def is_quantization_data(variable: Any) -> bool:
    """Return whether a variable of a quantized layer has the name of a scale, a zero point or a history."""
    return _QUANTIZATION_DATA.search(name_variable(variable)) is not None


def find_quantization_data(variables: Iterable[Any]) -> list[Any]:
    """Return the scales, zero points and histories among variables of Keras whose layers are not known.

    A name such as ``kernel_scale`` is one if the same layer has a kernel of integers, or a history of float8.
    """
    layers: dict[str, list[Any]] = {}
    for variable in variables:
        layers.setdefault(str(getattr(variable, "path", variable.name)).rpartition("/")[0], []).append(variable)
    return [
        variable
        for together in layers.values()
        if any(map(_is_quantized, together))
        for variable in together
        if is_quantization_data(variable)
    ]


def _is_quantized(variable: Any) -> bool:
    name, dtype = name_variable(variable), getattr(variable.dtype, "name", variable.dtype)
    return name.endswith("_amax_history") or (name in ("kernel", "embeddings", "reverse_embeddings") and "int" in dtype)


def list_packed_variables(layer: Any) -> Iterator[tuple[Any, int]]:
    """Yield the variables of a Keras layer itself that hold two numbers in a byte, with how many numbers they hold."""
    if getattr(layer, "quantization_mode", None) not in _FOUR_BIT_MODES:
        return
    for name in PACKED_KERNELS:
        variable: Any = getattr(layer, name, None)
        if hasattr(variable, "shape"):
            yield variable, _count_unpacked(layer, name, tuple(variable.shape))


def _count_unpacked(layer: Any, name: str, stored: tuple[int, ...]) -> int:
    """Return how many numbers a packed variable stands for; the number stored if its layer does not record it.

    ``stored`` is its shape. A layer may record the number of another variable: it must fit the number stored.
    """
    count = math.prod(stored)
    return next((size for size in _list_recorded_sizes(layer, name, stored) if count <= size <= 2 * count), count)


def _list_recorded_sizes(layer: Any, name: str, stored: tuple[int, ...]) -> Iterator[int]:
    """Yield the numbers of elements that a layer records, if any, of its kernel before it was packed."""
    attributes = vars(layer)
    for key in ("original_kernel_shape", "kernel_shape"):
        if attributes.get(key):
            yield math.prod(attributes[key])
    if name == "reverse_embeddings":
        yield layer.input_dim * layer.output_dim
    for key, axis in UNPACKED_LENGTHS.items():
        if attributes.get(key):
            yield math.prod(stored) // stored[axis] * int(attributes[key])
