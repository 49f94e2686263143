"""The boxes of an icicle: each layer inside the layer around it, as high as its share of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from profilerkit.trace.layer_paths import find_deepest
from profilerkit.trace.layer_view import group_children

from .reading import require_column, require_layers

if TYPE_CHECKING:
    from profilerkit.results.report import Report

#: Levels that are drawn without a given depth: more would leave no room for names.
_LEVELS = 8
#: Boxes of less than this share of the height are drawn together with their neighbours, as one.
_THINNEST = 0.0025


class Box(NamedTuple):
    """A box in the picture of a model: a layer, or several thin neighbors that are drawn as one (``row`` is None)."""

    row: Mapping[str, Any] | None
    #: How deep it is, from 0 for the whole model: the place from left to right.
    level: int
    #: Where it begins and ends, from 0 at the top of the picture to 1.
    start: float
    end: float
    layers: int = 1

    @property
    def height(self) -> float:
        """Its share of the whole height."""
        return self.end - self.start

    @property
    def type(self) -> str:
        """The type of the layer; empty for several."""
        return "" if self.row is None else str(self.row["type"])


class Picture(NamedTuple):
    """The boxes of one model."""

    name: str
    boxes: Sequence[Box]
    #: The rows of the layers inside each layer, by its path.
    inside: Mapping[str, Sequence[Mapping[str, Any]]]
    whole: float
    deepest: int

    @property
    def is_cut(self) -> bool:
        """Whether the model has layers that are too deep to be drawn."""
        return any(box.level == self.deepest and box.row is not None and self.has_inside(box.row) for box in self.boxes)

    def has_inside(self, row: Mapping[str, Any]) -> bool:
        """Return whether a layer has others inside."""
        return row["path"] in self.inside

    def list_innermost(self) -> Iterator[Box]:
        """Yield the boxes of layers without others inside."""
        return (box for box in self.boxes if box.row is not None and not self.has_inside(box.row))


def arrange(report: Report, by: str, depth: int | None) -> Picture:
    """Return the boxes of a report; raises `ValueError` if there is nothing to draw."""
    if by.startswith("own_"):
        raise ValueError(f"icicle draws layers inside each other, and {by!r} leaves out those inside; give {by[4:]!r}")
    layers = require_layers(report)
    require_column(report, layers, by)
    root = layers[0]
    if not root[by] or root[by] < 0:
        raise ValueError(f"there is nothing to draw of {report.name}: the whole model has {by}={root[by]!r}")
    deepest = _LEVELS - 1 if depth is None else depth
    if deepest < 0:
        deepest = find_deepest(layers)
    inside = group_children(layers)
    return Picture(report.name, list(_list_boxes(root, inside, by, deepest)), inside, root[by], deepest)


def _list_boxes(
    root: Mapping[str, Any], inside: Mapping[str, Sequence[Mapping[str, Any]]], by: str, deepest: int
) -> Iterator[Box]:
    """Yield the boxes, outer before inner; without recursion, for models of any depth."""
    pending = [Box(root, 0, 0.0, 1.0)]
    while pending:
        box = pending.pop()
        yield box
        if box.row is None or box.level >= deepest:
            continue
        children = inside.get(box.row["path"], ())
        values = [max(child[by] or 0.0, 0.0) for child in children]
        # Layers that share weights can have more in total than the layer around them, and still fit into it.
        unit = box.height / max(box.row[by], sum(values)) if children else 0.0
        placed = _place_children(children, [value * unit for value in values], box.start, box.level + 1)
        pending += reversed(list(placed))  # the uppermost is taken next


def _place_children(
    children: Sequence[Mapping[str, Any]], heights: Sequence[float], start: float, level: int
) -> Iterator[Box]:
    """Yield the boxes of the layers inside a layer: thin neighbors as one box; no box if it is too thin to see."""
    group_start = end = start  # the thin layers since the last box begin and end there
    thin = 0  # how many of them there are
    for child, height in zip(children, heights, strict=True):
        if height < _THINNEST:
            end += height
            thin += 1 if height else 0
            continue
        if end - group_start >= _THINNEST:
            yield Box(None, level, group_start, end, thin)
        yield Box(child, level, end, end + height)
        group_start = end = end + height
        thin = 0
    if end - group_start >= _THINNEST:
        yield Box(None, level, group_start, end, thin)
