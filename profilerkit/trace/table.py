"""Rows with equal keys: the form of every table of a report, before it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from ..arguments.checks import DEPTH, PATH, TOP
from ..process.cached import cached_property
from ..process.encoding import printable

__all__ = ["Table", "data_frame"]


def data_frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str] | None = None) -> Any:
    """Return rows as a pandas ``DataFrame``; raises `ImportError` if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas; install profilerkit[pandas]") from error
    return pd.DataFrame(list(rows), columns=None if columns is None else list(columns))


class Table(Sequence[Mapping[str, Any]]):
    """A sequence of rows, each a mapping from column to value.

    ``rows`` can be a callable. It is called once, when the rows are first read.

    >>> Table([{"operator": "mm", "macs": 8}]).columns
    ('operator', 'macs')
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] | Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self._source = rows if callable(rows) else tuple(rows)

    @cached_property
    def _rows(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._source()) if callable(self._source) else self._source

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; empty if there are no rows."""
        return tuple(self._rows[0]) if self._rows else ()

    def __getitem__(self, index: Any) -> Any:
        return type(self)(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if type(other) is type(self) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._rows)

    def to_pandas(self) -> Any:
        """Return the table as a pandas ``DataFrame``; needs the ``pandas`` extra."""
        return data_frame(map(dict, self), self.columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rows,)

    def to_text(self, top: int | None = 10, depth: int | None = None) -> str:
        """Return the table as text.

        Args:
            top: The largest number of rows. A longer table shows the rows with the most time or work. None: all rows.
            depth: The largest depth to show, in a table of layers. None and -1: all depths.
        """
        text: str = _import_drawing().table_text(self, TOP("top", top), DEPTH("depth", depth))
        return text

    def save(self, path: str | PathLike[str]) -> None:
        """Write all rows to a file. The suffix sets the format: .csv, .json (both in base units), .txt or .md.

        Any other suffix raises `ArgumentError`.
        """
        _import_drawing().save(self, Path(PATH("path", path)))

    def __str__(self) -> str:
        return printable(self.to_text())

    def __repr__(self) -> str:
        """Return the first rows as text, as a data frame does."""
        return self.to_text()

    def _repr_html_(self) -> str | None:
        """Return the first rows as a notebook shows them."""
        html: str | None = _import_drawing().draw_html_fragment(self)
        return html


def _import_drawing() -> Any:
    """Return the module that draws tables: by its name, because tables are data and import no module that draws."""
    return import_module("profilerkit.render.tables")
