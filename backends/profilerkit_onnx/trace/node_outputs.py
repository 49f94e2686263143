"""What a node makes: the types of its outputs, and their elements where they are known before the model runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from onnx import FunctionProto, NodeProto, TypeProto

from ..costs import is_known
from ..model.nodes import name_operator
from ..model.types import STANDARD, read_dims, tensor_type
from .definitions import find_definition, infer
from .folding import fold, is_random, is_shape_operator, read_array
from .values import Array, Value

__all__ = ["Declarations", "make_outputs"]


class Declarations(NamedTuple):
    """What a file says of its operators and values; inside of a function, what that says.

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
    node: NodeProto, inputs: Sequence[Value | None], declared: Declarations, numbers: Iterator[int]
) -> list[Value]:
    """Return the outputs of a node, with numbers of their own; raise `UnfitError` for inputs that do not fit it."""
    if node.op_type == "Constant" and node.domain in STANDARD:
        return [_make_constant(node, declared.opsets, next(numbers))]
    types = infer(node, inputs, declared.opsets)
    arrays = fold(node, inputs, types, declared.opsets)
    values = list(filter(None, inputs))
    is_stored = bool(values) and all(value.is_stored for value in values) and _always_makes_same(node, inputs, declared)
    is_constant = is_stored and all(value.constant for value in values)
    from_inputs = any(value.from_inputs for value in values) and not is_shape_operator(node)
    outputs = []
    for name, inferred, array in zip(node.output, types, arrays, strict=True):
        kind = _choose_type(declared, name, inferred, array)
        constant = is_constant or (array is not None and not from_inputs)
        outputs.append(Value(next(numbers), kind, constant, array, from_inputs, is_stored))
    return outputs


def _always_makes_same(node: NodeProto, inputs: Sequence[Value | None], declared: Declarations) -> bool:
    """Return whether a node makes the same of the same inputs in every run. One that nobody knows may be random."""
    is_defined = find_definition(node, declared.opsets) is not None or is_known(name_operator(node))
    return is_defined and not is_random(node, inputs)


def _choose_type(declarations: Declarations, name: str, inferred: TypeProto | None, array: Array | None) -> TypeProto:
    """Return the type of an output.

    The file may declare sizes that onnx's inference leaves open, and types of operators that it does not know. Where
    sizes are open in both, those of the inference count: they follow from the inputs of this call.
    """
    if inferred is not None and array is not None:
        return tensor_type(inferred.tensor_type.elem_type, array.shape)
    if inferred is not None and _is_settled(inferred):
        return inferred
    declared = declarations.types.get(name)
    if declared is not None:
        declared = _bind_sizes(declared, declarations.sizes)
        if inferred is None or _is_settled(declared):
            return declared
    return inferred or TypeProto()


def _is_settled(kind: TypeProto) -> bool:
    """Return whether a type leaves no size open; one of a sequence or a map has none."""
    if kind.WhichOneof("value") not in (None, "tensor_type"):
        return True
    dims = read_dims(kind)
    return dims is not None and all(isinstance(dim, int) for dim in dims)


def _bind_sizes(declared: TypeProto, sizes: Mapping[str, int]) -> TypeProto:
    """Return a declared type with the sizes that the inputs bind in the place of their names."""
    dims = read_dims(declared)
    if dims is None:
        return declared
    bound = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
    return tensor_type(declared.tensor_type.elem_type, bound)


def _make_constant(node: NodeProto, opsets: Mapping[str, int], number: int) -> Value:
    """Return the value of a ``Constant`` node, without its elements where these are many."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            tensor = attribute.t
            return Value(number, tensor_type(tensor.data_type, tensor.dims), constant=True, array=read_array(tensor))
    [kind] = infer(node, [], opsets)
    [array] = fold(node, [], [kind], opsets)
    return Value(number, kind or TypeProto(), constant=True, array=array)
