"""The two ends of the counts of a layer, worked out from a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .bounds import WORK, Bounds, compute_spread

if TYPE_CHECKING:
    from .records import ModelTrace

__all__ = ["find_bounds", "list_layer_bounds"]

#: Whether the layer of a path is a certain one, or inside of it.
_IsInside: TypeAlias = Callable[[str], bool]


def find_bounds(trace: ModelTrace, column: str, path: str = "") -> Bounds:
    """Return between which numbers a column lies for a layer with those inside it; for the model with the path "".

    The upper end is not known where something in there has no formula, or runs nobody knows how often.
    """
    if column not in WORK:
        raise ValueError(f"column={column!r}: bounds are known of {' and '.join(map(repr, WORK))}")
    is_inside = _test_inside(path)
    counted = sum(getattr(op, column) for op in trace.operators if is_inside(op.layer))
    return _bound_count(trace, column, counted, is_inside, _test_gaps(trace))


def list_layer_bounds(trace: ModelTrace, totals: dict[str, dict[str, int]]) -> dict[str, dict[str, float | None]]:
    """Return the columns ``macs_low``, ``macs_high`` and so on by path; ``totals`` are the counts of each layer."""
    has_gap = _test_gaps(trace)
    rows: dict[str, dict[str, float | None]] = {}
    for path, counted in totals.items():
        row = rows[path] = {}
        for column in WORK:
            bounds = _bound_count(trace, column, counted[column], _test_inside(path), has_gap)
            row |= {f"{column}_low": bounds.low, f"{column}_high": bounds.high}
    return rows


def _bound_count(
    trace: ModelTrace, column: str, counted: int, is_inside: _IsInside, has_gap: Callable[[_IsInside], bool]
) -> Bounds:
    below, above = compute_spread(trace.choices, column, is_inside)
    low = None if below is None else counted - below
    return Bounds(low, None if above is None or has_gap(is_inside) else counted + above)


def _test_gaps(trace: ModelTrace) -> Callable[[_IsInside], bool]:
    """Return what says whether something in some layers is not counted.

    It may be in any layer where no record of an operator tells in which.
    """
    incomplete = [op for op in trace.operators if op.missing]
    if trace.uncounted.keys() - {op.missing for op in incomplete}:
        return lambda is_inside: True
    layers = {op.layer for op in incomplete}
    return lambda is_inside: any(map(is_inside, layers))


def _test_inside(path: str) -> _IsInside:
    if not path:
        return lambda layer: True
    within = f"{path}."
    return lambda layer: layer == path or layer.startswith(within)
