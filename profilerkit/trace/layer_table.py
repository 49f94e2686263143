"""The table of layers: rows with equal keys, to be looked up by path, ranked, and added up by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..arguments.checking import checked
from ..error_text import shown
from ..errors import ArgumentError, by_likeness
from .table import Table

__all__ = ["LayerTable"]

_Row = Mapping[str, Any]


class LayerTable(Table):
    """The per-layer table: rows with equal keys, in the order of the model.

    ``macs``, ``flops`` and ``params`` include the layers inside; ``own_macs``, ``own_flops`` and ``own_params`` do not.
    Calls and work are None where the model did not run to its end. A row is found by its place, or by the path of its
    layer: ``table["encoder.0"]``.
    """

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._rows[self.position(index)]
        return LayerTable(self._rows[index]) if isinstance(index, slice) else super().__getitem__(index)

    def position(self, path: str) -> int:
        """Return the place of the first row of a layer, or of a type in a table by type; `KeyError` for none."""
        if not isinstance(path, str):
            raise ArgumentError(f"path={shown(path)}: give the path of a layer, such as 'encoder.0'")
        key = "path" if self._rows and "path" in self._rows[0] else "type"
        for place, row in enumerate(self._rows):
            if row[key] == path:
                return place
        nearest = ", ".join(by_likeness(path, [row[key] for row in self._rows])[:5])
        raise KeyError(f"no layer {shown(path)}; the nearest are: {nearest}")

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if isinstance(other, LayerTable) else NotImplemented

    __hash__ = None

    def top(self, k: int = 5, by: str = "macs", depth: int | None = None) -> LayerTable:
        """Return the ``k`` rows with the most of a column, at one depth or (None) among the innermost layers.

        Rows without a value there are left out.
        """
        k, by, depth = checked("k", k), checked("by", by), checked("depth", depth)
        if self._rows and by not in self._rows[0]:
            raise ValueError(f"no column {by!r} in the layer table; it has {', '.join(self._rows[0])}")
        held = [row for row in self._rows if row[by] is not None]
        if any(not isinstance(row[by], (int, float)) for row in held):
            raise ValueError(f"column {by!r} of the layer table holds no numbers to rank by")
        return LayerTable(sorted((row for row in held if _is_at(row, depth)), key=lambda row: -row[by])[:k])

    def by_type(self, depth: int | None = None) -> LayerTable:
        """Return one row for each type of layer: how many there are, and what they do together.

        Without a depth these are sums of what each layer does itself, so that all types together are the whole model.
        At a depth they are sums over the layers there, with all that is inside them. The sums are those of the columns
        that the table has both ways, ``macs`` and ``own_macs`` for one. Weights that layers share count for each type.
        """
        depth = checked("depth", depth)
        first = self._rows[0] if self._rows else {}
        columns = [name for name in first if f"own_{name}" in first]
        groups: dict[str, list[_Row]] = {}
        for row in self._rows:
            if depth is None or row["depth"] == depth:
                groups.setdefault(row["type"], []).append(row)
        return LayerTable(
            {
                "type": kind,
                "layers": len(rows),
                "calls": _total(({"calls": row.get("calls", 1)} for row in rows), "calls"),
                **{name: _total(rows, name if depth is not None else f"own_{name}") for name in columns},
            }
            for kind, rows in groups.items()
        )

    def __repr__(self) -> str:
        return f"LayerTable({len(self)} layers)"


def _is_at(row: _Row, depth: int | None) -> bool:
    if depth is None:
        return bool(row.get("is_leaf", True))
    return "depth" not in row or bool(row["depth"] == depth)


def _total(rows: Iterable[_Row], column: str) -> Any:
    """Return the sum of a column; None where no row has a value there."""
    values = [row[column] for row in rows if row[column] is not None]
    return sum(values) if values else None
