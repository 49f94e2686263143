"""The predicted time of a pass or a training step: plain data, and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from profilerkit.devices.info import DeviceInfo
from profilerkit.render.values import Column
from profilerkit.trace.layer_table import LayerTable

from .bound import Bound

_SECONDS = Column.of("seconds")
#: How many layers the text names.
_SHOWN_LAYERS = 3


@dataclass(frozen=True)
class Prediction:
    """The predicted time of a pass or a training step on a device: computed, never measured.

    Attributes:
        device: The device.
        bound: The least seconds, by peaks and bandwidth.
        estimate: Seconds by the calibration; None with a data sheet only.
        low: The lower end of the interval; the bound with a data sheet only.
        high: The upper end; None if it is not known.
        binds: The cause of the time: "products", "traffic" or "dispatch".
        device_seconds: The estimate of the device's own time, None without a calibration.
        host_seconds: The estimate of the host's time, None without a calibration; for a compiled graph, of one call of
            the graph.
        layers: A row for each layer: ``estimate_seconds``, ``bound_seconds`` and ``binds`` of its own operators.
        phase: "forward" or "training".
        notes: Notes for the reader.
    """

    device: DeviceInfo
    bound: Bound
    low: float
    binds: str
    layers: LayerTable
    phase: str
    notes: tuple[str, ...] = ()
    estimate: float | None = None
    high: float | None = None
    device_seconds: float | None = None
    host_seconds: float | None = None

    @property
    def tier(self) -> str:
        """Its source: "data sheet" or "calibrated"; the two are never mixed."""
        return "data sheet" if self.estimate is None else "calibrated"

    @property
    def seconds(self) -> float:
        """The estimate if there is one, otherwise the bound."""
        return self.bound.seconds if self.estimate is None else self.estimate

    def __str__(self) -> str:
        """Return the time, the resource that binds it, the slowest layers, and the notes, as text."""
        what = "a training step" if self.phase == "training" else "a forward pass"
        return "\n".join(
            [
                f"Predicted time of {what} on {self.device.name}: {self._write_time()}",
                f"Bound by {self.binds}, {self.tier}.",
                "Layers that take most:",
                *self._list_layers(),
                *(f"{note[:1].upper()}{note[1:]}." for note in self.notes),
            ]
        )

    def _write_time(self) -> str:
        if self.estimate is None or self.high is None:
            return f"at least {_SECONDS.show(self.bound.seconds)}"
        return f"{_SECONDS.show(self.estimate)}, from {_SECONDS.show(self.low)} to {_SECONDS.show(self.high)}"

    def _list_layers(self) -> Iterator[str]:
        column = "bound_seconds" if self.estimate is None else "estimate_seconds"
        rows = [row for row in self.layers if row[column]]
        for row in sorted(rows, key=lambda row: -row[column])[:_SHOWN_LAYERS]:
            itself = "" if row["is_leaf"] or not row["path"] else " itself"  # its time is without the layers inside it
            yield f"  {row['path'] or '(itself)'} ({row['type']}){itself}: {_SECONDS.show(row[column])}"
