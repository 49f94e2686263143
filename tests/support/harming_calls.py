"""The calls that are the same for the models of all frameworks, which `harming` breaks off."""

from __future__ import annotations

from typing import Any

from profilerkit import compare, profile

__all__ = ["RUNS", "Calls"]

RUNS: dict[str, Any] = {"num_iters": 2, "warmup": 0}


class Calls:
    """Profiles of ``model`` for the input ``x``; each returns what must not differ."""

    model: Any
    x: Any

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
