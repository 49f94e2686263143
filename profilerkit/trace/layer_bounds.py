"""The two ends of the counts of a layer, worked out from a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .bounds import WORK, Bounds, compute_spread

if TYPE_CHECKING:
    from .records import ModelTrace

__all__ = ["bounds_inside", "is_call_to", "layer_bounds"]


def is_call_to(operator: str, name: str) -> bool:
    """Say whether an operator is the one of a name; records may say which overload it is: "aten.mm.default"."""
    plain, requested = operator.replace("::", "."), name.replace("::", ".")
    return requested in (plain, plain.rpartition(".")[0])


def bounds_inside(trace: ModelTrace, column: str, path: str = "") -> Bounds:
    """Return between which numbers a column lies for a layer with those inside it; for the model with the path "".

    The upper end is not known where something in there has no formula, or runs nobody knows how often.
    """
    ops = ("macs", "flops")
    if column not in ops:
        raise ValueError(f"column={column!r}: bounds are known of {' and '.join(map(repr, ops))}")
    inside = _inside(path)
    counted = sum(getattr(op, column) for op in trace.operators if inside(op.layer))
    return _bounds(trace, column, counted, inside, _layers_with_gaps(trace))


def layer_bounds(trace: ModelTrace, totals: dict[str, dict[str, int]]) -> dict[str, dict[str, float | None]]:
    """Return the columns ``macs_low``, ``macs_high`` and so on by path; ``totals`` are the counts of each layer."""
    gaps = _layers_with_gaps(trace)
    rows: dict[str, dict[str, float | None]] = {}
    for path, counted in totals.items():
        row = rows[path] = {}
        for column in WORK:
            bounds = _bounds(trace, column, counted[column], _inside(path), gaps)
            row |= {f"{column}_low": bounds.low, f"{column}_high": bounds.high}
    return rows


def _bounds(
    trace: ModelTrace, column: str, counted: int, inside: Callable[[str], bool], gaps: set[str] | None
) -> Bounds:
    below, above = compute_spread(trace.choices, column, inside)
    is_open = bool(trace.uncounted) and (gaps is None or any(map(inside, gaps)))
    low = None if below is None else counted - below
    return Bounds(low, None if above is None or is_open else counted + above)


def _layers_with_gaps(trace: ModelTrace) -> set[str] | None:
    """Return the layers in which something is not counted; None where records do not tell, so that it may be any."""
    layers: set[str] = set()
    for name in trace.uncounted:
        named = {op.layer for op in trace.operators if is_call_to(op.operator, name)}
        if not named:
            return None
        layers |= named
    return layers


def _inside(path: str) -> Callable[[str], bool]:
    if not path:
        return lambda layer: True
    within = f"{path}."
    return lambda layer: layer == path or layer.startswith(within)
