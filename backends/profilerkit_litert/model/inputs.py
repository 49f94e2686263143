"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from profilerkit import ModelInputs
from profilerkit.backend_kit import numpy_data
from profilerkit.backend_kit.layouts import channels_last_order

from .reading import LiteRTModel, Tensor

__all__ = ["bind_inputs", "fit_inputs", "list_declared"]


def list_declared(model: LiteRTModel) -> list[numpy_data.Declared]:
    """Return the inputs that a signature declares."""
    tensors = model.graphs[model.signature.graph].tensors
    return [
        numpy_data.Declared(name, tensors[index].shape, tensors[index].dtype)
        for name, index in model.signature.inputs.items()
    ]


def bind_inputs(model: LiteRTModel, inputs: ModelInputs) -> dict[str, Any]:
    """Return the tensors of a call by the names of the inputs: positional ones in order, the others by name.

    Raises `InputError` for a number, a name, a shape or a dtype that the model does not declare.
    """
    return numpy_data.bind_inputs(list_declared(model), inputs)


def fit_inputs(model: LiteRTModel, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs with their channels at the end, and integers as wide, as the model declares them.

    litert-torch turns integers of 64 bits into those of 32.
    """
    if inputs.function is not None:
        return inputs
    graph = model.graphs[model.signature.graph]
    declared = {name: graph.tensors[index] for name, index in model.signature.inputs.items()}
    in_order = iter(declared.values())
    positional = ModelInputs(*inputs.args).map(lambda value: _fit(value, next(in_order, None)))
    named = {name: _fit(value, declared.get(name)) for name, value in inputs.kwargs.items()}
    return ModelInputs(*positional.args, **named)


def _fit(value: Any, declared: Tensor | None) -> Any:
    """Return an array as an input is declared, if only its layout or the width of its integers has to change."""
    if declared is None or not isinstance(value, np.ndarray):
        return value
    order = channels_last_order(value.shape, declared.shape or ())
    return _match_width(value if order is None else np.transpose(value, order), declared.dtype)


def _match_width(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return integers in a dtype of integers, if none of them changes; anything else as it is."""
    if array.dtype.kind not in "iu" or not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        return array
    matched = array.astype(dtype, copy=False)
    return matched if np.array_equal(matched, array) else array
