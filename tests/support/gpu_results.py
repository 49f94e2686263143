"""The files that ``make gpu`` writes: what was measured on a GPU, each number beside the framework's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["FORMAT", "Result", "read", "write"]

FORMAT = "profilerkit.gpu-results"


@dataclass(frozen=True)
class Result:
    """One number of one model, in base units, beside what the framework itself says."""

    model: str
    metric: str
    value: float
    oracle: float
    oracle_name: str
    unit: str

    @property
    def ratio(self) -> float:
        """How many times the oracle's number ours is."""
        return self.value / self.oracle


def write(path: Path, device: str, environment: dict[str, str], results: Sequence[Result]) -> None:
    """Write results to a file."""
    rows = [asdict(result) for result in results]
    content = {"format": FORMAT, "device": device, "environment": environment, "results": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")


def read(path: Path) -> tuple[str, list[Result]]:
    """Return the device and the results of a file; raises `ValueError`, naming the place, for any other content."""
    content: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} holds no results of a GPU: its format is not {FORMAT!r}")
    names = {field.name: (str if field.type == "str" else (int, float)) for field in fields(Result)}
    for index, row in enumerate(content["results"]):
        for name, kind in names.items():
            if not isinstance(row.get(name), kind):
                raise ValueError(f"{path}: results[{index}].{name} is {row.get(name)!r}")
        if not row["oracle"] > 0:
            raise ValueError(f"{path}: results[{index}].oracle is {row['oracle']}, no number above 0")
    return str(content["device"]), [Result(**row) for row in content["results"]]
