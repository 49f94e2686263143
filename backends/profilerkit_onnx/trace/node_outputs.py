"""The outputs of a node: their types, and their elements if they are known before the model runs.

The types are inferred by onnx itself, or by the rules for operators that onnx does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from profilerkit.backend_kit.failures import UnfitError
from profilerkit.error_text import error_line

from ..costs import is_known
from ..model.nodes import name_node, name_operator
from ..model.types import STANDARD, read_dims, tensor_type
from .definitions import Definition, find_definition
from .folding import fold, is_random, is_shape_operator, read_array
from .runtime_shapes import infer_for_runtime
from .values import Array, Value

__all__ = ["Declarations", "make_outputs"]

#: The most floats that may be a factor for each dimension, as of `Resize`: more than any tensor has dimensions.
_MOST_FACTORS = 64


class Declarations(NamedTuple):
    """The declarations of a file about its operators and values; inside of a function, the function's declarations.

    Attributes:
        opsets: The version of each operator set.
        types: The types of values, for operators that onnx's inference does not know.
        sizes: The open sizes that the inputs bind.
        functions: The functions that the model defines itself, by domain, name and overload.
    """

    opsets: Mapping[str, int]
    types: Mapping[str, TypeProto]
    sizes: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], FunctionProto]


def make_outputs(
    node: NodeProto,
    inputs: Sequence[Value | None],
    definition: Definition | None,
    declared: Declarations,
    numbers: Iterator[int],
) -> list[Value]:
    """Return the outputs of a node, with numbers of their own; raise `UnfitError` for inputs that do not fit it."""
    if node.op_type == "Constant" and node.domain in STANDARD:
        return [_make_constant(node, definition, declared.opsets, next(numbers))]
    read = [value for value in inputs if value is not None]
    is_defined = definition is not None or is_known(name_operator(node))  # an unknown operator may be random
    is_constant = is_defined and bool(read) and all(value.constant for value in read) and not is_random(node, inputs)
    from_inputs = not is_shape_operator(node) and any(value.from_inputs for value in read)
    types = _infer(node, inputs, definition, declared.opsets)
    arrays = fold(node, inputs, types, declared.opsets)
    outputs = []
    for name, kind, array in zip(node.output, types, arrays, strict=True):
        if kind is not None and array is not None:
            kind = tensor_type(kind.tensor_type.elem_type, array.shape)
        is_known_before = is_constant or (array is not None and not from_inputs)
        value = Value(next(numbers), kind or TypeProto(), is_known_before, array)
        outputs.append(_complete(value, declared, name) if value.shape is None and name in declared.types else value)
    return outputs


def _complete(value: Value, declared: Declarations, name: str) -> Value:
    """Return a value of unknown shape with the type that the file declares for it, if that tells more.

    The file may tell sizes that onnx's inference leaves open, and types of operators that it does not know. If both
    leave a size open, the inference counts: it follows from the inputs of this call.
    """
    as_declared = replace(value, type=_bind_sizes(declared.types[name], declared.sizes))
    return as_declared if not value.is_typed or as_declared.shape is not None else value


def _bind_sizes(declared: TypeProto, sizes: Mapping[str, int]) -> TypeProto:
    """Return a declared type with the sizes that the inputs bind in the place of their names."""
    dims = read_dims(declared)
    if dims is None:
        return declared
    bound = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
    return tensor_type(declared.tensor_type.elem_type, bound)


def _make_constant(node: NodeProto, definition: Definition | None, opsets: Mapping[str, int], number: int) -> Value:
    """Return the value of a ``Constant`` node, without its elements where these are many."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            return Value(number, tensor_type(tensor.data_type, tensor.dims), constant=True, array=read_array(tensor))
    [kind] = _infer(node, [], definition, opsets)
    [array] = fold(node, [], [kind], opsets)
    return Value(number, kind or TypeProto(), constant=True, array=array)


# Types ----------------------------------------------------------------------------------------------------------------


def _infer(
    node: NodeProto, inputs: Sequence[Value | None], definition: Definition | None, opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs; None for an unknown type.

    Raises `UnfitError` if the inputs do not fit the operator.
    """
    try:
        if definition is None or not definition.schema.has_type_and_shape_inference_function:
            return infer_for_runtime(node, inputs)
        return _infer_by_definition(node, inputs, definition, opsets)
    except (InferenceError, ValidationError) as error:
        shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
        raise UnfitError(
            f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
            f"of the shapes {shapes}: {error_line(error)}"
        ) from None


def _infer_by_definition(
    node: NodeProto, inputs: Sequence[Value | None], definition: Definition, opsets: Mapping[str, int]
) -> list[TypeProto | None]:
    """Return the types of a node's outputs as onnx infers them; None for an unknown type."""
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for name, value in zip(node.input, inputs, strict=True):
        if value is None:
            continue
        if not value.is_typed:  # onnx would end the process
            return [None] * len(node.output)
        types[name] = value.type
        if value.array is not None and _tells_sizes(value.array):
            # Runtimes accept a number of the shape (1,) for Range too, as in the standard's AffineGrid.
            is_number = node.op_type == "Range" and value.array.size == 1
            data[name] = numpy_helper.from_array(value.array.reshape(()) if is_number else value.array, name)
    outputs = _infer_by_standard(node, types, data, definition, opsets)
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


def _tells_sizes(array: Array) -> bool:
    """Return whether the elements of an input may tell sizes of outputs: a row of integers, or of factors."""
    return array.ndim <= 1 and (array.dtype.kind in "iub" or array.size <= _MOST_FACTORS)
