"""The kernels that a backend reads from a profile of another machine, each with the layer that it worked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """One kernel in one layer: a kernel of a device, or an operator on the host without the operators that it called.

    Attributes:
        name: Its name in the profile.
        layer: The path of its layer; None if that is not known.
        seconds: Its seconds in one pass: the mean over the passes.
        calls: How often it ran in one pass: the mean over the passes.
        phase: "forward", or "backward" in a training step.
        around: The operator or the user's range around it, if its layer is not known.
    """

    name: str
    layer: str | None
    seconds: float
    calls: float
    phase: str = "forward"
    around: str = ""


@dataclass(frozen=True)
class Recording:
    """The passes of a model in a profile.

    Attributes:
        kernels: The kernels, by name, layer and phase.
        passes: The seconds of each pass, from its begin to its end.
        between: The seconds of one pass in which no kernel ran: the mean over the passes.
        device: The profile's name of the device that ran the kernels, several with commas; empty if it has none.
        on_device: Whether the kernels ran on a separate device, such as a GPU.
        by: How the layers were recognized, in words.
        remarks: Remarks on the times of single layers, by their paths.
        notes: Notes on the whole profile.
    """

    kernels: tuple[RecordedKernel, ...]
    passes: tuple[float, ...]
    between: float
    device: str = ""
    on_device: bool = False
    by: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class KernelTimes:
    """Adds up the runs of equal kernels of a layer."""

    def __init__(self) -> None:
        self._runs: defaultdict[tuple[str, str | None, str, str], list[float]] = defaultdict(list)

    def add(self, seconds: float, name: str, layer: str | None, phase: str = "forward", around: str = "") -> None:
        """Add one run of a kernel; see `RecordedKernel` for the arguments."""
        self._runs[name, layer, phase, around].append(seconds)

    def average(self, passes: int) -> tuple[RecordedKernel, ...]:
        """Return the kernels with their seconds and calls in one of so many passes."""
        return tuple(
            RecordedKernel(name, layer, sum(runs) / passes, len(runs) / passes, phase, around)
            for (name, layer, phase, around), runs in self._runs.items()
        )


def compute_layer_share(kernels: Sequence[RecordedKernel]) -> float:
    """Return the share of the kernels with a known layer in the time of all kernels."""
    in_layers = sum(kernel.seconds for kernel in kernels if kernel.layer is not None)
    return in_layers / (sum(kernel.seconds for kernel in kernels) or 1.0)


def measure_extent(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds from the first begin to the last end; 0 without spans."""
    return max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0.0


def sum_covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the seconds in which at least one of the spans runs."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total
