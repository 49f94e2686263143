"""The least time that a device can take: products at its peaks, or compulsory bytes at its bandwidth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..devices.info import DeviceInfo
from ..devices.products import element_bytes, macs_by_dtype, seconds_at_peak
from ..trace.records import LayerRecord, ModelTrace, OpRecord, TensorInfo, WeightRecord
from .regions import plain_name

__all__ = ["Bound", "bound_of", "bytes_of", "compulsory_bytes"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no run on the device can be faster than.

    Attributes:
        products: Seconds of all products at the dense peaks of their dtypes.
        traffic: Seconds of the compulsory bytes at the bandwidth of the memory; None if that is not known.
    """

    products: float
    traffic: float | None

    @property
    def seconds(self) -> float:
        """The greater of both."""
        return max(self.products, self.traffic or 0.0)

    @property
    def binds(self) -> str:
        """What the greater one is: "products" or "traffic"."""
        return "traffic" if (self.traffic or 0.0) > self.products else "products"


def bound_of(trace: ModelTrace, device: DeviceInfo, dtype: str | None = None, bandwidth: float | None = None) -> Bound:
    """Return the bound of a trace: ``max(sum of 2 * macs / peak by dtype, compulsory bytes / bandwidth)``.

    What is computed again counts. ``bandwidth`` takes the place of the device's. Raises `UnknownPeakError` if a peak is
    not known.
    """
    rate = device.bandwidth if bandwidth is None else bandwidth
    products = seconds_at_peak(macs_by_dtype(trace), device, dtype)
    return Bound(products, None if rate is None else compulsory_bytes(trace) / rate)


def compulsory_bytes(trace: ModelTrace) -> float:
    """Return the bytes that any run has to move: weights that are used, inputs and outputs, once each.

    Of a weight that is only looked up, as in an embedding, the rows that are used count. A training step writes a
    gradient for each trainable weight too. Weights that no operator reads do not count.
    """
    root = trace.layers[0] if trace.layers else None
    outputs = bytes_of(root.calls[-1].outputs) if root is not None and root.calls else 0.0
    weights = _weights_read(trace)
    if any(operator.phase == "backward" for operator in trace.operators):
        weights += sum(weight.bytes for weight in trace.parameters if weight.trainable)
    read = sum(operator.bytes_read + operator.bytes_written for operator in trace.operators)
    return min(weights + trace.memory.input_bytes + outputs, float(read)) if trace.operators else 0.0


def bytes_of(tensors: Iterable[TensorInfo]) -> float:
    """Return the bytes of tensors of known sizes."""
    return sum(
        math.prod(tensor.shape) * element_bytes(tensor.dtype) for tensor in tensors if min(tensor.shape, default=1) >= 0
    )


def _weights_read(trace: ModelTrace) -> float:
    by_layer: dict[str, list[OpRecord]] = {}
    for operator in trace.operators:
        by_layer.setdefault(operator.layer, []).append(operator)
    bytes_read: dict[int, float] = {}
    for layer in trace.layers:
        for weight in (*layer.parameters, *layer.buffers):
            needed = _needed(weight, layer, by_layer)
            bytes_read[weight.identity] = max(bytes_read.get(weight.identity, 0.0), needed)
    return sum(bytes_read.values())


def _needed(weight: WeightRecord, layer: LayerRecord, by_layer: Mapping[str, list[OpRecord]]) -> float:
    """Return how many bytes of a weight are read at least; ``by_layer`` has the operators of each layer."""
    operators = [operator for operator in by_layer.get(layer.path, ()) if operator.phase == "forward"]
    looked_up = [operator for operator in operators if "embedding" in plain_name(operator.operator)]
    if looked_up and len(looked_up) == len(operators):
        return float(min(weight.bytes, sum(operator.bytes_written for operator in looked_up)))
    if operators or layer.calls:
        return float(weight.bytes)
    # The layer around may use the weights itself, as attention does with those of its projection.
    around = by_layer.get(layer.path.rpartition(".")[0], ())
    return float(weight.bytes) if layer.path and any(operator.macs for operator in around) else 0.0
