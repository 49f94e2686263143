"""The calls that are the same for the models of all frameworks, which `harming` breaks off."""

from __future__ import annotations

import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from profilerkit import compare, profile

__all__ = ["RUNS", "Calls", "look_at_process"]

RUNS: dict[str, Any] = {"num_iters": 2, "warmup": 0}


class Calls:
    """Profiles of ``model`` for the input ``x``; each returns what must not differ."""

    model: Any
    x: Any
    #: The methods that are called.
    names: tuple[str, ...]

    @property
    def calls(self) -> dict[str, Callable[[], Any]]:
        """Return what is called, by name."""
        return {name: getattr(self, name) for name in self.names}

    def static(self) -> Any:
        report = profile(self.model, self.x, strict=True, metrics=["macs", "memory_footprint"])
        return report["macs"], report["memory_footprint"]

    def training(self) -> Any:
        return str(profile(self.model, self.x, strict=True, metrics=["training_macs"])["training_macs"])

    def timed(self) -> Any:
        return profile(self.model, self.x, strict=True, metrics=["execution_time"], **RUNS)["execution_time"].min > 0

    def compared(self) -> Any:
        comparison = compare(
            self.model, self.model, inputs=self.x, strict=True, metrics=["macs", "execution_time"], **RUNS
        )
        return [report["macs"] for report in (comparison.reference, *comparison.others)]

    def layers(self) -> Any:
        return profile(self.model, self.x, strict=True, metrics=["layer_times"], passes=1)["layer_times"] is not None


def look_at_process() -> dict[str, Any]:
    """Return the facts of the process that must come back, whatever the framework."""
    return {
        "process numbers": (random.getstate(), str(np.random.get_state())),
        "process interrupts": signal.getsignal(signal.SIGINT),
        "process warnings": list(warnings.filters),
        "process error stream": os.fstat(2)[:3],
        "process recursion": sys.getrecursionlimit(),
    }
