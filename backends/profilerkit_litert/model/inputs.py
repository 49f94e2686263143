"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

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
    """Return the inputs with their channels moved to the end where the model declares them so."""
    if inputs.function is not None or inputs.kwargs:
        return inputs
    graph = model.graphs[model.signature.graph]
    shapes = [graph.tensors[index].shape or () for index in model.signature.inputs.values()]
    args = in_declared_layout(inputs.args, shapes, _find_shape, np.transpose)
    return inputs if args is inputs.args else ModelInputs(*args)


def _find_shape(value: Any) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None
