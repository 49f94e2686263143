"""The types of a node's outputs, by onnx's own inference, or by the rules for operators that it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from profilerkit.error_text import error_line

from ..model.nodes import name_node, name_operator
from .definitions import Definition, find_definition
from .runtime_shapes import infer_for_runtime
from .values import Array, UnfitError, Value

__all__ = ["infer"]

#: The most floats that may be a factor for each dimension, as of `Resize`: more than any tensor has dimensions.
_MOST_FACTORS = 64


def infer(
    node: NodeProto, inputs: Sequence[Value | None], definition: Definition | None, opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for an unknown type.

    Raises `UnfitError` if the inputs do not fit the operator.
    """
    if definition is None or not definition.schema.has_type_and_shape_inference_function:
        return infer_for_runtime(node, inputs)
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.input, inputs, strict=True):
        if value is None:
            continue
        if not value.is_typed:  # onnx would end the process
            return [None] * len(node.output)
        types[name] = value.type
        if value.array is not None and _tells_sizes(value.array):
            array = _as_number(value.array) if node.op_type == "Range" else value.array
            data[name] = numpy_helper.from_array(array, name)
    try:
        outputs = _infer_by_standard(node, types, data, definition, opsets)
    except (InferenceError, ValidationError) as error:
        shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
        raise UnfitError(
            f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
            f"of the shapes {shapes}: {error_line(error)}"
        ) from None
    return list(map(outputs.get, node.output))


def _infer_by_standard(
    node: NodeProto,
    types: dict[str, TypeProto],
    data: dict[str, TensorProto],
    definition: Definition,
    opsets: Mapping[str, int],
) -> dict[str, TypeProto]:
    """Return the types of a node's outputs by name, from the types of its inputs and some of their elements."""
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    if definition.defaults:  # onnx's inference has another default for STFT's `onesided`
        node = _add_defaults(node, definition.defaults)
    try:
        return infer_node_outputs(definition.schema, node, types, data, opset_imports=imports)
    except ValidationError:  # exporters leave inputs out before the standard lets them: Resize in version 11
        newest = find_definition(node, {}) or definition
        imports = [helper.make_opsetid("", defs.onnx_opset_version())]
        return infer_node_outputs(newest.schema, node, types, data, opset_imports=imports)


def _add_defaults(node: NodeProto, defaults: Sequence[AttributeProto]) -> NodeProto:
    """Return a node with the attributes that it lacks."""
    names = {attribute.name for attribute in node.attribute}
    copy = deepcopy(node)
    copy.attribute.extend([default for default in defaults if default.name not in names])
    return copy


def _as_number(array: Array) -> Array:
    """Return a single element without dimensions: runtimes accept ``(1,)`` too, as in the standard's AffineGrid."""
    return array.reshape(()) if array.size == 1 else array


def _tells_sizes(array: Array) -> bool:
    """Return whether the elements of an input may tell sizes of outputs: a row of integers, or of factors."""
    return array.ndim <= 1 and (array.dtype.kind in "iub" or array.size <= _MOST_FACTORS)
