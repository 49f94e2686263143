"""The products of a trace by the dtype that they run in, and the seconds that they take at a device's peaks.

Products are the operations with multiply-accumulates: matrix products, convolutions, attention and recurrent gates.
Element-wise operations are no products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import ArgumentError
from ..trace.records import ModelTrace, OpRecord
from .info import DeviceInfo, dtype_name, is_dtype

__all__ = ["UnknownPeakError", "find_dtype", "macs_by_dtype", "seconds_at_peak"]


class UnknownPeakError(ArgumentError):
    """The device's peak for a dtype is not known, so that no share of it can be computed."""


def find_dtype(operator: OpRecord) -> str:
    """Return the dtype in which a product runs: the dtype of its factors.

    Layers that quantize dynamically multiply 8-bit integers, although they read and write floats: their operators have
    "quantize" in their names.
    """
    if operator.product_dtype is not None:
        return operator.product_dtype
    if not operator.outputs:
        return ""
    return "int8" if "quantize" in operator.operator.lower() else operator.outputs[0].dtype


def macs_by_dtype(
    trace: ModelTrace | Iterable[OpRecord], *, recomputed: bool = True, attended: bool = False
) -> dict[str, int]:
    """Return the multiply-accumulates by the dtype that they run in.

    Without ``recomputed``, the products that a training step computes again are left out. With ``attended``, causal
    attention counts the scores up to the diagonal alone.

    >>> from profilerkit.trace.records import OpRecord, TensorInfo
    >>> product = OpRecord("mm", "", 0, 6, 12, 20, 8, (TensorInfo((1, 2), "bfloat16"),))
    >>> macs_by_dtype([product, product])
    {'bfloat16': 12}
    """
    operators = trace.operators if isinstance(trace, ModelTrace) else trace
    macs: dict[str, int] = {}
    for operator in operators:
        if operator.macs and (recomputed or not operator.recomputed):
            dtype, attended_macs = find_dtype(operator), operator.attended_macs if attended else None
            macs[dtype] = macs.get(dtype, 0) + (operator.macs if attended_macs is None else attended_macs)
    return macs


def seconds_at_peak(macs: Mapping[str, int], device: DeviceInfo, dtype: str | None = None) -> float:
    """Return the seconds of products at the dense peaks of a device: the sum over dtypes of ``2 * macs / peak``.

    ``dtype`` replaces the dtypes of the trace for a model that runs in another dtype: "tf32", or under autocast. Raises
    `UnknownPeakError` if a peak is not known.
    """
    seconds = 0.0
    for own_dtype, count in macs.items():
        peak = _find_peak(device, own_dtype if dtype is None else dtype_name(dtype))
        seconds += 2 * count / peak
    return seconds


def _find_peak(device: DeviceInfo, dtype: str) -> float:
    """Return the dense peak of a device for products of a dtype; no device has one for int16 and the like."""
    name = dtype_name(dtype) if is_dtype(dtype) else dtype
    peak = device.dense_peaks.get(name)
    if peak is None:
        listing = ", ".join(device.dense_peaks) or "none"
        raise UnknownPeakError(
            f"the dense peak of {device.name} for {name} is not known (known are: {listing}); add it to a file of "
            "the device, measure it with 'profilerkit calibrate', or give the dtype that the products run in"
        )
    return peak.value
