"""The table of layers: rows with equal keys, to be looked up by path, ranked, and added up by type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ..arguments.checks import DEPTH, at_least, text
from ..error_text import shown
from ..errors import ArgumentError, by_likeness
from .columns import ENDS, is_exact
from .layer_paths import find_deepest, nearest_around
from .rows import divide_known
from .table import Table

__all__ = ["LayerTable", "is_by_layer", "is_innermost"]

_Row = Mapping[str, Any]

#: The check of the column that rows are ranked by.
_COLUMN = text("the name of a column, such as 'params'").or_none()


class LayerTable(Table):
    """The per-layer table: rows with equal keys, in the order of the model.

    ``macs``, ``flops`` and ``params`` include the layers inside; ``own_macs``, ``own_flops`` and ``own_params`` do not.
    Calls and work are None if the model did not run to its end. Select a row by its index, or by the path of its layer:
    ``table["encoder.0"]``.
    """

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._rows[self.position(index)]
        return LayerTable(self._rows[index]) if isinstance(index, slice) else super().__getitem__(index)

    def position(self, path: str) -> int:
        """Return the index of the first row of a layer, or of a type in a table by type; else raise `KeyError`."""
        if not isinstance(path, str):
            raise ArgumentError(f"path={shown(path)}: give the path of a layer, such as 'encoder.0'")
        key = "path" if self._rows and "path" in self._rows[0] else "type"
        for index, row in enumerate(self._rows):
            if row[key] == path:
                return index
        nearest = by_likeness(path, [row[key] for row in self._rows if row[key]])[:5]
        listing = ", ".join(nearest) or "none, only the model itself: ''"
        raise KeyError(f"no layer {shown(path)}; the nearest are: {listing}")

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if isinstance(other, LayerTable) else NotImplemented

    __hash__: ClassVar[None] = None

    def top(self, k: int = 5, by: str | None = None, depth: int | None = None) -> LayerTable:
        """Return the ``k`` rows with the largest values of a column, at one depth or (None) among the innermost layers.

        A layer also counts as innermost if the layers inside it have no value in this column: an attention layer may
        use the weights of the layers inside without calling them. By default the column is the MACs, or the own forward
        time if the table has no MACs. An ``own_`` column ranks all layers, because none contains another layer's value.
        Rows without a value are left out. A depth of -1 is the innermost layers, and a depth beyond the deepest layers
        is the deepest depth.
        """
        k, depth, by = at_least(0)("k", k), DEPTH("depth", depth), _COLUMN("by", by)
        column = self._choose_column() if by is None else self._require_column(by)
        level = self._find_level(depth)
        if level is not None:
            candidates = self._select(level)
        elif depth is None and column.startswith("own_"):
            candidates = self._rows
        else:
            candidates = [row for row in self._rows if is_innermost(row, column)]
        valued = [row for row in candidates if row[column] is not None]
        if any(not isinstance(row[column], (int, float)) for row in valued):
            raise ValueError(f"column {column!r} of the layer table holds no numbers to rank by")
        return LayerTable(_rank(valued, column)[:k])

    def _choose_column(self) -> str:
        """Return the column that rows are ranked by unless another one is requested."""
        is_timed = "own_forward_seconds" in self.columns and "macs" not in self.columns
        return self._require_column("own_forward_seconds" if is_timed else "macs")

    def _require_column(self, name: str) -> str:
        """Return a name if it is that of a column, or if there are no rows; raises `ValueError` otherwise."""
        if self._rows and name not in self.columns:
            numbers = [key for key in self.columns if any(isinstance(row[key], (int, float)) for row in self._rows)]
            listing = ", ".join(by_likeness(name, numbers))
            raise ValueError(f"no column {name!r} in the layer table; of numbers it has, nearest first: {listing}")
        return name

    def _find_level(self, depth: int | None) -> int | None:
        """Return a depth that layers of the table have, at most the deepest; None and -1 are the innermost layers."""
        return None if depth is None or depth < 0 else min(depth, find_deepest(self._rows))

    def _select(self, level: int) -> Sequence[_Row]:
        """Return the rows at one depth, and those of a table without depths."""
        return [row for row in self._rows if row.get("depth", level) == level]

    def to_tree(self) -> dict[str, Any]:
        """Return the layers as nested dicts: the columns of the model, and in ``layers`` the dicts of inner layers.

        ``table.to_tree()["layers"]["encoder"]["layers"]["0"]["macs"]`` is a number of the layer ``encoder.0``. A layer
        whose outer layer is not in the table is in the nearest outer layer in the table, by the rest of its path.
        Raises `ValueError` for a table without the model itself, such as a table of types.
        """
        nodes = {row["path"]: {**row, "layers": {}} for row in self._rows if "path" in row}
        if "" not in nodes:
            raise ValueError("this table has no row of the model itself, whose path is empty: it is no tree")
        for path, outer in nearest_around(nodes).items():
            if outer is not None:
                nodes[outer]["layers"][path[len(outer) :].lstrip(".")] = nodes[path]
        return nodes[""]

    def by_type(self, depth: int | None = None) -> LayerTable:
        """Return one row for each type of layer, with the number of layers and the sums of their columns.

        Without a depth, each layer counts without the layers inside it, so that all types together are the whole model.
        With a depth, each layer at that depth counts with all layers inside it; -1 is the innermost layers. Summed are
        the columns that the table has both with and without the layers inside, such as ``macs`` and ``own_macs``, and
        the ends ``macs_low`` and ``macs_high`` if it has these; a sum is None if one of its numbers is not known.
        Weights that layers share count for each type.
        """
        depth = DEPTH("depth", depth)
        names = self._list_summed_columns()
        if depth is None:
            return self._add_by_type(self._rows, {name: f"own_{name}" for name in names})
        level = self._find_level(depth)
        rows = [row for row in self._rows if _has_none_inside(row)] if level is None else self._select(level)
        return self._add_by_type(rows, {name: name for name in names})

    def _add_by_type(self, rows: Iterable[_Row], summed: Mapping[str, str]) -> LayerTable:
        """Return one row for each type among some rows; ``summed`` has for each sum the column that is added up."""
        groups: dict[str, list[_Row]] = {}
        for row in rows:
            groups.setdefault(row["type"], []).append(row)
        return LayerTable(
            {
                "type": kind,
                "layers": len(members),
                "calls": _add_up(members, "calls") if "calls" in self.columns else len(members),
                **{name: _add_up(members, column) for name, column in summed.items()},
            }
            for kind, members in groups.items()
        )

    def _list_summed_columns(self) -> list[str]:
        """Return the columns that the table has both ways: with the layers inside, and without."""
        return [name for name in self.columns if f"own_{name}" in self.columns]

    def by_depth(self, k: int = 1, depth: int | None = None) -> Table:
        """Return the types of layers that cost most at each depth, as DeepSpeed's profiler aggregates them.

        One row for each depth, column and rank: ``depth``, ``by`` (the column), ``rank``, ``type``, ``layers``,
        ``value`` (with the layers inside; None if not known) and ``share`` of the whole model (None if one of the two
        is not known exactly); and the ends ``value_low`` and ``value_high`` if the table has ends. Ranked are the
        columns that the table has both with and without the layers inside, such as ``macs`` and ``own_macs``.

        Args:
            k: How many types to rank at each depth.
            depth: The deepest layers to look at; None and -1 for the innermost. Too large a depth is the innermost too.
        """
        k, depth = at_least(0)("k", k), DEPTH("depth", depth)
        levels: dict[int, list[_Row]] = {}
        for row in self._rows:
            levels.setdefault(row.get("depth") or 0, []).append(row)
        deepest = self._find_level(depth)
        last = find_deepest(self._rows) if deepest is None else deepest
        return Table(
            {"depth": level, **ranked}
            for level in range(last + 1)
            for ranked in self._rank_types(levels.get(level, []), k)
        )

    def _rank_types(self, rows: Iterable[_Row], k: int) -> Iterator[_Row]:
        """Yield the types among some rows that have most of each column, without columns in which none has anything."""
        names = self._list_summed_columns()
        types = self._add_by_type(rows, {name: name for name in names})
        columns = [name for name in names if not name.endswith(ENDS)]
        has_ends = any(f"{name}{end}" in self.columns for name in columns for end in ENDS)
        model = next((row for row in self._rows if row.get("path") == ""), None)
        for column in columns:
            if not any(row[column] for row in types):
                continue
            whole = model[column] if model is not None and is_exact(model, column) else None
            for rank, row in enumerate(_rank(types, column)[:k], start=1):
                yield {
                    "by": column,
                    "rank": rank,
                    "type": row["type"],
                    "layers": row["layers"],
                    "value": row[column],
                    "share": divide_known(row[column], whole) if is_exact(row, column) else None,
                    **({f"value{end}": row.get(f"{column}{end}", row[column]) for end in ENDS} if has_ends else {}),
                }


def is_by_layer(table: object) -> bool:
    """Return whether a value is a table with one row for each layer: not for each call of one, nor for each type."""
    if not isinstance(table, LayerTable):
        return False
    paths = [row.get("path") for row in table]
    return None not in paths and len(set(paths)) == len(paths)


def _has_none_inside(row: _Row) -> bool:
    """Return whether no layer is inside the layer of a row."""
    return bool(row.get("is_leaf", True))


def is_innermost(row: _Row, by: str) -> bool:
    """Return whether the value of a layer in a column is all its own: no layer inside it has a value there."""
    own_value = row.get(f"own_{by}")
    return _has_none_inside(row) or (bool(own_value) and own_value == row[by])


def _rank(rows: Iterable[_Row], column: str) -> list[_Row]:
    """Return rows with the most of a column first; a value that is not known ranks as zero."""
    return sorted(rows, key=lambda row: row[column] or 0, reverse=True)


def _add_up(rows: Sequence[_Row], column: str) -> Any:
    """Return the sum of a column; None if a number is not known. A layer without a time took none, unless all are."""
    values = [row[column] for row in rows]
    numbers = [value for value in values if value is not None]
    is_known = bool(numbers) if column.endswith("seconds") else len(numbers) == len(values)
    return sum(numbers) if is_known else None
