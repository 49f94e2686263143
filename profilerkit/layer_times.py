"""The time of each layer, forward and backward: what a backend measures, and the table made of it.

The table's columns: ``path``, ``type``, ``depth``, ``is_leaf``, ``calls``, ``forward_seconds`` and ``backward_seconds``
(with the layers inside), ``own_forward_seconds`` and ``own_backward_seconds`` (without), and ``missing``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .layer_rows import parent_path
from .layering import depth_of
from .trace import LayerTable

__all__ = ["LayerTime", "layer_time_table"]


@dataclass(frozen=True)
class LayerTime:
    """Seconds of a layer's own work, without the layers inside it, in each of several passes.

    ``calls`` is how often one pass called the layer; the seconds are those of all its calls. ``own_backward`` is None
    where no backward pass was asked for. ``missing`` says what the times leave out, in words.
    """

    path: str
    type: str
    calls: int
    own_forward: tuple[float, ...]
    own_backward: tuple[float, ...] | None = None
    missing: str = ""


def layer_time_table(times: Sequence[LayerTime]) -> LayerTable:
    """Return one row for each layer: seconds as medians over the passes, with the layers inside and without.

    The layers inside are added up pass by pass, before the median is taken; medians themselves do not add up exactly.
    A layer whose outer layer is not among ``times`` counts for the nearest one around it that is. Backward seconds are
    None where no backward pass was timed. Raises `ValueError` for times of different numbers of passes.
    """
    _require_equal_passes(times)
    return LayerTable(_rows(times))


def _rows(times: Sequence[LayerTime]) -> Iterator[Mapping[str, Any]]:
    parents = {parent_path(time.path) for time in times}
    forward = _inclusive({time.path: time.own_forward for time in times})
    backward = _inclusive({time.path: time.own_backward for time in times if time.own_backward is not None})
    for time in times:
        yield {
            "path": time.path,
            "type": time.type,
            "depth": depth_of(time.path),
            "is_leaf": time.path not in parents,
            "calls": time.calls,
            "forward_seconds": median(forward[time.path]),
            "backward_seconds": median(backward[time.path]) if time.path in backward else None,
            "own_forward_seconds": median(time.own_forward),
            "own_backward_seconds": None if time.own_backward is None else median(time.own_backward),
            "missing": time.missing,
        }


def _require_equal_passes(times: Sequence[LayerTime]) -> None:
    counts = {
        len(seconds) for time in times for seconds in (time.own_forward, time.own_backward) if seconds is not None
    }
    if len(counts) > 1 or 0 in counts:
        raise ValueError(
            f"the layers were timed in {', '.join(map(str, sorted(counts)))} passes; all must have the same number of "
            "them, and at least one"
        )


def _inclusive(own: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Add to each layer, pass by pass, what the layers inside it took."""
    whole = dict(own)
    for path in sorted(own, key=depth_of, reverse=True):
        parent = parent_path(path)
        while parent and parent not in whole:
            parent = parent_path(parent)
        if parent in whole:
            whole[parent] = tuple(mine + theirs for mine, theirs in zip(whole[parent], whole[path], strict=True))
    return whole
