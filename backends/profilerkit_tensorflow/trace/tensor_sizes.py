"""Sizes that the bytes alive do not tell: those of constants, and tensors whose size is not known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .kernel_memory import find_shared_input, is_too_small
from .tensor_facts import Tensor
from .values import Executed

__all__ = ["count_constant_bytes", "find_unsized_tensors"]


def count_constant_bytes(operators: Iterable[Executed]) -> int:
    """Return the bytes of the constants in a graph, which holds them as long as it is there."""
    constants = [operator for operator in operators if operator.type == "Const"]
    return sum(output.bytes for constant in constants for output in constant.outputs)


def find_unsized_tensors(operators: Iterable[Executed], inputs: Iterable[Tensor] = ()) -> dict[str, int]:
    """Return the operators that make tensors of unknown size, with their calls; those of the caller are ``input``.

    What shares an input's buffer takes none of its own.
    """
    tensors = {tensor.number: tensor for tensor in inputs}
    unsized = Counter("input" for tensor in tensors.values() if tensor.is_unsized)
    for operator in operators:
        sources = [tensors.get(number) for number in operator.inputs]
        makes_unsized = any(
            output.is_unsized
            and not is_too_small(operator.type, index)
            and find_shared_input(operator.type, index, sources, output) is None
            for index, output in enumerate(operator.outputs)
        )
        if makes_unsized:
            unsized[operator.type] += operator.times
        tensors.update((output.number, output) for output in operator.outputs)
    return dict(unsized)
