"""What a backend reads from a profile that was made elsewhere: kernels, each with the layer that it worked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["RecordedKernel", "Recording"]


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """One kernel in one layer: on a device what ran there, on a host an operator without those that it called.

    Attributes:
        name: Its name in the profile.
        layer: The path of the layer that it worked for; None if that is not known.
        seconds: Its seconds in one pass: the mean over the passes.
        calls: How often it ran in one pass: the mean over the passes.
        phase: "forward", or "backward" in a training step.
        around: What it ran in, if its layer is not known: the operator, or the user's range.
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
        kernels: What ran, by kernel, layer and phase.
        passes: The seconds of each pass, from its begin to its end.
        between: The seconds of one pass in which no kernel ran: the mean over the passes.
        device: What the profile calls the device that the kernels ran on, of several with commas; empty if it does
            not tell.
        on_device: Whether the kernels ran on a device of its own, such as a GPU.
        by: What the layers are known by, in words.
        remarks: What must be known of the time of single layers, by their paths.
        notes: What must be known of all.
    """

    kernels: tuple[RecordedKernel, ...]
    passes: tuple[float, ...]
    between: float
    device: str = ""
    on_device: bool = False
    by: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
