"""What a model declares of its inputs, and the inputs of a call held against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import ModelProto, TypeProto, ValueInfoProto

from profilerkit import InputError, ModelInputs
from profilerkit.declared_inputs import DeclaredInput
from profilerkit.error_text import shown

from .types import dtype_name, read_dims

__all__ = ["bind_inputs", "bind_sizes", "count_samples", "graph_inputs", "read_declared_inputs"]


def graph_inputs(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs that a call has to give: initializers may stand among a graph's inputs, as default values."""
    supplied = {tensor.name for tensor in model.graph.initializer}
    supplied.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    return [value for value in model.graph.input if value.name not in supplied]


def read_declared_inputs(model: ModelProto) -> ModelInputs | None:
    """Return the call that a model declares, by the names of its inputs; None where one of them is no tensor."""
    inputs = graph_inputs(model)
    if not inputs or any(value.type.WhichOneof("value") != "tensor_type" for value in inputs):
        return None
    return ModelInputs(**{value.name: _read_declared(value) for value in inputs})


def _read_declared(value: ValueInfoProto) -> DeclaredInput:
    dims = read_dims(value.type)
    shape = None if dims is None else tuple(dim if isinstance(dim, int) else None for dim in dims)
    return DeclaredInput(value.name, shape, dtype_name(value.type.tensor_type.elem_type))


def bind_inputs(model: ModelProto, inputs: ModelInputs) -> dict[str, Any]:
    """Return the tensors of a call by the names of the graph's inputs: positional ones in order, the others by name.

    Raises `InputError` for a number, a name, a shape or a dtype that the model does not declare.
    """
    declared = graph_inputs(model)
    names = [value.name for value in declared]
    supplied = list(ModelInputs(*inputs.args).leaves())
    unknown = sorted(set(inputs.kwargs) - set(names))
    if unknown or len(supplied) > len(names):
        surplus = f"no input {unknown[0]!r}" if unknown else f"{len(names)} inputs, and {len(supplied)} were given"
        raise InputError(f"the model declares {surplus}; its inputs are: {', '.join(map(repr, names)) or 'none'}")
    bound = {**dict(zip(names, supplied, strict=False)), **inputs.kwargs}
    missing = [name for name in names if name not in bound]
    if missing:
        raise InputError(
            f"the input {missing[0]!r} is missing; the model declares the inputs: {', '.join(map(repr, names))}"
        )
    for value in declared:
        _require_fitting(value, bound[value.name])
    return bound


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


def _require_fitting(value: ValueInfoProto, tensor: Any) -> None:
    """Raise `InputError` for a tensor that is not of the shape and dtype that an input declares."""
    if value.type.WhichOneof("value") != "tensor_type":
        return
    if not hasattr(tensor, "shape") or not hasattr(tensor, "dtype"):
        raise InputError(f"the input {value.name!r} is {shown(tensor)}; give an array for it")
    dims, shape = read_dims(value.type), tuple(tensor.shape)
    fits = dims is None or (
        len(dims) == len(shape)
        and all(dim == size for dim, size in zip(dims, shape, strict=True) if isinstance(dim, int))
    )
    if not fits:
        raise InputError(
            f"the input {value.name!r} has the shape {shape}, and the model declares {_write_dims(dims or ())}; give "
            "an array of that shape"
        )
    element = dtype_name(value.type.tensor_type.elem_type)
    if element != "string" and str(tensor.dtype) != element:
        raise InputError(
            f"the input {value.name!r} is of {tensor.dtype}, and the model declares {element}; convert it first"
        )


def _write_dims(dims: Iterable[int | str | None]) -> str:
    return f"({', '.join('any' if dim is None else str(dim) for dim in dims)})"


def bind_sizes(declared: Iterable[ValueInfoProto], bound: Mapping[str, Any]) -> dict[str, int]:
    """Return the open sizes of a model by name, as the shapes of a call's tensors tell them.

    Raises `InputError` where two inputs tell different sizes.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for value in declared:
        declared_type: TypeProto = value.type
        for dim, size in zip(read_dims(declared_type) or (), getattr(bound[value.name], "shape", ()), strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, int(size)) != size:
                raise InputError(
                    f"the size {dim!r} is {sizes[dim]} in the input {origin[dim]!r} and {size} in {value.name!r}; "
                    "give inputs that agree"
                )
            if isinstance(dim, str):
                origin.setdefault(dim, value.name)
    return sizes
