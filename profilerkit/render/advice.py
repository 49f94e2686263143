"""The conspicuous costs of a report, in sentences: each names the layer and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..results.report import Report
from ..trace.records import MemoryTimeline
from .block_names import append_name
from .part_contents import Part
from .values import Column, find_peak_record, share_text

__all__ = ["list_advice"]

#: The share of a whole from which on it is much.
_MUCH = 0.2
#: A layer has little of one column and much of another if one share is less than this part of the other share.
_LITTLE = 0.1
#: The share of the peak from which on weights are nearly all of it.
_NEARLY_ALL = 0.9
#: Pairs of columns: a layer may have much of the first and little of the second.
_PAIRS = (("forward_seconds", "macs"), ("params", "macs"), ("macs", "forward_seconds"))


def list_advice(report: Report, model: Part, by: str) -> Iterator[str]:
    """Yield sentences about conspicuous costs. The docstring of each function below names its condition.

    Args:
        report: The report.
        model: The layers of the report as `profilerkit.render.cost_parts.divide` divides them.
        by: The column that divides the layers.
    """
    yield from _describe_disproportion(model)
    yield from _describe_own_work(model, by)
    yield from _describe_peak(report)


def _describe_disproportion(model: Part) -> Iterator[str]:
    """Yield the layers with at least a fifth of one column, and less than a tenth of that share of another column."""
    for much, little in _PAIRS:
        for path, part in _list_undivided(model, model.label):
            large, small = _compute_share(part, model, much), _compute_share(part, model, little)
            if large is not None and small is not None and large >= _MUCH and small < _LITTLE * large:
                yield f"{path} has {_write_share(large, much)} and {_write_share(small, little)}."


def _list_undivided(part: Part, path: str) -> Iterator[tuple[str, Part]]:
    """Yield the layers of a part that are divided no further, with their paths.

    A layer that is never called is left out if the layer around it has work of its own. That work uses the weights of
    the other (``out_proj`` of attention, the packed weights of a quantized layer), so that their MACs are not missing.
    """
    has_own_work = any(inner.kind == "own" for inner in part.inside)
    for inner in part.inside:
        inner_path = append_name(path, inner.label)
        if inner.inside:
            yield from _list_undivided(inner, inner_path)
        elif inner.kind in ("layers", "block"):
            is_never_called = all(row.get("calls") == 0 for row in inner.rows)
            if not (has_own_work and is_never_called):
                yield inner_path, inner


def _compute_share(part: Part, model: Part, column: str) -> float | None:
    """Return a part's share of a column; None if a number is not known, or if the model's is 0 or between bounds.

    The time of a part without any is not known: the layer around it did its work (a fast path of an encoder).
    """
    whole, value = model.sum(column), part.sum(column)
    if not whole or value is None or any(f"{column}_low" in row for row in model.rows):
        return None
    return value / whole if value or not column.endswith("_seconds") else None


def _write_share(share: float, column: str) -> str:
    return f"{share_text(share)} of the {Column.of(column).in_a_sentence}"


def _describe_own_work(model: Part, by: str) -> Iterator[str]:
    """Yield that the model itself, outside of its layers, does at least a fifth of the work."""
    itself = next((part for part in model.inside if part.kind == "own" and not part.path), None)
    share = None if itself is None else _compute_share(itself, model, by)
    if share is not None and share >= _MUCH:
        yield f"The model itself, outside of its layers, has {_write_share(share, by)}."


def _describe_peak(report: Report) -> Iterator[str]:
    """Yield after which operator the peak of memory is reached, and how much of it weights are, if both are certain.

    If weights are nearly all of it, no operator is named: it hardly matters which one comes last.
    """
    memory, operators = report.memory, report.operators
    if memory is None or operators is None or memory.peak_index is None:
        return
    peak, record = memory.peak_bytes(), find_peak_record(report)
    if record is None or record.value != peak or record.sign or memory.missing:
        return
    name = record.friendly_name
    share = memory.weight_bytes / peak
    weights = f"weights are {share_text(share)} of it"
    if share >= _NEARLY_ALL:
        yield f"{name}: {weights}."
        return
    row = operators[memory.peak_index]
    layer = f" in {row['layer']}" if row["layer"] else ""
    written = _find_new_bytes(memory, memory.peak_index, row)
    output = f", whose output is {share_text(written / peak)} of it" if written >= _MUCH * peak else ""
    yield f"{name}: highest after {row['operator']}{layer}{output}; {weights}."


def _find_new_bytes(memory: MemoryTimeline, index: int, operator: Mapping[str, Any]) -> int:
    """Return the bytes of an operator's output; 0 if others were made or freed meanwhile."""
    before = memory.live_bytes[index - 1] if index else memory.input_bytes
    written = operator.get("bytes_written")
    return written if written is not None and written == memory.live_bytes[index] - before else 0
