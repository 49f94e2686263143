"""Energy per inference: what the hardware's own counters say while the model runs again and again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profilerkit import (
    Backend,
    Comparative,
    Device,
    Metric,
    ModelInputs,
    Partial,
    ProfilerFunction,
    RunOptions,
    Scale,
    Unavailable,
    WithoutValuesError,
)

from .counters import Counter, Found, sample
from .nvml import nvml_counters
from .rapl import POWERCAP, rapl_counters

__all__ = ["ComputeEnergy", "EnergyPerInference"]

#: What backends call their devices: "cpu", "cuda:1", "/GPU:0".
_DEVICE = re.compile(r"/?(?P<kind>[a-z]+)(?::(?P<index>\d+))?", re.IGNORECASE)


class EnergyPerInference(Metric):
    """Joules that the CPU packages, and the GPU where the model is on one, used for one forward pass."""

    NAME = "energy_per_inference"
    UNIT = "J"
    SCALE = Scale.TIME  # powers of 1000 downwards from one: mJ, as for seconds
    COMPARATIVE = Comparative.RECIPROCAL


class ComputeEnergy(ProfilerFunction):
    """Reads the energy counters before and after many forward passes, over any backend.

    It is all the energy of the package: what idling would have used is in it, and what other processes used meanwhile.
    Nothing is taken off, since what the machine would have used otherwise cannot be known.

    Args:
        powercap: Where Linux shows the counters of the CPU packages.
        nvml: The module through which those of a GPU are read; ``pynvml`` unless given.
        clock: Returns seconds.
    """

    KEYS = (EnergyPerInference,)
    # The model is used through `Backend.forward` alone, which hands it back as it came.
    ONLY_THROUGH_BACKEND = True

    def __init__(
        self, powercap: Path = POWERCAP, nvml: Any = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.powercap = powercap
        self.nvml = nvml
        self.clock = clock

    def __call__(
        self,
        model: Any,
        backend: Backend,
        inputs: Any,
        device: Device | str | None = None,
        mode: str | None = None,
        relative_precision: float = 0.02,
        max_seconds: float = 3.0,
    ) -> Any:
        """Return the joules of one forward pass of the inputs, whatever their batch size.

        Args:
            model: The model; it runs in inference mode.
            backend: The model's backend.
            inputs: What it is called with.
            device: Where to run; where the model is unless given.
            mode: How to run, as the backend calls it; its usual way unless given.
            relative_precision: How well the median must be known: 0.02 is plus or minus 2 %.
            max_seconds: When to stop, once there are three samples.
        """
        main, further = self._counters(backend.resolve_device(model, device))
        if not main.counters:
            return Unavailable("; ".join(main.missing))
        counters: tuple[Counter, ...] = main.counters + further.counters
        try:
            with backend.run(model, ModelInputs.of(inputs), RunOptions(device=device, mode=mode)) as run:
                sampled = sample(run, counters, self.clock, max_seconds, relative_precision)
        except WithoutValuesError as error:
            return Unavailable(str(error))
        still = tuple(f"the counter of {name} stands still" for name in sampled.still)
        if {counter.name for counter in main.counters} <= set(sampled.still):
            return Unavailable("; ".join((*still, *main.missing)))
        missing = main.missing + further.missing + still
        return Partial(sampled.joules, missing) if missing else sampled.joules

    def _counters(self, device: str) -> tuple[Found, Found]:
        """Return the counters without which there is no value for a device, and those that belong to it too."""
        named = _DEVICE.fullmatch(device)
        kind = named["kind"].lower() if named else device
        if kind == "cpu":
            return rapl_counters(self.powercap), Found()
        if named and kind in ("cuda", "gpu"):  # the CPU that feeds the GPU works for the model too
            return nvml_counters(int(named["index"] or 0), self.nvml), rapl_counters(self.powercap)
        unknown = f"no energy counter is known for the device {device!r}; measure on a CPU or on an NVIDIA GPU"
        return Found(missing=(unknown,)), Found()
