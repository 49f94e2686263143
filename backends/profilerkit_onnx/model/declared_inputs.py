"""The inputs that a model declares, and the facts that a call adds: the open sizes and the number of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.numpy_data import Declared, bind_inputs

from .types import dtype_name, read_dims

__all__ = ["count_samples", "list_declared", "name_sizes"]


def list_declared(model: ModelProto) -> list[Declared]:
    """Return the required inputs of a call: the inputs of the graph without an initializer as a default value."""
    with_default = {tensor.name for tensor in model.graph.initializer}
    with_default |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    declared = []
    for value in model.graph.input:
        if value.name not in with_default:
            is_tensor = value.type.WhichOneof("value") == "tensor_type"
            dtype = dtype_name(value.type.tensor_type.elem_type) if is_tensor else None
            declared.append(Declared(value.name, read_dims(value.type), dtype))
    return declared


def name_sizes(declared: Sequence[Declared], bound: Mapping[str, Any]) -> dict[str, int]:
    """Return the open sizes of a model by name: {"batch": 8} for a tensor of 8 x 10 declared as ("batch", 10).

    Raises `InputError` if two inputs have different sizes under one name.
    """
    sizes: dict[str, int] = {}
    sources: dict[str, str] = {}  # the input that each size is from
    for value in declared:
        shape = getattr(bound[value.name], "shape", ())
        for dim, size in zip(value.dims or (), shape, strict=False):
            if not isinstance(dim, str):
                continue
            if sizes.setdefault(dim, int(size)) != size:
                raise InputError(
                    f"the size {dim!r} is {sizes[dim]} in the input {sources[dim]!r} and {size} in {value.name!r}; "
                    "give inputs that agree"
                )
            sources.setdefault(dim, value.name)
    return sizes


def count_samples(model: ModelProto, inputs: ModelInputs) -> int | None:
    """Return the samples of a call whose first recurrent operator reads an input directly; None for other models.

    Their batch may be the second dimension: time is first, unless the operator's ``layout`` is 1.
    """
    recurrent = next((node for node in model.graph.node if node.op_type in ("GRU", "LSTM", "RNN")), None)
    if recurrent is None:
        return None
    declared = list_declared(model)
    sequence = recurrent.input[0]
    if not any(value.name == sequence for value in declared):
        return None
    try:
        shape = bind_inputs(declared, inputs)[sequence].shape
    except InputError:  # the trace says why
        return None
    if len(shape) != 3:
        return None
    is_batch_first = any(attribute.name == "layout" and attribute.i for attribute in recurrent.attribute)
    return int(shape[0 if is_batch_first else 1])
