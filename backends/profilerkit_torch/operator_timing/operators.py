"""Operators as torch's profiler names them: their names, and whether they do any arithmetic."""

from __future__ import annotations

from functools import cache

import torch

from ..compat.operators import OpOverloadPacket, has_kernel
from ..costs import Kind, classify

__all__ = ["find_profiled_name", "is_free"]


def find_profiled_name(traced: str) -> str:
    """Return the profiler's name of an operator of the static trace.

    >>> find_profiled_name("aten.mm.default"), find_profiled_name("aten::mm"), find_profiled_name("flex_attention")
    ('aten::mm', 'aten::mm', 'flex_attention')
    """
    if "::" in traced or "." not in traced:
        return traced
    space, operator, *_ = traced.split(".")
    return f"{space}::{operator}"


@cache
def is_free(name: str) -> bool:
    """Return whether no overload of an operator does any arithmetic; False for an operator that torch does not know.

    An overload that is composed of other operators is ignored: the profiler records these operators too.
    """
    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space, None), operator, None) if operator else None
    if not isinstance(packet, OpOverloadPacket):
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    # Overloads for TorchScript alone have no kernel.
    kinds = {classify(overload) for overload in overloads if has_kernel(overload.name())} - {Kind.COMPOSITE}
    return bool(kinds) and kinds <= {Kind.FREE, Kind.VIEW}
