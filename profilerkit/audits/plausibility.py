"""Values that cannot be right: they are flagged in their row, and never stored as fine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..piping.status import Completeness, is_number
from ..times.measurement import Measurement

if TYPE_CHECKING:
    from ..results.report import Report

__all__ = ["find_flags"]

#: FLOPs that one core of a CPU cannot exceed in a second: two fused multiply-adds of 16 floats, or four of 8 (as with
#: AVX-512 or AMX's matrix tiles at the low precisions, which are sixteen times faster), at 6 GHz.
CORE_FLOPS = 2 * 2 * 16 * 6e9
#: How much faster low precisions may be than float32 on one core.
LOW_PRECISION = 16
#: FLOPs that no accelerator of today exceeds in a second at any precision.
ACCELERATOR_FLOPS = 5e16
#: A metric is plausible only above zero: a model without any of it is most often a model that was not counted.
_NONZERO = ("macs", "flops", "total_params", "memory_footprint")


def find_flags(report: Report, device: str = "cpu", dtype: str = "float32") -> tuple[str, ...]:
    """Return why values of a report are not plausible, a sentence each; none of a report that is fine.

    They are a zero count, a time of zero, a time that means more FLOPs in a second than the machine can do, and a
    throughput without a batch size. ``device`` and ``dtype`` are those that it was timed with.
    """
    flags = [*_zeros(report), *_times(report), *_rates(report, device, dtype)]
    throughput = report.statuses.get("throughput")
    if throughput is not None and throughput.value is not None and report.batch_size is None:
        flags.append("throughput: samples in a second of inputs whose batch size is not known")
    return tuple(flags)


def _zeros(report: Report) -> list[str]:
    return [
        f"{name}: it is 0, and is reported as complete"
        for name in _NONZERO
        if name in report.statuses
        and is_number(report.statuses[name].value)
        and not report.statuses[name].value
        and report.statuses[name].completeness is Completeness.COMPLETE
    ]


def _times(report: Report) -> list[str]:
    return [
        f"{name}: its median is {record.value.median!r}, and no measurement is zero or less"
        for name, record in report.statuses.items()
        if isinstance(record.value, Measurement) and record.value.median <= 0
    ]


def _rates(report: Report, device: str, dtype: str) -> list[str]:
    """Return a flag if the execution time means more FLOPs in a second than the device can do."""
    flops, time = report.statuses.get("flops"), report.statuses.get("execution_time")
    seconds = time.value.median if time is not None and isinstance(time.value, Measurement) else 0.0
    if flops is None or not is_number(flops.value) or seconds <= 0:
        return []
    ceiling = _ceiling(device, dtype)
    rate = flops.value / seconds
    if rate <= ceiling:
        return []
    machine = "the cores of this machine" if device.startswith("cpu") else "any accelerator"
    return [
        f"execution_time: {flops.value:,} FLOPs in {seconds:.3g} s are {rate:.3g} FLOP/s, beyond the {ceiling:.3g} "
        f"that {machine} can do: was all of it computed?"
    ]


def _ceiling(device: str, dtype: str) -> float:
    """Return FLOPs in a second that the device cannot exceed."""
    if not device.startswith("cpu"):
        return ACCELERATOR_FLOPS
    factor = 1 if dtype in ("float32", "float64") else LOW_PRECISION
    return CORE_FLOPS * (os.cpu_count() or 1) * factor
