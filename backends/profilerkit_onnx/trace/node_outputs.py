"""What a node makes: the types of its outputs, and their elements where they are known before the model runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onnx import NodeProto, TypeProto
from onnx.shape_inference import InferenceError

from profilerkit.costs import Shape

from ..model.types import read_shape, tensor_type
from .folding import fold, is_of_shape, read_array
from .inference import find_schema, infer
from .pricing import name_node, name_operator
from .values import Array, UnfitError, Value

__all__ = ["Declarations", "NodeOutputs", "make_outputs"]


class Declarations(NamedTuple):
    """What a file says of its operators and values; inside of a function, what that says.

    Attributes:
        opsets: The version of each operator set.
        types: The types of values, for operators that onnx's inference does not know.
        sizes: The open sizes that the inputs bind.
    """

    opsets: Mapping[str, int]
    types: Mapping[str, TypeProto]
    sizes: Mapping[str, int]


class NodeOutputs(NamedTuple):
    """The outputs of a node, and whether no type of theirs depends on what the file declares of a value by its name."""

    values: list[Value]
    are_inferred: bool


def make_outputs(
    node: NodeProto, inputs: Sequence[Value | None], declared: Declarations, numbers: Iterator[int]
) -> NodeOutputs:
    """Return the outputs of a node, with numbers of their own; raise `UnfitError` for inputs that do not fit it."""
    if node.op_type == "Constant" and not node.domain:
        return NodeOutputs([_make_constant(node, declared.opsets, next(numbers))], are_inferred=False)
    types = _infer_types(node, inputs, declared.opsets)
    arrays = fold(node, inputs, declared.opsets)
    values = [value for value in inputs if value is not None]
    is_constant = bool(values) and all(value.constant for value in values)
    from_inputs = not is_of_shape(node) and any(value.from_inputs for value in values)
    outputs = []
    for name, kind, array in zip(node.output, types, arrays, strict=True):
        is_known_before = array is not None and not from_inputs
        type_of_output = _choose_type(declared, name, kind, array)
        outputs.append(Value(next(numbers), type_of_output, is_constant or is_known_before, array, from_inputs))
    return NodeOutputs(outputs, all(map(_is_inferred, outputs, types)))


def _infer_types(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[TypeProto | None]:
    """Return the types that follow from those of the inputs; None for one that does not."""
    try:
        return infer(node, find_schema(node, opsets), inputs, opsets)
    except InferenceError as error:
        shapes = ", ".join("-" if value is None else str(value.info.shape) for value in inputs)
        words = " ".join(str(error).split())
        raise UnfitError(
            f"the operator {name_operator(node)} of the node {name_node(node)!r} does not fit inputs "
            f"of the shapes {shapes}: {words}"
        ) from None


def _choose_type(declarations: Declarations, name: str, inferred: TypeProto | None, array: Array | None) -> TypeProto:
    """Return the type of an output: as inferred, else as the file declares it; an empty one where neither tells."""
    declared = declarations.types.get(name)
    if inferred is None:
        return _bind_sizes(declared, declarations.sizes) or declared or TypeProto()
    if inferred.WhichOneof("value") not in (None, "tensor_type"):  # a sequence, a map: it has no shape
        return inferred
    if array is not None:
        return tensor_type(inferred.tensor_type.elem_type, array.shape)
    if read_shape(inferred, {}) is not None:
        return inferred
    return _bind_sizes(declared, declarations.sizes) or inferred


def _bind_sizes(declared: TypeProto | None, sizes: Mapping[str, int]) -> TypeProto | None:
    """Return a declared type with the sizes that the inputs bind; None where that leaves a size open."""
    shape = None if declared is None else read_shape(declared, sizes)
    return None if declared is None or shape is None else tensor_type(declared.tensor_type.elem_type, shape)


def _is_inferred(value: Value, kind: TypeProto | None) -> bool:
    """Return whether a value has the type that was inferred for it, and no declaration could tell more of it."""
    if kind is None or kind.WhichOneof("value") is None:
        return False
    return value.array is not None or (value.type is kind and (not value.is_tensor or value.shape is not None))


def _make_constant(node: NodeProto, opsets: Mapping[str, int], number: int) -> Value:
    """Return the value of a ``Constant`` node, without its elements where these are many."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            array = read_array(tensor)
            return Value.of(number, tensor.data_type, Shape(tensor.dims), constant=True, array=array)
    [array] = fold(node, [], opsets)
    [kind] = infer(node, find_schema(node, opsets), [], opsets)
    return Value(number, kind or TypeProto(), constant=True, array=array)
