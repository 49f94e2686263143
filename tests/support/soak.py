"""Profiles model after model of classes made for it, and says what is left of them: run as a program of its own."""

from __future__ import annotations

import gc
import json
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import nn

from profilerkit import load, profile

#: After so many the process has imported and remembered what it ever will; growth is counted from there.
WARM = 10


def fresh_model() -> tuple[nn.Module, torch.Tensor]:
    """Return a model of classes that nobody had before, and an input that is an attribute of nothing."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.weight)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm, self.last = Inner(), nn.BatchNorm1d(3), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(torch.relu(self.norm(self.first(x))))
            return out

    return Net().eval(), torch.ones(2, 4)


def once(number: int, path: Path) -> list[weakref.ref[Any]]:
    """Profile one in one of several ways; return references that should be dead when nobody holds it any more."""
    model, x = fresh_model()
    ways: list[dict[str, Any]] = [
        {"metrics": ["macs", "total_params", "memory_footprint", "layerwise_data"]},
        {"num_iters": 2, "warmup": 1},
        {"metrics": ["training_macs", "training_memory"]},
        {"metrics": ["layer_times"]},
    ]
    report = profile(model, x, **ways[number % len(ways)])
    assert number % 4 == 3 or number % 4 == 2 or report["macs"] == 2 * (4 * 3 + 3 * 2), report["macs"]
    if number % 4 == 2:
        assert isinstance(report["training_macs"], int)
    report.save(path)
    assert str(load(path)) == str(report)
    held = [model, x, type(model), type(model.first), *model.parameters()]
    return [weakref.ref(item) for item in held]


def state() -> dict[str, int]:
    """Return what must not grow: open descriptors, threads, objects, and kibibytes of memory."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "classes": len(nn.Module.__subclasses__()),
        "kibibytes": memory,
    }


def main(count: int, folder: str) -> None:
    """Run, and print what there was at the beginning, now and then, and at the end."""
    path, alive = Path(folder, "report.json"), 0
    states = []
    for number in range(WARM + count):
        references = once(number, path)
        if number >= WARM and (number < WARM + 30 or number % 100 == 0):
            gc.collect()
            alive += sum(reference() is not None for reference in references)
        if number == WARM - 1 or number == WARM + count - 1 or (number >= WARM and number % 1000 == 0):
            states.append({"profiles": number + 1, "alive": alive, **state()})
            sys.stdout.write(json.dumps(states[-1]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
