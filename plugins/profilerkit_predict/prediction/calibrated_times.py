"""The times of a trace by a calibration: of each region by the tables, and of the host besides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from profilerkit.devices.info import dtype_name
from profilerkit.devices.products import find_dtype
from profilerkit.errors import ArgumentError
from profilerkit.trace.records import ModelTrace, OpRecord

from .calibration import Calibration
from .cases import CompiledSeconds
from .kinds import find_family, find_kind, find_sizes
from .operators import is_free
from .regions import Region

#: A region is bound by dispatch if it takes at most so many times the seconds of the host for an operator.
_MOSTLY_DISPATCH = 1.5


class TimedRegion(NamedTuple):
    """One region with its seconds on the device."""

    #: The path of the layer of its first operator.
    layer: str
    #: The seconds of the device.
    seconds: float
    #: The cause of the seconds: "products", "traffic" or "dispatch".
    binds: str
    #: The seconds of the host to hand its operators to a separate device.
    host_seconds: float


class _TableTime(NamedTuple):
    """The times of an operator by a table: its seconds, the seconds of the start of any call, and of the host."""

    seconds: float
    start: float
    host_seconds: float


@dataclass(frozen=True)
class CalibratedTimes:
    """Tells times by a calibration."""

    calibration: Calibration
    #: The name of its device, for messages.
    device: str
    #: The dtype that all products run in; None for that in the trace.
    dtype: str | None
    compiled: bool

    def time_region(self, region: Region) -> TimedRegion:
        """Return the seconds of a region; a fused region takes the time of the slowest of its operators' families.

        A kernel that a compiler generated starts in the measured time of generated kernels, if it was measured.
        """
        calibration, head = self.calibration, region.head
        alone = [self._look_up(operator, region.moved_bytes) for operator in region.operators]
        slowest = max(alone, key=lambda time: time.seconds - time.start)
        seconds, host_seconds = slowest.seconds, sum(time.host_seconds for time in alone)
        if self.compiled and not head.macs and calibration.host.compiled is not None:
            seconds += calibration.host.compiled.kernel_call - slowest.start
        return TimedRegion(head.layer, seconds, self._find_binding(region, seconds), host_seconds)

    def _find_binding(self, region: Region, seconds: float) -> str:
        """Return the cause of the seconds of a region: "products", "traffic" or "dispatch"."""
        if seconds <= _MOSTLY_DISPATCH * self.calibration.dispatch:
            return "dispatch"
        head = region.head
        peak = self.calibration.peak(self._find_dtype(head)) or math.inf
        rate = self.calibration.best_bandwidth(region.moved_bytes) or math.inf
        is_products = bool(head.macs) and 2.0 * head.macs / peak >= region.moved_bytes / rate
        return "products" if is_products else "traffic"

    def _look_up(self, operator: OpRecord, moved_bytes: float) -> _TableTime:
        """Return the time of an operator by the table of its kind, or of plain products or traffic in float32.

        Raises `ArgumentError` if there is neither.
        """
        calibration, dtype = self.calibration, self._find_dtype(operator)
        sizes: tuple[float, ...]
        if operator.macs:
            sizes = find_sizes(operator)
            work = 2.0 * operator.macs
            peak = calibration.peak(dtype) or 0.0
            table = calibration.table(find_kind(operator), dtype) or calibration.table("product", "float32")
        else:
            sizes = (max(1.0, moved_bytes),)
            work = sizes[0]
            peak = math.inf
            table = calibration.table(find_family(operator), dtype) or calibration.table("element-wise", "float32")
        if table is None or not peak:
            raise ArgumentError(
                f"the calibration of {self.device} has no table for {operator.operator} in {dtype}; make it with "
                f"--dtype {dtype}"
            )
        seconds = table.seconds(sizes, max(work, 1.0), peak)
        return _TableTime(seconds, table.least_seconds, table.find_host_seconds(sizes))

    def _find_dtype(self, operator: OpRecord) -> str:
        """Return the dtype whose tables hold for an operator; float32 for traffic of integers."""
        if self.dtype is not None and operator.macs:
            return dtype_name(self.dtype)
        name = find_dtype(operator)
        return "float32" if name.startswith(("int", "uint", "bool")) and not operator.macs else name

    def find_host_seconds(self, trace: ModelTrace, operators: Sequence[OpRecord], phase: str) -> float:
        """Return the seconds of the host besides the operators of a trace.

        In eager mode the host calls layers, makes views of the forward pass, starts a backward pass, and runs automatic
        differentiation for each operator of the backward pass, its views included. Compiled, the host calls a graph.
        """
        host = self.calibration.host
        if self.compiled:
            return 0.0 if host.compiled is None else _find_graph_seconds(trace, host.compiled, phase)
        calls = sum(call.times for layer in trace.layers for call in layer.calls)
        views = sum(is_free(operator) for operator in operators if operator.phase == "forward")
        gradients = sum(not is_free(operator) for operator in operators if operator.phase == "backward")
        start = host.backward_call if gradients else 0.0
        return calls * host.layer_call + views * host.view_call + gradients * host.gradient_call + start


def _find_graph_seconds(trace: ModelTrace, host: CompiledSeconds, phase: str) -> float:
    """Return the host's seconds for the call of one graph, or of the graphs of a training step, with the weights."""
    weights = trace.parameters
    if phase == "forward":
        return host.graph_call + len(weights) * host.graph_weight
    return host.step_call + sum(1 for weight in weights if weight.trainable) * host.step_weight
