"""The real part of ``x * conj(x)``: JAX spells the square of a size so in variances and norms of complex numbers.

XLA computes the real part alone, ``a * a + b * b``, and so the convention counts it in every framework.
"""

from __future__ import annotations

from collections.abc import Sequence

from profilerkit.costs import Cost, Numbers, constants, counted

from .values import Executed, Value

__all__ = ["follow_conjugates"]


def follow_conjugates(name: str, inputs: Sequence[Value], outputs: Sequence[Value], executed: Executed) -> None:
    """Note of the outputs of an equation what they are of a conjugate, and count the square of a size as one."""
    if name == "conj":
        outputs[0].conjugate_of = inputs[0].number
    elif name == "mul" and _are_conjugates(*inputs):
        outputs[0].square = executed
    elif name == "real" and inputs[0].square is not None:
        elements = outputs[0].shape.numel
        inputs[0].square.flops = counted(lambda: Cost(0, constants.SIZE_POWER * elements), Numbers.COMPLEX).flops


def _are_conjugates(one: Value, other: Value) -> bool:
    return one.conjugate_of == other.number or other.conjugate_of == one.number
