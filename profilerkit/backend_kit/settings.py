"""Settings of a process that change numbers: one table in each backend; reports name the settings that are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Setting", "list_changes"]


@dataclass(frozen=True)
class Setting:
    """A setting of the process.

    Attributes:
        name: How a user sets it: "torch.use_deterministic_algorithms".
        read: Returns its value; a value that cannot be read is no setting.
        default: Its value unless it was set.
        counts: Whether it changes counts or the memory along the trace; otherwise it only changes measured values.
    """

    name: str
    read: Callable[[], Any]
    default: Any
    counts: bool = False


def list_changes(settings: Iterable[Setting], *, counts: bool) -> Iterator[str]:
    """Yield in words each setting that differs from its default: settings that change ``counts``, or the others."""
    for setting in settings:
        if setting.counts is not counts:
            continue
        try:
            value = setting.read()
        except (AttributeError, RuntimeError, ValueError):  # another release, or old and new names were mixed
            continue
        if value != setting.default:
            yield f"{setting.name}: {value}"
