"""Kernels of Keras' layers that hold two numbers of 4 bits in a byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.backend_kit.keras_layers import flat_layers
from profilerkit.backend_kit.keras_packing import list_packed_variables

from .stored_variables import find_id, keras_variable_classes

__all__ = ["count_packed_elements"]


def count_packed_elements(layer: Any) -> Iterator[tuple[int, int]]:
    """Yield the variables of a layer that hold two 4-bit numbers in a byte, by id, with how many numbers they hold."""
    for part in flat_layers(layer) if is_keras(layer) else ():
        for variable, count in list_packed_variables(part):
            if isinstance(variable, keras_variable_classes()):
                yield find_id(variable), count
