"""The columns that identify a layer in the tables of predictions, joined profiles and ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from profilerkit.trace.layer_paths import nearest_around
from profilerkit.trace.records import LayerRecord


def list_layer_columns(layers: Sequence[LayerRecord]) -> Iterator[dict[str, Any]]:
    """Yield for each layer its ``path``, ``type`` and ``depth``, and whether no layer is inside it (``is_leaf``)."""
    around = set(nearest_around(layer.path for layer in layers).values())
    for layer in layers:
        yield {"path": layer.path, "type": layer.type, "depth": layer.depth, "is_leaf": layer.path not in around}


def count_calls(layer: LayerRecord) -> int:
    """Return how often a layer was called."""
    return sum(call.times for call in layer.calls)
