"""What the most bytes alive in a rank's step are for, by layer: in the passes, or while the weights are updated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from profilerkit.trace.layer_paths import parent_path, walk_outwards
from profilerkit.trace.records import LayerRecord

from .records import Purpose, RankTrace

__all__ = ["find_peak", "list_layer_rows"]


def find_peak(step: RankTrace, update_bytes: int, states: Mapping[str, int]) -> Counter[Purpose]:
    """Return what the bytes are for when most are alive.

    Args:
        step: The step.
        update_bytes: The bytes that the update of the weights takes for a while.
        states: The bytes of the optimizer's state by layer.
    """
    update = Counter(step.left) + Counter({Purpose("update", ""): update_bytes})
    most = max(Counter(step.peak), update, key=Counter.total)
    return most + Counter({Purpose("optimizer", path): size for path, size in states.items()})


def list_layer_rows(layers: Sequence[LayerRecord], peak: Mapping[Purpose, int]) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer: its bytes, and those of each part of memory; also without the layers inside."""
    parts = Counter[str]()
    own_sizes: dict[str, Counter[str]] = {layer.path: Counter() for layer in layers}
    for purpose, size in peak.items():
        own_sizes[_find_row(purpose.layer, own_sizes)][purpose.part] += size
        parts[purpose.part] += size
    whole_sizes: dict[str, Counter[str]] = {path: Counter() for path in own_sizes}
    for path, sizes in own_sizes.items():
        for around in walk_outwards(path):
            if around in whole_sizes:
                whole_sizes[around].update(sizes)
    parents = {parent_path(path) for path in own_sizes}
    columns = {part: f"{part.replace(' ', '_')}_bytes" for part, _ in parts.most_common()}
    for layer in layers:
        yield {
            "path": layer.path,
            "type": layer.type,
            "depth": layer.depth,
            "is_leaf": layer.path not in parents,
            "peak_bytes": whole_sizes[layer.path].total(),
            "own_peak_bytes": own_sizes[layer.path].total(),
            **{column: whole_sizes[layer.path][part] for part, column in columns.items()},
            **{f"own_{column}": own_sizes[layer.path][part] for part, column in columns.items()},
        }


def _find_row(path: str, rows: Container[str]) -> str:
    """Return the innermost layer with a row that has this one, or all of those that a path names: ``norm, head``."""
    first, *others = [list(walk_outwards(one)) for one in path.split(", ")]
    return next(outer for outer in first if outer in rows and all(outer in around for around in others))
