"""The zeros among the elements of a model's weights."""

from __future__ import annotations

from onnx import ModelProto

from ..model.constants import list_constants
from ..model.exported_module import ExportedModule
from ..model.model_file import open_values
from ..model.weights import list_weights

__all__ = ["zero_weights"]


def zero_weights(model: ModelProto) -> tuple[int, int]:
    """Return how many elements of the floating-point parameters are zero, and how many there are.

    The values are read one tensor after another, and none is kept. Raises the errors of `open_values`.
    """
    constants = list_constants(model, [""] * len(model.graph.node))  # in which layer does not matter
    weights = list_weights(ExportedModule(model, constants), constants)
    parameters = {int(weight.record.identity): weight.record.dtype for weight in weights if weight.is_parameter}
    zeros = total = 0
    with open_values(model) as read:
        for identity, dtype in parameters.items():
            if dtype.startswith(("float", "bfloat")):
                array = read(constants[identity].values)
                zeros += int((array == array.dtype.type(0)).sum())
                total += constants[identity].shape.numel
    return zeros, total
