"""The least time that a device can take: products at its peaks, or compulsory bytes at its bandwidth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from profilerkit.devices.info import DeviceInfo
from profilerkit.devices.products import find_dtype, macs_by_dtype, seconds_at_peak
from profilerkit.trace.dtypes import element_bytes
from profilerkit.trace.records import LayerRecord, ModelTrace, OpRecord, TensorInfo, WeightRecord

from .operator_names import plain_name
from .operators import count_least_read, is_selective


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no run on the device can be faster than."""

    #: Seconds of all products at the dense peaks of their dtypes.
    products: float
    #: Seconds of the compulsory bytes at the bandwidth of the memory; None if that is not known.
    traffic: float | None

    @property
    def seconds(self) -> float:
        """The greater of both."""
        return max(self.products, self.traffic or 0.0)

    @property
    def binds(self) -> str:
        """The name of the greater one: "products" or "traffic"."""
        return "traffic" if (self.traffic or 0.0) > self.products else "products"


def compute_bound(
    trace: ModelTrace, device: DeviceInfo, dtype: str | None = None, bandwidth: float | None = None
) -> Bound:
    """Return the bound of a trace: ``max(sum of 2 * macs / peak by dtype, compulsory bytes / bandwidth)``.

    Recomputed products count. ``bandwidth`` replaces the device's bandwidth. Convolutions of float32 count at the peak
    of tf32 if it is higher, because libraries use tf32 by default; ``dtype="float32"`` says that they do not. Raises
    `UnknownPeakError` if a peak is not known.
    """
    rate = device.bandwidth if bandwidth is None else bandwidth
    in_tf32: list[OpRecord] = []
    others: list[OpRecord] = []
    for operator in trace.operators:
        is_in_tf32 = dtype is None and may_use_tf32(operator, device)
        (in_tf32 if is_in_tf32 else others).append(operator)
    products = seconds_at_peak(macs_by_dtype(others), device, dtype)
    products += seconds_at_peak(macs_by_dtype(in_tf32), device, "tf32")
    return Bound(products, None if rate is None else compulsory_bytes(trace) / rate)


def may_use_tf32(operator: OpRecord, device: DeviceInfo) -> bool:
    """Say whether a product is a convolution of float32 that is faster in TF32 on this device."""
    faster, plain = device.peak("tf32"), device.peak("float32")
    return (
        faster is not None
        and (plain is None or faster > plain)
        and bool(operator.macs)
        and find_dtype(operator) == "float32"
        and "conv" in plain_name(operator.operator)
    )


def compulsory_bytes(trace: ModelTrace) -> float:
    """Return the bytes that any run has to move: weights that are used, inputs and outputs, once each.

    Of a weight that is only looked up, as in an embedding, the rows that are used count; of the experts of a layer one,
    since which are chosen depends on values. A training step writes a gradient for each trainable weight too. Weights
    that no operator reads do not count.
    """
    if not trace.operators:
        return 0.0
    root = trace.layers[0] if trace.layers else None
    outputs = count_bytes(root.calls[-1].outputs) if root is not None and root.calls else 0.0
    weights = _sum_weights_read(trace)
    if any(operator.phase == "backward" for operator in trace.operators):
        weights += sum(weight.bytes for weight in trace.parameters if weight.trainable)
    moved = sum(operator.bytes_read + operator.bytes_written for operator in trace.operators)
    return min(weights + trace.memory.input_bytes + outputs, float(moved))


def count_bytes(tensors: Iterable[TensorInfo]) -> float:
    """Return the bytes of tensors of known sizes."""
    return sum(
        math.prod(tensor.shape) * element_bytes(tensor.dtype) for tensor in tensors if min(tensor.shape, default=1) >= 0
    )


def _sum_weights_read(trace: ModelTrace) -> float:
    """Return the bytes that any run has to read of all weights: of each the most that a layer with it reads."""
    by_layer: dict[str, list[OpRecord]] = {}
    for operator in trace.operators:
        if operator.phase == "forward":
            by_layer.setdefault(operator.layer, []).append(operator)
    most: dict[int, float] = {}  # by the identity of a weight
    for layer in trace.layers:
        for weight in (*layer.parameters, *layer.buffers):
            most[weight.identity] = max(most.get(weight.identity, 0.0), _count_needed(weight, layer, by_layer))
    return sum(most.values())


def _count_needed(weight: WeightRecord, layer: LayerRecord, by_layer: Mapping[str, list[OpRecord]]) -> float:
    """Return how many bytes of a weight are read at least; ``by_layer`` has the operators of each layer."""
    operators = by_layer.get(layer.path, [])
    if operators:
        return _count_read(weight, operators)
    # The layer around may use the weights itself, like attention uses the weights of its projection.
    around = by_layer.get(layer.path.rpartition(".")[0], []) if layer.path else []
    if any(operator.macs for operator in around):
        return _count_read(weight, around)
    return float(weight.bytes) if layer.calls else 0.0


def _count_read(weight: WeightRecord, operators: Iterable[OpRecord]) -> float:
    """Return the least bytes of a weight that operators read.

    A trace does not tell which operator reads which weight. If only operators that select rows can read a weight of
    this size, they are assumed to read it, and only the selected rows count.
    """
    able = [operator for operator in operators if operator.bytes_read >= weight.bytes]
    if able and all(map(is_selective, able)):
        return float(min(weight.bytes, sum(map(count_least_read, able))))
    return float(min(weight.bytes, sum(map(count_least_read, operators))))
