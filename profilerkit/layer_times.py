"""The time of each layer, forward and backward: what a backend measures, and the table made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .layering import depth_of
from .trace import LayerTable, parent_path

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
    """Return one row for each layer: seconds as medians over the passes, with the layers inside and without."""
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


def _inclusive(own: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Add to each layer, pass by pass, what the layers inside it took."""
    whole = dict(own)
    for path in sorted(own, key=depth_of, reverse=True):
        parent = parent_path(path)
        if parent is not None and parent in whole:
            whole[parent] = tuple(mine + theirs for mine, theirs in zip(whole[parent], whole[path], strict=True))
    return whole
