"""The parts of a model that cost most: a few lines that say where the work, the time or the weights are.

`divide` opens the largest part again and again, as long as there is room for more lines. What is inside a part is found
in ``part_contents.py``; here it is decided which parts are opened, and which of those inside get a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..trace.columns import WORK
from .block_names import append_name
from .part_contents import Contents, Part, Row, join_rows, join_series

__all__ = ["choose_column", "divide"]

#: The columns that parts are found by, the first in which the model has anything.
_BY = ("forward_seconds", *WORK, "params")
#: The share of the column, or of the parameters, that a part must have to stand in a line by itself.
_LEAST_SHARE = 0.01
#: A part with less of the whole is not opened.
_LEAST_OPENED = 0.3


def choose_column(rows: Sequence[Row]) -> str:
    """Return the column by which the parts of a model are found: its time if that is known, else its work.

    A model without either is divided by its parameters; the column of an empty one is "".
    """
    root = rows[0] if rows else {}
    return next((name for name in _BY if root.get(name)), "")


def divide(rows: Sequence[Row], by: str, most: int) -> Part:
    """Return a model as the part that holds all other parts, at most so many.

    The part with most of the column is opened first, as long as there is room. A layer that holds only one other layer
    is passed through. Equal layers that follow each other are one part. Small layers are gathered; in a layer that
    holds very many layers, the layers of a block are gathered too, by their names.

    Args:
        rows: The rows of `Report.layerwise`, the model itself first.
        by: The column whose sums count, such as "macs".
        most: The number of parts.
    """
    divider = _Divider(rows, by)
    model = divider.pass_through(Part("", (rows[0],)))
    room = most
    closed = [model]
    while closed:
        largest = max(closed, key=divider.share)
        closed.remove(largest)
        if divider.share(largest) >= _LEAST_OPENED:
            largest.inside = divider.open(largest, room)
            room -= len(largest.inside)
            closed += largest.inside
    return model


class _Divider:
    """The layers of a model, and how much each part has of the whole."""

    def __init__(self, rows: Sequence[Row], by: str) -> None:
        self._by = by
        self._root = rows[0]
        self._contents = Contents(rows)

    def share(self, part: Part) -> float:
        """Return the share of a part."""
        return (part.sum(self._by) or 0) / (self._root[self._by] or 1)

    def pass_through(self, part: Part) -> Part:
        """Return the part inside a part, and the part inside that, as long as there is only one."""
        inside = self._list_inside(part)
        while len(inside) == 1:
            part = Part(append_name(part.label, inside[0].label), inside[0].rows)
            inside = self._list_inside(part)
        return part

    def open(self, part: Part, room: int) -> list[Part]:
        """Return the content of a part, in at most so many parts; an empty list if it stays closed."""
        inside = self._list_inside(part)
        if self._count_lines(inside) > room:
            inside = join_series(inside, part.path, self._is_large)
        lines = self._gather_others([self.pass_through(inner) for inner in inside], room)
        if not 1 < len(lines) <= room:
            return []
        return lines if part.rows[0] is self._root or self._tells_more(lines) else []

    def _list_inside(self, part: Part) -> list[Part]:
        """Return what is right inside a part, the own work of its layers only if it is much."""
        inside = self._contents.list_inside(part)
        return [inner for inner in inside if inner.kind != "own" or self.share(inner) >= _LEAST_SHARE]

    def _is_large(self, part: Part) -> bool:
        """Return whether a part has much of the whole, or of the parameters, if their number is known."""
        whole = self._root.get("params")
        share_of_params = (part.sum("params") or 0) / whole if whole else 0
        return max(self.share(part), share_of_params) >= _LEAST_SHARE

    def _count_lines(self, inside: Sequence[Part]) -> int:
        """Return how many lines parts take: one for each large part, and one for all small ones."""
        large = sum(map(self._is_large, inside))
        return large + (large < len(inside))

    def _gather_others(self, inside: Sequence[Part], room: int) -> list[Part]:
        """Return parts with the small ones gathered; if the large ones alone are too many, with the smallest of them.

        The own work of a layer is never among the others. A single small part keeps its line.
        """
        others = [part for part in inside if not self._is_large(part)]
        if self._count_lines(inside) > room:
            ranked = sorted((part for part in inside if part.kind != "own"), key=self.share)
            others = ranked[: len(inside) - room + 1]
        if len(others) < 2:
            return list(inside)
        return [*(part for part in inside if part not in others), Part("", join_rows(others), "others")]

    def _tells_more(self, lines: Sequence[Part]) -> bool:
        """Return whether lines say more than the part around them.

        One line that has nearly all says no more, nor do lines of which each has less than the others together.
        """
        others = next((line for line in lines if line.kind == "others"), None)
        large = [line for line in lines if line is not others and self._is_large(line)]
        if len(large) == 1 and not self._list_inside(large[0]):
            return False
        if others is None or not self._is_large(others):
            return True
        return all(self.share(others) < self.share(line) for line in large)
