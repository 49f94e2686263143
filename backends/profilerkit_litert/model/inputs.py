"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from profilerkit import ModelInputs
from profilerkit.backend_kit import numpy_data
from profilerkit.backend_kit.layouts import in_declared_layout

from .reading import LiteRTModel

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
    graph = model.graphs[model.signature.graph]
    tensors = [graph.tensors[index] for index in model.signature.inputs.values()]
    if inputs.function is not None or inputs.kwargs or len(inputs.args) != len(tensors):
        return inputs
    args = in_declared_layout(inputs.args, [tensor.shape or () for tensor in tensors], _find_shape, np.transpose)
    return ModelInputs(*(_match_width(value, tensor.dtype) for value, tensor in zip(args, tensors, strict=True)))


def _match_width(value: Any, dtype: str) -> Any:
    """Return integers in a dtype of integers, if none of them changes; anything else as it is."""
    if (
        not isinstance(value, np.ndarray)
        or value.dtype.kind not in "iu"
        or not re.fullmatch(r"u?int(8|16|32|64)", dtype)
    ):
        return value
    matched = value.astype(dtype, copy=False)
    return matched if np.array_equal(matched, value) else value


def _find_shape(value: Any) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None
