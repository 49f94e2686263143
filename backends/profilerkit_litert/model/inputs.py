"""The inputs that a model declares, and the inputs and results of a call in the form that it declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain, repeat
from typing import Any

import numpy as np

from profilerkit import ModelInputs
from profilerkit.backend_kit.layouts import channels_last_order
from profilerkit.backend_kit.numpy_data import Declared

from .graphs import Tensor
from .reading import LiteRTModel

__all__ = ["dequantize_outputs", "fit_inputs", "list_declared", "read_inputs"]


def list_declared(model: LiteRTModel) -> list[Declared]:
    """Return the inputs that a signature declares."""
    tensors = model.graphs[model.signature.graph].tensors
    return [
        Declared(name, tensors[index].shape, tensors[index].dtype) for name, index in model.signature.inputs.items()
    ]


def fit_inputs(model: LiteRTModel, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs with their channels at the end, and integers as wide, as the model declares them.

    litert-torch turns integers of 64 bits into integers of 32 bits. Numbers for a quantized input become the integers
    that stand for them.
    """
    return _map_declared(model, inputs, _fit)


def read_inputs(model: LiteRTModel, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs with the integers of quantized inputs converted to numbers."""
    return _map_declared(model, inputs, _read_numbers)


def _map_declared(model: LiteRTModel, inputs: ModelInputs, change: Callable[[Any, Tensor | None], Any]) -> ModelInputs:
    """Return the inputs after ``change`` of each value, given the value and the tensor that the model declares.

    The tensor is None for a value that the model does not declare.
    """
    if inputs.function is not None:
        return inputs
    graph = model.graphs[model.signature.graph]
    tensors = {name: graph.tensors[index] for name, index in model.signature.inputs.items()}
    positional = ModelInputs(*inputs.args).leaves()
    args = [
        change(value, tensor) for value, tensor in zip(positional, chain(tensors.values(), repeat(None)), strict=False)
    ]
    kwargs = {name: change(value, tensors.get(name)) for name, value in inputs.kwargs.items()}
    changed = ModelInputs(*args, **kwargs)
    changed.note, changed.are_random = inputs.note, inputs.are_random
    return changed


def _read_numbers(value: Any, declared: Tensor | None) -> Any:
    """Return the numbers that the integers of an array stand for, if the input is quantized."""
    if declared is None or not isinstance(value, np.ndarray):
        return value
    return _dequantize(value, declared)


def _fit(value: Any, declared: Tensor | None) -> Any:
    """Return an array in the layout and the dtype of its declaration, if its numbers stay the same."""
    if declared is None or not isinstance(value, np.ndarray):
        return value
    order = channels_last_order(value.shape, declared.shape)
    array = value if order is None else np.transpose(value, order)
    if _is_quantized(declared) and array.dtype.kind == "f":
        return _quantize(array, declared)
    return _match_width(array, declared.dtype)


def _match_width(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return integers in a dtype of integers, if none of them changes; anything else as it is."""
    if array.dtype.kind not in "iu" or not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        return array
    matched = array.astype(dtype, copy=False)
    return matched if np.array_equal(matched, array) else array


# Numbers, and the integers that stand for them in a quantized model ---------------------------------------------------


def _is_quantized(tensor: Tensor) -> bool:
    """Return whether integers with one scale stand for the numbers of a tensor."""
    return len(tensor.quantization.scales) == 1 and tensor.dtype.startswith(("int", "uint"))


def _quantize(array: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the integers that a quantized tensor has for numbers, as LiteRT's QUANTIZE makes them.

    Each is ``round(number / scale) + zero_point``, halves away from zero, or the nearest integer that the dtype holds.
    """
    (scale,), zero_points = tensor.quantization
    steps = array.astype(np.float64) / scale
    rounded = np.trunc(steps + np.copysign(0.5, steps)) + (zero_points[0] if zero_points else 0)
    limits = np.iinfo(tensor.dtype)
    integers: np.ndarray[Any, Any] = np.clip(rounded, limits.min, limits.max).astype(tensor.dtype)
    return integers


def _dequantize(array: np.ndarray[Any, Any], tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return in float32 the numbers that the integers of a quantized tensor stand for; of any other it is the array."""
    if not _is_quantized(tensor):
        return array
    (scale,), zero_points = tensor.quantization
    return ((array.astype(np.float64) - (zero_points[0] if zero_points else 0)) * scale).astype(np.float32)


def dequantize_outputs(model: LiteRTModel, outputs: Any) -> Any:
    """Return the results of a call, one array or several by their names, as numbers."""
    tensors = model.graphs[model.signature.graph].tensors
    declared = {name: tensors[index] for name, index in model.signature.outputs.items()}
    if isinstance(outputs, Mapping):
        return {name: _dequantize(array, declared[name]) for name, array in outputs.items()}
    return _dequantize(outputs, next(iter(declared.values())))
