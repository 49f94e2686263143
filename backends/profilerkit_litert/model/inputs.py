"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

from typing import Any

from profilerkit import ModelInputs
from profilerkit.backend_kit import numpy_data
from profilerkit.declared_inputs import DeclaredInput

from .reading import LiteRTModel, Tensor

__all__ = ["bind_inputs", "read_declared_inputs"]


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


def _list_inputs(model: LiteRTModel) -> dict[str, Tensor]:
    tensors = model.graphs[model.signature.graph].tensors
    return {name: tensors[index] for name, index in model.signature.inputs.items()}
