"""A changed copy of a record, whether that is a dataclass, as `ModelTrace`, or a struct, as what is in one."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

__all__ = ["replace"]

T = TypeVar("T")


def replace(record: T, **facts: Any) -> T:
    """Return a record with these facts in place of its own."""
    change: Any = msgspec.structs.replace if isinstance(record, msgspec.Struct) else dataclasses.replace
    changed: T = change(record, **facts)
    return changed
