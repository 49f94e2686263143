"""What the caller switched on around a profile, as notes: so two reports that differ by it can be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .records import ModelTrace

__all__ = ["SETTINGS_FACT", "formulas_used", "read_conditions", "write_notes"]

_PREFIX = "made under "
#: Under which `Backend.environment` has the settings that change measured values, where some differ from their default.
SETTINGS_FACT = "settings"


def write_notes(conditions: Iterable[str]) -> tuple[str, ...]:
    """Return the notes of conditions, each a few words: "autocast of cpu to torch.bfloat16"."""
    return tuple(f"{_PREFIX}{condition}" for condition in conditions)


def read_conditions(notes: Iterable[str]) -> tuple[str, ...]:
    """Return the conditions among the notes of a report."""
    return tuple(note.removeprefix(_PREFIX) for note in notes if note.startswith(_PREFIX))


def formulas_used(trace: ModelTrace, added: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return as a condition which formulas of the caller's a trace was counted by; nothing if by none.

    ``own`` has the formulas by the name of the operator, or by the class of layers or its name.
    """
    if not added:
        return ()
    counted = {op.operator for op in trace.operators}
    layers = {name.partition("::")[2] for name in counted if name.startswith(("module::", "layer::"))}
    used = sorted(
        name for name in map(_name, added) if name in layers or any(_is_call_to(operator, name) for operator in counted)
    )
    return (f"your own cost formulas for {', '.join(used)}",) if used else ()


def _is_call_to(operator: str, name: str) -> bool:
    """Return whether an operator is the one of a name; records may say which overload it is: "aten.mm.default"."""
    plain, requested = operator.replace("::", "."), name.replace("::", ".")
    return requested in (plain, plain.rpartition(".")[0])


def _name(key: Any) -> str:
    key = getattr(key, "layer", key)  # a backend may keep layers and operators of one name apart
    return key.__name__ if isinstance(key, type) else str(key)
