"""Profiles of torch.profiler's form, written by hand: what a profile of a GPU has is known without one."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ChromeTrace"]

HOST, GPU = 100, 0


@dataclass
class ChromeTrace:
    """Events of a host thread and of a device; times are in microseconds."""

    header: dict[str, Any] = field(default_factory=lambda: {"schemaVersion": 1})
    events: list[dict[str, Any]] = field(default_factory=list)
    ids: int = 0

    def range(self, name: str, start: float, end: float, thread: int = HOST, **args: Any) -> None:
        self._add("user_annotation", name, start, end, args, thread)

    def layer(self, path: str, start: float, end: float, thread: int = HOST) -> None:
        self.range(f"profilerkit layer: {path}", start, end, thread)

    def operator(self, name: str, start: float, end: float, thread: int = HOST, **args: Any) -> int:
        self.ids += 1
        named = {key.replace("_", " "): value for key, value in args.items()}
        self._add("cpu_op", name, start, end, {"External id": self.ids, **named}, thread)
        return self.ids

    def launch(self, correlation: int, start: float, end: float, thread: int = HOST) -> None:
        self._add("cuda_runtime", "cudaLaunchKernel", start, end, {"correlation": correlation}, thread)

    def kernel(self, name: str, start: float, end: float, **args: Any) -> None:
        named = {key.replace("_", " "): value for key, value in args.items()}
        event = {"ph": "X", "cat": "kernel", "name": name, "pid": GPU, "tid": 7, "ts": start, "dur": end - start}
        self.events.append({**event, "args": named})

    def save(self, path: Path) -> Path:
        text = json.dumps({**self.header, "traceEvents": self.events})
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    def _add(
        self, category: str, name: str, start: float, end: float, args: dict[str, Any], thread: int = HOST
    ) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": thread, "ts": start, "dur": end - start}
        self.events.append({**event, "args": args})
