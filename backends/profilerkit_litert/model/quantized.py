"""Numbers and the integers that stand for them at the inputs and outputs of a quantized model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .graphs import Tensor
from .reading import LiteRTModel

__all__ = ["dequantize", "dequantize_outputs", "is_quantized", "quantize"]


def is_quantized(tensor: Tensor) -> bool:
    """Return whether integers with one scale stand for the numbers of a tensor."""
    return len(tensor.quantization.scales) == 1 and tensor.dtype.startswith(("int", "uint"))


def quantize(array: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the integers that a quantized tensor has for numbers, as LiteRT's QUANTIZE makes them.

    Each is ``round(number / scale) + zero_point``, halves away from zero, or the nearest integer that the dtype holds.
    """
    (scale,), zero_points = tensor.quantization
    steps = array.astype(np.float64) / scale
    rounded = np.trunc(steps + np.copysign(0.5, steps)) + (zero_points[0] if zero_points else 0)
    limits = np.iinfo(tensor.dtype)
    integers: np.ndarray[Any, Any] = np.clip(rounded, limits.min, limits.max).astype(tensor.dtype)
    return integers


def dequantize(array: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return in float32 the numbers that the integers of a quantized tensor stand for; of any other it is the array."""
    if not is_quantized(tensor):
        return array
    (scale,), zero_points = tensor.quantization
    return ((array.astype(np.float64) - (zero_points[0] if zero_points else 0)) * scale).astype(np.float32)


def dequantize_outputs(model: LiteRTModel, outputs: Any) -> Any:
    """Return the results of a call, one array or several by their names, as numbers."""
    tensors = model.graphs[model.signature.graph].tensors
    declared = {name: tensors[index] for name, index in model.signature.outputs.items()}
    if isinstance(outputs, Mapping):
        return {name: dequantize(array, declared[name]) for name, array in outputs.items()}
    return dequantize(outputs, next(iter(declared.values())))
