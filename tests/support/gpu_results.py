"""The files that ``make gpu`` writes: what was measured on a GPU, each number beside the framework's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

__all__ = ["Content", "Result", "Skipped", "StepEnd", "read", "write"]


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number of one step, in base units, beside another word for it; a check is 1 where it must be 1.

    Attributes:
        step: The step that measured it.
        name: The network, or what was checked.
        metric: What the number is.
        value: profilerkit's number.
        oracle: The other number.
        oracle_name: Where the other number is from.
        unit: "s", "bytes" or nothing.
        within: The largest share by which both may differ; None where the difference is shown and not judged.
        note: What a reader must know besides.
    """

    step: str
    name: str
    metric: str
    value: float | bool
    oracle: float | bool
    oracle_name: str
    unit: str = ""
    within: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times the other number ours is; 1 where both are zero."""
        if not self.oracle:
            return 1.0 if not self.value else float("inf")
        return self.value / self.oracle

    @property
    def agrees(self) -> bool:
        """Whether both numbers are as near as they must be."""
        return self.within is None or abs(self.value - self.oracle) <= self.within * abs(self.oracle)


class Skipped(msgspec.Struct, frozen=True):
    """What a step left out, and why."""

    step: str
    name: str
    reason: str


class StepEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a step ended: "done", "failed" or "out of time", after so many seconds."""

    step: str
    outcome: str
    seconds: float
    message: str = ""


class Content(msgspec.Struct, frozen=True, tag_field="format", tag="profilerkit.gpu-results"):
    """All that is in a file."""

    device: str
    environment: Mapping[str, str]
    steps: Sequence[StepEnd]
    results: Sequence[Result]
    skipped: Sequence[Skipped] = ()


def write(path: Path, content: Content) -> None:
    """Write what was measured to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1))


def read(path: Path) -> Content:
    """Return what is in a file; raises `msgspec.ValidationError`, naming the place, for any other content."""
    return msgspec.json.decode(path.read_bytes(), type=Content)
