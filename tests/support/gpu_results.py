"""The files that ``make gpu`` writes: what was measured on a GPU, each number beside the framework's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["FORMAT", "Content", "Result", "Skipped", "StepEnd", "read", "write"]

FORMAT = "profilerkit.gpu-results"


@dataclass(frozen=True)
class Result:
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
    value: float
    oracle: float
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


@dataclass(frozen=True)
class Skipped:
    """What a step left out, and why."""

    step: str
    name: str
    reason: str


@dataclass(frozen=True)
class StepEnd:
    """How a step ended: "done", "failed" or "out of time", after so many seconds."""

    step: str
    outcome: str
    seconds: float
    message: str = ""


@dataclass(frozen=True)
class Content:
    """All that is in a file."""

    device: str
    environment: Mapping[str, str]
    steps: Sequence[StepEnd]
    results: Sequence[Result]
    skipped: Sequence[Skipped] = ()


def write(path: Path, content: Content) -> None:
    """Write what was measured to a file, each result on one line."""
    parts = [f'"format": {json.dumps(FORMAT)}', f'"device": {json.dumps(content.device)}']
    parts.append(f'"environment": {json.dumps(dict(content.environment), indent=1)}')
    for name in ("steps", "results", "skipped"):
        rows = ",\n".join(json.dumps(_without_defaults(row)) for row in getattr(content, name))
        parts.append(f'"{name}": [\n{rows}\n]')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _without_defaults(row: Any) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(row)}
    return {name: value for name, value in asdict(row).items() if value != defaults[name]}


def read(path: Path) -> Content:
    """Return what is in a file; raises `ValueError`, naming the place, for any other content."""
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} holds no results of a GPU: its format is not {FORMAT!r}")
    kinds = {"steps": StepEnd, "results": Result, "skipped": Skipped}
    rows = {
        name: [_row(kind, row, f"{path}: {name}[{i}]") for i, row in enumerate(content[name])]
        for name, kind in kinds.items()
    }
    return Content(str(content["device"]), dict(content["environment"]), **rows)


def _row(kind: Any, row: Any, place: str) -> Any:
    for field in fields(kind):
        value = row.get(field.name, field.default)
        expected = str if field.type == "str" else (int, float)
        if not isinstance(value, expected) and not (field.type == "float | None" and value is None):
            raise ValueError(f"{place}.{field.name} is {row.get(field.name)!r}")
    return kind(**row)
