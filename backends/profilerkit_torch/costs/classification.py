"""How the cost of an operator is found: from its formula, or from torch's tags.

Views and copies cost nothing, element-wise operators one operation for each output element, reductions one for each
input element. Whatever is left is reported as not counted, never as zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import torch

from ..compat import OpOverloadPacket, is_composite, schema_of, tag
from .registry import COSTS, find_formula, is_free
from .untagged import POINTWISE, REDUCTIONS

__all__ = ["Kind", "classify", "schema_name"]


class Kind(Enum):
    """How the cost of an operator is found."""

    FORMULA = "formula"
    VIEW = "view"
    FREE = "free"
    POINTWISE = "pointwise"
    REDUCTION = "reduction"
    #: Made of other operators, which are recorded instead.
    COMPOSITE = "composite"
    UNKNOWN = "unknown"


class _Kinds(dict[Any, Kind]):
    """The kinds of operators that were found out, and the version of the formulas that they were found out with."""

    version: object = None


_kinds = _Kinds()

#: Operators that return their input where nothing is to be done, and sums of its elements elsewhere.
_VIEWS_ONLY_AT_TIMES = ("aten::coalesce",)
#: Where an operator that takes no tensors only makes one, or marks a range for torch's profiler.
_TORCHS_OWN = ("aten", "prims", "profiler")
#: Tags of operators that give another shape to what is there, or a copy of a view.
_MOVES = frozenset((tag("inplace_view"), tag("view_copy")))


def classify(func: Any) -> Kind:
    """Return how the cost of an operator is found."""
    version = COSTS.version
    if version != _kinds.version:
        _kinds.clear()
        _kinds.version = version
    kind = _kinds.get(func)
    if kind is None:
        kind = _kinds[func] = _find_kind(func)
    return kind


def schema_name(func: Any) -> str:
    """Return the operator's name as formulas are registered by: ``aten::mm``."""
    return str(schema_of(func).name)


def _find_kind(func: Any) -> Kind:
    schema = schema_of(func)
    if func.namespace == "prim":  # a question: fake tensors answer one for their device
        return Kind.VIEW
    if find_formula(func) is not None:
        return Kind.FORMULA
    if is_free(schema.name):
        return Kind.FREE
    if func.namespace in _TORCHS_OWN and schema.returns and not _returns_tensors(schema):
        return Kind.VIEW  # a question: nested tensors answer for their sizes
    if _returns_views(schema) and schema.name not in _VIEWS_ONLY_AT_TIMES:
        return Kind.VIEW
    if _MOVES.intersection(func.tags):
        return Kind.FREE
    if is_composite(func):
        return Kind.COMPOSITE
    kind = _find_by_tags(func)
    if kind is Kind.UNKNOWN and func.namespace in _TORCHS_OWN:
        kind = _find_by_other_forms(func)
    return kind


def _returns_tensors(schema: Any) -> bool:
    return any("Tensor" in str(value.type) for value in schema.returns)


def _returns_views(schema: Any) -> bool:
    """Return whether all that an operator returns shares memory with its arguments, which it does not write to."""
    aliases = [value.alias_info for value in schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


_POINTWISE, _REDUCTION = tag("pointwise"), tag("reduction")


def _find_by_tags(func: Any) -> Kind:
    name = func.name()
    if _POINTWISE in func.tags or name in POINTWISE:
        return Kind.POINTWISE
    return Kind.REDUCTION if _REDUCTION in func.tags or name in REDUCTIONS else Kind.UNKNOWN


def _find_by_other_forms(func: Any) -> Kind:
    """Return the kind of one of torch's operators from its other forms; torch does not tag them all alike.

    One that writes to an output argument reads no data where it has no other tensors.
    """
    arguments = [argument for argument in schema_of(func).arguments if not _is_output(argument)]
    if not any("Tensor" in str(argument.type) for argument in arguments):
        return Kind.FREE
    kinds = {_find_by_tags(form) for form in _list_other_forms(func)} - {Kind.UNKNOWN}
    return kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN


def _is_output(argument: Any) -> bool:
    return bool(argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write)


def _list_other_forms(func: Any) -> Iterator[Any]:
    """Yield the overloads of an operator, of the one that it is in place, and of aten's of that name."""
    name = schema_name(func).split("::")[1]
    for form in (name, name.removesuffix("_")):
        packet = getattr(torch.ops.aten, form, None)
        if isinstance(packet, OpOverloadPacket):
            yield from (getattr(packet, overload) for overload in packet.overloads())
