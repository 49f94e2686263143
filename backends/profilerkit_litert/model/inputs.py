"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

from typing import Any

import numpy as np

from profilerkit import ModelInputs
from profilerkit.backend_kit import numpy_data
from profilerkit.backend_kit.layouts import in_declared_layout
from profilerkit.declared_inputs import DeclaredInput

from .reading import LiteRTModel, Tensor

__all__ = ["bind_inputs", "fit_inputs", "read_declared_inputs"]


def read_declared_inputs(model: LiteRTModel) -> ModelInputs | None:
    """Return the call that a signature declares, by the names of its inputs; None for a model without inputs."""
    tensors = _list_inputs(model)
    declared = {name: DeclaredInput(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
    return ModelInputs(**declared) if declared else None


def bind_inputs(model: LiteRTModel, inputs: ModelInputs) -> dict[str, Any]:
    """Return the tensors of a call by the names of the inputs: positional ones in order, the others by name.

    Raises `InputError` for a number, a name, a shape or a dtype that the model does not declare.
    """
    tensors = _list_inputs(model)
    declared = [numpy_data.Declared(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()]
    return numpy_data.bind_inputs(declared, inputs)


def fit_inputs(model: LiteRTModel, inputs: ModelInputs) -> ModelInputs:
    """Return the inputs with their channels moved to the end where the model declares them so."""
    shapes = [tensor.shape or () for tensor in _list_inputs(model).values()]
    if inputs.function is not None or inputs.kwargs:
        return inputs
    args = in_declared_layout(inputs.args, shapes, _find_shape, np.transpose)
    return inputs if args is inputs.args else ModelInputs(*args)


def _find_shape(value: Any) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, np.ndarray) else None


def _list_inputs(model: LiteRTModel) -> dict[str, Tensor]:
    tensors = model.graphs[model.signature.graph].tensors
    return {name: tensors[index] for name, index in model.signature.inputs.items()}
