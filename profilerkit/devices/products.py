"""The products of a trace by the dtype that they run in, and the seconds that they take at a device's peaks.

Products are what has multiply-accumulates: matrix products, convolutions, attention and recurrent gates. Element-wise
operations are no part of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import ArgumentError
from ..trace.records import ModelTrace, OpRecord
from .info import DeviceInfo, dtype_name

__all__ = ["UnknownPeakError", "dtype_of", "element_bytes", "macs_by_dtype", "seconds_at_peak"]

#: The dtype that integer products accumulate in; what was multiplied is narrower.
_ACCUMULATED = {"int32": "int8", "int64": "int8"}


class UnknownPeakError(ArgumentError):
    """The device's peak for a dtype is not known, so that no share of it can be computed."""


def dtype_of(operator: OpRecord) -> str:
    """Return the dtype that a product runs in: that of its first output, or the narrow one of integer products.

    A trace has no dtypes of arguments. A product of integers that writes floats, as dynamically quantized layers do,
    counts in the dtype of its output unless its name has "int8" or "quantized" in it.
    """
    if not operator.outputs:
        return ""
    dtype = operator.outputs[0].dtype
    if "int8" in operator.operator or "quantized" in operator.operator:
        return "int8"
    return _ACCUMULATED.get(dtype, dtype)


def macs_by_dtype(
    trace: ModelTrace | Iterable[OpRecord], *, recomputed: bool = True, attended: bool = False
) -> dict[str, int]:
    """Return the multiply-accumulates by the dtype that they run in; what is computed again is left out if requested.

    With ``attended``, causal attention counts the scores up to the diagonal alone.

    >>> from profilerkit.trace.records import OpRecord, TensorInfo
    >>> product = OpRecord("mm", "", 0, 6, 12, 20, 8, (TensorInfo((1, 2), "bfloat16"),))
    >>> macs_by_dtype([product, product])
    {'bfloat16': 12}
    """
    operators = trace.operators if isinstance(trace, ModelTrace) else trace
    macs: dict[str, int] = {}
    for operator in operators:
        if operator.macs and (recomputed or not operator.recomputed):
            dtype = dtype_of(operator)
            spared = attended and operator.attended_macs is not None
            count = operator.attended_macs if spared else operator.macs
            macs[dtype] = macs.get(dtype, 0) + (count or 0)
    return macs


def seconds_at_peak(macs: Mapping[str, int], device: DeviceInfo, dtype: str | None = None) -> float:
    """Return the seconds of products at the dense peaks of a device: the sum over dtypes of ``2 * macs / peak``.

    ``dtype`` takes the place of the dtypes of the trace, for what runs in another one: "tf32", or under autocast.
    Raises `UnknownPeakError` if a peak is not known.
    """
    seconds = 0.0
    for own_dtype, count in macs.items():
        name = dtype_name(own_dtype if dtype is None else dtype)
        peak = device.peak(name)
        if peak is None:
            listing = ", ".join(device.dense_peaks) or "none"
            raise UnknownPeakError(
                f"the dense peak of {device.name} for {name} is not known (known are: {listing}); add it to a file of "
                "the device, measure it with 'profilerkit calibrate', or give the dtype that the products run in"
            )
        seconds += 2 * count / peak
    return seconds


def element_bytes(dtype: str) -> float:
    """Return the bytes of one element of a dtype, by the bits in its name.

    >>> element_bytes("bfloat16"), element_bytes("float8_e4m3fn"), element_bytes("bool"), element_bytes("int4")
    (2.0, 1.0, 1.0, 0.5)
    """
    digits = "".join(character if character.isdigit() else " " for character in dtype.partition("_")[0]).split()
    return int(digits[-1]) / 8 if digits else 1.0
