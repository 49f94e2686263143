"""What stands out in a report, in sentences: each names the layer and the figures that it is read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..trace.dtypes import element_bytes
from ..trace.model_parts import Part
from .values import Column, share_text

if TYPE_CHECKING:
    from ..results.report import Report
    from ..trace.records import MemoryTimeline

__all__ = ["list_advice"]

#: A part stands out if it has so much of one thing ...
_MUCH = 0.2
#: ... and less than this part of that share of another.
_LITTLE = 0.1
#: From which share of the peak on weights are nearly all of it.
_NEARLY_ALL = 0.9
#: From which share of the parameters on those in a wider dtype are worth a word: norms that are kept in it are less.
_WIDE = 0.05
#: What a part has much of, and what it has little of beside it.
_PAIRS = (("forward_seconds", "macs"), ("params", "macs"), ("macs", "forward_seconds"))


def list_advice(report: Report, model: Part, by: str) -> Iterator[str]:
    """Yield what stands out: each sentence has a condition, which is said where it is made.

    Args:
        report: The report.
        model: Its layers as `profilerkit.trace.cost_parts.divide` divides them.
        by: The column that they are divided by.
    """
    yield from _describe_disproportion(model)
    yield from _describe_own_work(report, model, by)
    yield from _describe_wide_weights(report)
    if report.memory is not None and report.operators is not None:
        yield from _describe_peak(report.memory, report)


def _describe_disproportion(model: Part) -> Iterator[str]:
    """Yield the layers with at least a fifth of one thing, and less than a tenth of that share of another."""
    for much, little in _PAIRS:
        for path, part in _list_closed(model, model.label):
            share, other = (_compute_share(part, model, column) for column in (much, little))
            if share is not None and other is not None and share >= _MUCH and other < _LITTLE * share:
                yield f"{path} has {_write(share, much)} and {_write(other, little)}."


def _describe_own_work(report: Report, model: Part, by: str) -> Iterator[str]:
    """Yield that the model itself, outside of its layers, does at least a fifth, and by which operator mostly.

    The operator is named if it has at least half of these MACs.
    """
    itself = next((part for part in model.inside if part.kind == "own" and not part.rows[0]["path"]), None)
    share = None if itself is None else _compute_share(itself, model, by)
    if share is None or share < _MUCH:
        return
    macs = Counter[str]()
    for row in report.operators or ():
        if not row["layer"]:
            macs[row["operator"]] += row["macs"]
    [(operator, most)] = macs.most_common(1) or [("", 0)]
    mostly = f"; its MACs are mostly those of {operator}" if most and 2 * most >= macs.total() else ""
    yield f"The model itself, outside of its layers, has {_write(share, by)}{mostly}."


def _describe_wide_weights(report: Report) -> Iterator[str]:
    """Yield that at least a twentieth of the parameters have a wider dtype than most, which is a floating-point one.

    Then the model is smaller and faster in one dtype, if that was not a choice. The layer with most of them is named.
    """
    root = report.layerwise[0]
    counts: Mapping[str, int] = root.get("params_by_dtype") or {}
    usual = max(counts, key=lambda dtype: counts[dtype], default="")
    wide = [dtype for dtype in counts if _is_float(dtype) and element_bytes(dtype) > element_bytes(usual)]
    widest = max(wide, key=lambda dtype: counts[dtype], default="")
    if not (widest and _is_float(usual)) or counts[widest] < _WIDE * sum(counts.values()):
        return
    leaves = [row for row in report.layerwise if row.get("is_leaf")]
    holding = max(leaves, key=lambda row: row["params_by_dtype"].get(widest, 0), default=root)
    where = f", most of them in {holding['path']}" if holding["path"] else ""
    share = share_text(counts[widest] / sum(counts.values()))
    yield f"{share} of the parameters are {widest}{where}, in a model of {usual}."


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _list_closed(part: Part, path: str) -> Iterator[tuple[str, Part]]:
    """Yield the layers of a part that are divided no further, with their paths.

    A layer that is never called, beside work that the layer around it does itself, is left out: that work uses its
    weights (``out_proj`` of attention, the packed weights of a quantized layer), so their MACs are not missing.
    """
    has_own_work = any(inner.kind == "own" for inner in part.inside)
    for inner in part.inside:
        whole = f"{path}.{inner.label}" if path else inner.label
        if inner.inside:
            yield from _list_closed(inner, whole)
        elif inner.kind in ("layers", "block") and not (has_own_work and _is_never_called(inner)):
            yield whole, inner


def _is_never_called(part: Part) -> bool:
    return all(row.get("calls") == 0 for row in part.rows)


def _compute_share(part: Part, model: Part, column: str) -> float | None:
    """Return what a part has of a column; None where the column or any bound of it is not known."""
    whole = model.sum(column)
    if not whole or any(f"{column}_low" in row for row in model.rows):
        return None
    return (part.sum(column) or 0) / whole


def _write(share: float, column: str) -> str:
    return f"{share_text(share)} of the {Column.of(column).in_a_sentence}"


def _describe_peak(memory: MemoryTimeline, report: Report) -> Iterator[str]:
    """Yield after which operator the metric that is the peak of memory is reached, and what weights have of it.

    Where weights are nearly all of it, no operator is said: it hardly matters which one comes last. What the operator
    has written is said if all of that is alive then, which it is if so many bytes more are alive than before, and if it
    is at least a fifth of the peak.
    """
    index, peak = memory.peak_index, memory.peak_bytes()
    records = [one for one in report.statuses.values() if one.base_unit == "B" and one.value == peak]
    if index is None or memory.missing or not records:
        return
    share = memory.weight_bytes / peak
    weights = f"weights are {share_text(share)} of it"
    if share >= _NEARLY_ALL:
        yield f"{records[0].friendly_name}: {weights}."
        return
    row = (report.operators or ())[index]
    where = f" in {row['layer']}" if row["layer"] else ""
    before = memory.live_bytes[index - 1] if index else memory.input_bytes
    made = row.get("bytes_written")
    is_new = made is not None and made == memory.live_bytes[index] - before and made >= _MUCH * peak
    writes = f", whose output is {share_text(made / peak)} of it" if is_new else ""
    yield f"{records[0].friendly_name}: highest after {row['operator']}{where}{writes}; {weights}."
