"""Values that cannot be right: they are flagged in their row, and never stored without a flag."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from profilerkit.count_text import format_count
from profilerkit.piping.outcome import Completeness, is_number
from profilerkit.times.measurement import Measurement
from profilerkit.trace.columns import WORK
from profilerkit.trace.families import find_family

if TYPE_CHECKING:
    from profilerkit.results.report import Report

#: FLOPs that one core of a CPU cannot exceed in a second: two fused multiply-adds of 16 floats, or four of 8 (as with
#: AVX-512 or AMX's matrix tiles at the low precisions, which are sixteen times faster), at 6 GHz.
CORE_FLOPS = 2 * 2 * 16 * 6e9
#: How much faster low precisions may be than float32 on one core.
LOW_PRECISION = 16
#: FLOPs that no accelerator of today exceeds in a second at any precision.
ACCELERATOR_FLOPS = 5e16

#: How the families of layers end that have parameters and no products.
_WITHOUT_PRODUCTS = ("norm", "normalization", "prelu", "embedding", "embeddingbag")


def find_flags(report: Report) -> tuple[str, ...]:
    """Return why values of a report are not plausible, a sentence each; no sentence if all values are plausible.

    A zero count, a time of zero, a time that means more FLOPs in a second than the machine can do, and a throughput
    without a batch size are not plausible. A model without products may have no MACs.
    """
    flags = [*_flag_zeros(report), *_flag_speed(report)]
    if report.get("throughput") is not None and report.batch_size is None:
        flags.append("throughput: samples in a second of inputs whose batch size is not known")
    return tuple(flags)


def _flag_zeros(report: Report) -> Iterator[str]:
    """Yield the counts and the times that are zero: a model with a zero is most often a model that was not counted."""
    possible = _find_possible_zeros(report)
    for name, record in report.statuses.items():
        value = record.value
        is_flagged = name in ("memory_footprint", *WORK) and name not in possible
        if is_flagged and is_number(value) and not value and record.completeness is Completeness.COMPLETE:
            yield f"{name}: it is 0, and is reported as complete"
        if isinstance(value, Measurement) and value.median <= 0:
            yield f"{name}: its median is {value.median!r}, and no measurement is zero or less"


def _find_possible_zeros(report: Report) -> tuple[str, ...]:
    """Return the counts of work that may be zero: MACs without a product, and FLOPs if values are only copied.

    A Fourier transform has no parameters and no product. A resize that copies values has no FLOPs either, but it has
    operators. Of layers with parameters, normalizations multiply each value by its own, and embeddings copy rows.
    """
    if not report.get("flops") and not report.operators:
        return ()
    if report.get("total_params") == 0:
        return WORK
    families = {find_family(layer["type"]).name for layer in report.layers or () if layer.get("own_params")}
    if families == {"embedding"}:
        return WORK
    return ("macs",) if families and all(family.endswith(_WITHOUT_PRODUCTS) for family in families) else ()


def _flag_speed(report: Report) -> Iterator[str]:
    """Yield a time in which the machine cannot compute the FLOPs."""
    record, time = report.statuses.get("flops"), report.get("execution_time")
    # The lower end of a count, because the model may do less than an upper bound.
    flops = None if record is None or record.ends is None else record.ends.low
    if flops is None or not isinstance(time, Measurement) or time.median <= 0:
        return
    machine, ceiling = _find_ceiling(report)
    rate = flops / time.median
    if rate > ceiling:
        yield (
            f"execution_time: {flops:,} FLOPs in {time.median:.3g} s are {rate:.3g} FLOP/s, beyond the "
            f"{ceiling:.3g} that {machine} can do: was all of it computed?"
        )


def _find_ceiling(report: Report) -> tuple[str, float]:
    """Return the name of the processor, and the FLOPs in a second that it cannot exceed."""
    if not _runs_on_cpu(report):
        return "any accelerator", ACCELERATOR_FLOPS
    cores = report.environment.get("cores", "")
    count = int(cores) if cores.isdecimal() else os.cpu_count() or 1
    speedup = 1 if _is_wide(report) else LOW_PRECISION
    return format_count(count, "core"), CORE_FLOPS * count * speedup


def _runs_on_cpu(report: Report) -> bool:
    """Return whether only a CPU can have run the model, by the stated device, or else by the devices of the machine."""
    stated = report.arguments.get("device")
    lists = [stated] if stated else [report.environment.get(name, "") for name in ("accelerators", "devices")]
    names = [name.strip().lower() for text in lists for name in text.split(",")]
    return all("cpu" in name for name in names if name)


def _is_wide(report: Report) -> bool:
    """Return whether all is computed in float32 or float64, by the dtypes of the weights."""
    root: Mapping[str, Any] = next(iter(report.layers or ()), {})
    dtypes = root.get("params_by_dtype") or ()
    return "autocast" not in report.arguments and all(name in ("float32", "float64") for name in dtypes)
