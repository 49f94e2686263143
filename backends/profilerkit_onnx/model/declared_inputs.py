"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto, ValueInfoProto

from profilerkit import InputError, ModelInputs
from profilerkit.backend_kit import numpy_data

from .types import dtype_name, read_dims

__all__ = ["bind_inputs", "bind_sizes", "count_samples", "graph_inputs", "list_declared"]


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that a call has to give: initializers may stand among a graph's inputs, as default values."""
    supplied = {tensor.name for tensor in model.graph.initializer}
    supplied.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    return [value for value in model.graph.input if value.name not in supplied]


def list_declared(model: ModelProto) -> list[numpy_data.Declared]:
    """Return the inputs that a model declares."""
    return [_declare(value) for value in graph_inputs(model)]


def _declare(value: ValueInfoProto) -> numpy_data.Declared:
    if value.type.WhichOneof("value") != "tensor_type":
        return numpy_data.Declared(value.name, None, None)
    return numpy_data.Declared(value.name, read_dims(value.type), dtype_name(value.type.tensor_type.elem_type))


def bind_inputs(model: ModelProto, inputs: ModelInputs) -> dict[str, Any]:
    """Return the tensors of a call by the names of the graph's inputs: positional ones in order, the others by name.

    Raises `InputError` for a number, a name, a shape or a dtype that the model does not declare.
    """
    return numpy_data.bind_inputs(list_declared(model), inputs)


def bind_sizes(model: ModelProto, bound: Mapping[str, Any]) -> dict[str, int]:
    """Return the open sizes of a model by name, as the shapes of a call's tensors tell them.

    Raises `InputError` where two inputs tell different sizes.
    """
    return numpy_data.name_sizes(list_declared(model), bound)


def count_samples(model: ModelProto, inputs: ModelInputs) -> int | None:
    """Return the samples that a recurrent operator takes directly from the inputs; None if there is no such operator.

    Its input has time first, unless its ``layout`` is 1. All other operators take batches along the first dimension.
    """
    first = next((node for node in model.graph.node if node.op_type in ("GRU", "LSTM", "RNN")), None)
    if first is None or not any(value.name == first.input[0] for value in graph_inputs(model)):
        return None
    try:
        shape = bind_inputs(model, inputs)[first.input[0]].shape
    except InputError:  # the trace says why
        return None
    layout = next((attribute.i for attribute in first.attribute if attribute.name == "layout"), 0)
    return int(shape[0 if layout else 1]) if len(shape) == 3 else None
