"""What a program is called with: the shapes and bytes of its inputs, and of what its function holds."""

from __future__ import annotations

from typing import Any, NamedTuple

from .folding import Folding
from .program import Program, ProgramInput
from .values import Value, count_tensor_bytes, static_shape

__all__ = ["Argument", "list_arguments"]

#: The most bytes of a captured tensor whose numbers are read: a larger one limits no loop.
_MOST_BYTES_READ = 64


class Argument(NamedTuple):
    """What one input of a program's graph gets.

    Attributes:
        value: Its value, of the shape that it has in the call. Each part of a sparse or ragged tensor is an argument:
            a sparse one of 1000 x 1000 that stores 5 values has values of shape (5,) and indices of shape (5, 2).
        bytes: The bytes of the value.
        is_captured: Whether the function holds it, and the caller does not give it.
    """

    value: Value
    bytes: int
    is_captured: bool


def list_arguments(program: Program, folding: Folding) -> list[Argument]:
    """Return the arguments of a call of a program, in the order of its graph's inputs; ``folding`` makes the values."""
    arguments = []
    captures = {placeholder.name: tensor for tensor, placeholder in program.graph.captures}
    inputs = iter(program.inputs)  # in the order of the placeholders
    for placeholder in program.graph.inputs:
        is_captured = placeholder.name in captures
        source = _describe_captured(captures[placeholder.name], placeholder) if is_captured else next(inputs)
        value = folding.new_value(source.shape, placeholder.dtype.name, placeholder)
        if is_captured:
            value.constant = source.numbers  # the same in each call
        else:  # what they decide holds for this call alone
            folding.give_input(value, source.numbers)
        arguments.append(Argument(value, count_tensor_bytes(value.shape, value.dtype), is_captured))
    return arguments


def _describe_captured(tensor: Any, placeholder: Any) -> ProgramInput:
    """Return shape and numbers of a tensor that a function holds: a small one may limit a loop."""
    shape = static_shape(placeholder)
    size = count_tensor_bytes(shape, placeholder.dtype.name)  # 0 where it is not known
    is_readable = 0 < size <= _MOST_BYTES_READ and hasattr(tensor, "numpy")  # a tensor of an outer graph has no numbers
    return ProgramInput(shape, tensor.numpy() if is_readable else None)
