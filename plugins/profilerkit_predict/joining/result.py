"""`JoinedProfile`: a profile that was made elsewhere, by the layers of the model."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import mean, median
from typing import Any

from profilerkit.count_text import format_count, list_some
from profilerkit.devices.info import DeviceInfo
from profilerkit.errors import ArgumentError
from profilerkit.process.cached import cached_property
from profilerkit.process.encoding import printable
from profilerkit.process.files import write_text
from profilerkit.render.values import share_text
from profilerkit.results.result import one_line
from profilerkit.trace.layer_table import LayerTable
from profilerkit.trace.records import ModelTrace
from profilerkit.trace.table import Table

from .records import Recording
from .rows import list_layers, list_unattributed
from .writing import draw_layers, draw_unattributed, format_seconds, format_share

#: From which share of the median on the slowest pass is named.
_SLOW = 1.5
#: How many layers a note names.
_NAMED = 5
#: The width of notes in a text, in characters.
_WIDTH = 100


@dataclass(frozen=True)
class JoinedProfile:
    """The times of a profile beside the exact counts of a model, layer by layer.

    All seconds are for one pass, the mean over the passes of the profile. ``seconds`` of a layer is the sum over its
    kernels: on a separate device the kernels there, on a CPU the operators, each without the operators inside it.

    Attributes:
        name: The name of the model.
        profiler: The profiler that wrote it: "torch.profiler", "onnxruntime" or "JAX (XLA)".
        phase: "forward", or "training" for a step with gradients.
        recording: The passes read from the profile.
        trace: The counts.
        device: The device whose peaks and bandwidth the times are compared with; None for none.
        dtype: The dtype that all products ran in, if it is not the one of the trace.
        further: Further notes.
    """

    name: str
    profiler: str
    phase: str
    recording: Recording
    trace: ModelTrace
    device: DeviceInfo | None = None
    dtype: str | None = None
    further: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: the name, the profiler, and how many layers and kernels there are."""
        counts = format_count(len(self.trace.layers), "layer"), format_count(len(self.recording.kernels), "kernel")
        return one_line("JoinedProfile", [repr(self.name), self.profiler, *counts])

    def __str__(self) -> str:
        """Return the table of the layers as text."""
        return printable(self.to_text())

    @cached_property
    def layers(self) -> LayerTable:
        """One row for each layer: its time, its counts, and its shares of the device's peaks.

        ``seconds``, ``macs``, ``flops``, ``bytes``, ``mfu`` and ``roofline`` include the layers inside; ``own_seconds``
        and the like do not. ``roofline`` is the least time that the device needs, as a share of the measured time: 0.5
        for a layer at half of its roofline. It is None without a measured time, or without a device.
        """
        return list_layers(self.trace, self.recording, self.device, self.dtype)

    @cached_property
    def unattributed(self) -> Table:
        """The kernels whose layer is not known, the longest first: ``kernel``, ``around``, ``calls``, ``seconds``."""
        return list_unattributed(self.recording.kernels)

    @property
    def seconds(self) -> float:
        """The seconds of all kernels of one pass."""
        return sum(kernel.seconds for kernel in self.recording.kernels)

    @property
    def unattributed_seconds(self) -> float:
        """The seconds of the kernels whose layer is not known."""
        return float(sum(row["seconds"] for row in self.unattributed))

    @property
    def unattributed_share(self) -> float:
        """The share of the kernels' seconds whose layer is not known."""
        return self.unattributed_seconds / self.seconds if self.seconds else 0.0

    @property
    def pass_seconds(self) -> float:
        """The seconds of one pass, from its first kernel to the end of its last."""
        return mean(self.recording.passes)

    @property
    def mfu(self) -> float | None:
        """The share of the device's dense peaks that the whole pass reaches, by its products; None without a device."""
        if self.device is None or not self.pass_seconds:
            return None
        return float(self.layers[""]["peak_seconds"]) / self.pass_seconds

    @property
    def above_one(self) -> tuple[str, ...]:
        """The paths of the layers that seem faster than the device can be, so that their rates are not real."""
        if self.device is None:
            return ()
        return tuple(row["path"] for row in self.layers if _is_above(row["mfu"]) or _is_above(row["roofline"]))

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that a reader must know besides the numbers."""
        notes = [*self.recording.notes, *self.further]
        notes += _note_slow_pass(self.recording.passes)
        if self.unattributed_share > 0.5:
            notes.append(
                f"{100 * self.unattributed_share:.0f} % of the kernels' time is in no layer of this model: the profile "
                "may be of another one; check that the model and its inputs are those that were profiled"
            )
        if self.trace.uncounted:
            notes.append(f"without the cost of {', '.join(self.trace.missing)}")
        if self.device is not None:
            notes.append(f"peaks and bandwidth of {self.device.name} ({self.device.tier}); attention counts in full")
        notes += _explain_above(self.above_one, self.layers)
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold, in base units: counts, bytes, seconds."""
        return {
            "kind": "joined profile",
            "name": self.name,
            "profiler": self.profiler,
            "phase": self.phase,
            "passes": list(self.recording.passes),
            "pass_seconds": self.pass_seconds,
            "seconds": self.seconds,
            "between_seconds": self.recording.between,
            "unattributed_seconds": self.unattributed_seconds,
            "unattributed_share": self.unattributed_share,
            "unattributed": [dict(row) for row in self.unattributed],
            "layers_by": self.recording.by,
            "on_device": self.recording.on_device,
            "profiled_device": self.recording.device,
            "device": None if self.device is None else self.device.name,
            "tier": None if self.device is None else self.device.tier,
            "dtype": self.dtype,
            "macs": self.trace.macs,
            "flops": self.trace.flops,
            "mfu": self.mfu,
            "above_one": list(self.above_one),
            "layers": [dict(row) for row in self.layers],
            "notes": list(self.notes),
        }

    def to_text(self, depth: int | None = None, top: int | None = None) -> str:
        """Return the tables and notes as text; layers down to a depth, or the ``top`` layers by their own time."""
        from profilerkit.render.console import grid_text

        title = f"Layers of {self.name} ({self.profiler}, {self.phase})"
        parts = [grid_text(draw_layers(title, self.layers, self.device is not None, depth, top))]
        if self.unattributed:
            parts.append(grid_text(draw_unattributed(self.unattributed)))
        parts.append("\n".join(textwrap.fill(line, _WIDTH, break_on_hyphens=False) for line in self._list_lines()))
        return "\n\n".join(parts)

    def _list_lines(self) -> Iterator[str]:
        """Yield the lines below the tables: the whole pass, the kernels without a layer, and notes on the numbers."""
        recording = self.recording
        whole, inside, between = map(format_seconds, (self.pass_seconds, self.seconds, recording.between))
        passes = len(recording.passes)
        yield f"One pass takes {whole} (mean of {passes}): {inside} in kernels, {between} between them."
        where = recording.device or ("a device" if recording.on_device else "the host")
        yield f"Kernels ran on {where}; layers are known by {recording.by}."
        share = f"{share_text(self.unattributed_share)} of the kernels' time"
        yield f"Without a layer: {format_seconds(self.unattributed_seconds)}, {share}."
        if self.mfu is not None:
            yield f"MFU of the whole pass: {format_share(self.mfu)}."
        for path, remark in recording.remarks.items():
            yield f"{path or '(model)'} {remark}."
        yield from (f"{note[:1].upper()}{note[1:]}." for note in self.notes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file: ``.json`` with every number in base units, or ``.txt``."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".json", ".txt"):
            raise ArgumentError(f"path={str(path)!r}: give a name that ends in .json or .txt")
        text = json.dumps(self.to_dict(), indent=2) if suffix == ".json" else self.to_text()
        write_text(path, f"{text}\n")


def _is_above(share: float | None) -> bool:
    return share is not None and share > 1


def _note_slow_pass(passes: Sequence[float]) -> list[str]:
    """Return a note on the pass that took the longest, if it is far from the median of all passes."""
    slowest, middle = max(passes), median(passes)
    if slowest <= _SLOW * middle:
        return []
    number = passes.index(slowest) + 1
    if number == 1:
        advice = "if it was a warm-up pass, leave it out with a larger skip (--skip)"
    else:
        advice = "something may have interrupted it; the means below contain it"
    return [f"pass {number} of {len(passes)} took {slowest / middle:.1f} times the median of all passes: {advice}"]


def _explain_above(paths: Sequence[str], layers: LayerTable) -> list[str]:
    """Return why layers may be above 1, which is never shown without this."""
    notes = []
    products = [path for path in paths if _is_above(layers[path]["mfu"])]
    traffic = [path for path in paths if path not in products]
    if products:
        notes.append(
            f"above 1 by products ({_list_paths(products)}): no device is faster than its peak. The profile is of "
            "other inputs, of another device or dtype (dtype=, --dtype), or kernels of these layers are missing from "
            "it; or a convolution ran by an algorithm with fewer products (Winograd, Fourier)"
        )
    if traffic:
        notes.append(
            f"above 1 by traffic ({_list_paths(traffic)}): their tensors were in the device's caches, or the work was "
            "fused into another layer's kernel, so that the bandwidth of its memory does not bound them"
        )
    return notes


def _list_paths(paths: Sequence[str]) -> str:
    return list_some([path or "(model)" for path in paths], _NAMED)
