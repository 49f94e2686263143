"""Conditions of a profile: the settings that the caller switched on, to distinguish reports that differ by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .layer_operators import find_layer_type
from .records import ModelTrace

__all__ = ["formulas_used", "write_notes"]


def write_notes(conditions: Iterable[str]) -> tuple[str, ...]:
    """Return the notes of conditions, each a few words: "autocast of cpu to torch.bfloat16"."""
    return tuple(f"made under {condition}" for condition in conditions)


def formulas_used(trace: ModelTrace, added: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return as a condition which formulas of the caller's a trace was counted by; nothing if by none.

    ``added`` has the formulas by the name of the operator, or by the class of layers or its name.
    """
    if not added:
        return ()
    counted = {op.operator for op in trace.operators}
    layers = set(map(find_layer_type, counted))
    used = sorted(
        name for name in map(_name, added) if name in layers or any(_is_call_to(operator, name) for operator in counted)
    )
    return (f"your own cost formulas for {', '.join(used)}",) if used else ()


def _is_call_to(operator: str, name: str) -> bool:
    """Return whether an operator has a name; records may also name its overload: "aten.mm.default"."""
    plain, requested = operator.replace("::", "."), name.replace("::", ".")
    return requested in (plain, plain.rpartition(".")[0])


def _name(key: Any) -> str:
    key = getattr(key, "layer", key)  # a backend may keep layers and operators of one name apart
    return key.__name__ if isinstance(key, type) else str(key)
