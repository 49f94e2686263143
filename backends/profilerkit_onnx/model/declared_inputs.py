"""What a model declares of its inputs, and what a call tells of that: open sizes, samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit.numpy_data import Declared, bind_inputs

from .types import dtype_name, read_dims

__all__ = ["count_samples", "list_declared", "name_sizes"]


def list_declared(model: ModelProto) -> list[Declared]:
    """Return the inputs that a call has to give: initializers may stand among a graph's inputs, as default values."""
    supplied = {tensor.name for tensor in model.graph.initializer}
    supplied.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    declared = []
    for value in model.graph.input:
        if value.name in supplied:
            continue
        is_tensor = value.type.WhichOneof("value") == "tensor_type"
        dtype = dtype_name(value.type.tensor_type.elem_type) if is_tensor else None
        declared.append(Declared(value.name, read_dims(value.type), dtype))
    return declared


def name_sizes(declared: Sequence[Declared], bound: Mapping[str, Any]) -> dict[str, int]:
    """Return the open sizes of a model by name, as the shapes of a call's tensors tell them.

    Raises `InputError` where two inputs tell different sizes.
    """
    sizes: dict[str, int] = {}
    tellers: dict[str, str] = {}  # the input that has told each size
    for value in declared:
        for dim, size in zip(value.dims or (), getattr(bound[value.name], "shape", ()), strict=False):
            if not isinstance(dim, str):
                continue
            if dim not in sizes:
                sizes[dim], tellers[dim] = int(size), value.name
            elif sizes[dim] != size:
                raise InputError(
                    f"the size {dim!r} is {sizes[dim]} in the input {tellers[dim]!r} and {size} in {value.name!r}; "
                    "give inputs that agree"
                )
    return sizes


def count_samples(model: ModelProto, inputs: ModelInputs) -> int | None:
    """Return the samples that a recurrent operator takes directly from the inputs; None if there is no such operator.

    Its input has time first, unless its ``layout`` is 1. All other operators take batches along the first dimension.
    """
    first = next((node for node in model.graph.node if node.op_type in ("GRU", "LSTM", "RNN")), None)
    declared = [] if first is None else list_declared(model)
    if first is None or not any(value.name == first.input[0] for value in declared):
        return None
    try:
        shape = bind_inputs(declared, inputs)[first.input[0]].shape
    except InputError:  # the trace says why
        return None
    layout = next((attribute.i for attribute in first.attribute if attribute.name == "layout"), 0)
    return int(shape[0 if layout else 1]) if len(shape) == 3 else None
