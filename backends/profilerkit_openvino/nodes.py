"""The facts of a node of OpenVINO's graph: dtypes, graphs inside it, constants, readers, inputs of recurrent ones."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from profilerkit.backend_kit.numpy_data import widen_bfloat16

__all__ = [
    "RECURRENT",
    "dtype_name",
    "is_made_of_constants",
    "list_inner",
    "read_bits",
    "read_constant",
    "read_consumers",
    "read_numbers",
]

#: Our names of element types, by OpenVINO's names, for the types that `dtype_name` has no rule for.
_NAMES = {
    "bf16": "bfloat16",
    "boolean": "bool",
    "dynamic": "",
    "f4e2m1": "float4_e2m1fn",
    "f8e4m3": "float8_e4m3fn",  # its largest number is 448, and 240 in float8_e4m3
    "f8e8m0": "float8_e8m0fnu",
    "nf4": "float4_nf4",
    "undefined": "",
}
_KINDS = {"f": "float", "i": "int", "u": "uint"}
#: Operators whose result differs from run to run, even if they read only constants.
_CHANGING = ("Multinomial", "RandomUniform", "ReadValue")


def dtype_name(element: Any) -> str:
    """Return the name of an element type as numpy has it: "float32" of "f32", "float8_e5m2" of "f8e5m2"."""
    name = str(element.get_type_name())
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(("f8", "f4")):
        return f"float{name[1]}_{name[2:]}"
    return _KINDS.get(name[0], name[0]) + name[1:]


def list_inner(node: Any) -> list[Any]:
    """Return the models inside a node: two of an ``If``, one of a loop, none of any other."""
    kind = node.get_type_name()
    if kind == "If":
        return [node.get_function(0), node.get_function(1)]
    return [node.get_function()] if kind in ("Loop", "TensorIterator") else []


def is_made_of_constants(node: Any, inputs_are_constant: Sequence[bool]) -> bool:
    """Return whether the outputs of a node follow from the file and from shapes alone, given this of each input."""
    kind = node.get_type_name()
    if kind in ("Constant", "ShapeOf"):
        return True
    return bool(inputs_are_constant) and all(inputs_are_constant) and kind not in _CHANGING and not list_inner(node)


def read_bits(constant: Any) -> Any:
    """Return the elements of a constant as OpenVINO holds them, for a comparison with others; None for texts.

    Those of dtypes that numpy lacks stand in an array of another dtype: bfloat16 in one of float16.
    """
    if dtype_name(constant.get_output_element_type(0)) == "string":
        return None
    try:
        return np.asarray(constant.data)
    except (RuntimeError, TypeError):
        return None


def read_constant(node: Any) -> Any:
    """Return the numbers of a constant, also of a converted or repeated constant.

    None for any other node, and for numbers that no array can hold.
    """
    while node.get_type_name() in ("Convert", "Broadcast"):
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant":
        return None
    bits = read_bits(node)
    return None if bits is None else read_numbers(bits, node.get_output_element_type(0))


def read_numbers(bits: Any, element: Any) -> Any:
    """Return the numbers of an element type in an array as OpenVINO returns it; None if no array can hold them.

    Those of bfloat16 and float8 are returned in float32; float8 needs ml_dtypes. Of less than a byte, several share it.
    """
    name = dtype_name(element)
    if name == "bfloat16":
        return widen_bfloat16(bits)
    if 0 < element.bitwidth < 8:
        return None
    if not name.startswith("float8"):
        return bits
    try:
        import ml_dtypes
    except ImportError:
        return None
    return bits.view(getattr(ml_dtypes, name)).astype(np.float32)


def read_consumers(node: Any, graph: Container[str]) -> list[Any]:
    """Return the inputs that read the outputs of a node, of the nodes whose names are in ``graph``.

    Nodes of another model may read them too: a model that was made from a part of another model shares its nodes.
    """
    targets = [target for output in node.outputs() for target in output.get_target_inputs()]
    return [target for target in targets if target.get_node().get_name() in graph]


class _RecurrentInputs(NamedTuple):
    """The positions of the inputs of a recurrent operator; the first is the sequence, or one step of it for a cell.

    Attributes:
        states: The states that it begins with.
        lengths: How long each sequence is; None for a cell, which takes one step.
        weights: The matrices of the input, of all directions and gates.
        recurrent_weights: The matrices of the state.
        biases: The biases, which are always there: zeros for a layer without biases.
        peepholes: The factors of an LSTM's cell state, which may be left out.
    """

    states: tuple[int, ...]
    lengths: int | None
    weights: int
    recurrent_weights: int
    biases: int
    peepholes: int


#: A sequence has the lengths behind the states, and the weights behind these.
RECURRENT: Mapping[str, _RecurrentInputs] = {
    "LSTMSequence": _RecurrentInputs(states=(1, 2), lengths=3, weights=4, recurrent_weights=5, biases=6, peepholes=7),
    **dict.fromkeys(
        ("GRUSequence", "RNNSequence"),
        _RecurrentInputs(states=(1,), lengths=2, weights=3, recurrent_weights=4, biases=5, peepholes=6),
    ),
    "LSTMCell": _RecurrentInputs(states=(1, 2), lengths=None, weights=3, recurrent_weights=4, biases=5, peepholes=6),
    **dict.fromkeys(
        ("GRUCell", "RNNCell"),
        _RecurrentInputs(states=(1,), lengths=None, weights=2, recurrent_weights=3, biases=4, peepholes=5),
    ),
}
