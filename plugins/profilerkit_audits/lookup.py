"""Finding by name: a store, a run of the store, and the rows of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from os import PathLike

from profilerkit.count_text import format_count
from profilerkit.errors import ArgumentError, by_likeness

from .rows import Row
from .store import Run, Store

_LAST = re.compile(r"last(?:~(\d+))?")


@contextmanager
def open_store(store: Store | str | PathLike[str]) -> Iterator[Store]:
    """Open a store to read it; a store that is open already stays open."""
    if isinstance(store, Store):
        yield store
    else:
        with Store.open(store, create=False) as opened:
            yield opened


def find_run(store: Store, name: str) -> Run:
    """Return a run by its identifier or the beginning of it, or by its age: ``last``, ``last~1`` for the run before.

    Raises `ArgumentError` if there is no such run, or if several identifiers begin so.
    """
    runs = store.runs()
    match = _LAST.fullmatch(name)
    if match is not None:
        age = int(match.group(1) or 0)
        if age < len(runs):
            return runs[-1 - age]
        raise ArgumentError(f"there is no run {name!r}: the store has {format_count(len(runs), 'run')}")
    matching = [run for run in runs if name and run.run.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    newest = ", ".join(f"{run.run[:12]} of {run.started[:16]}" for run in reversed(runs[-5:])) or "none"
    if matching:
        raise ArgumentError(f"{len(matching)} runs begin with {name!r}; give more of its identifier, or last~N")
    raise ArgumentError(f"there is no run {name!r}; the newest are: {newest}; 'last' and 'last~1' are names too")


def find_rows(store: Store, model: str) -> list[Row]:
    """Return all rows of a model, each attempt: by spec, by a pattern of specs, or by the name in its report.

    Raises `ArgumentError` for a model that the store has not, with the nearest specs.
    """
    rows = list(store.rows(spec=model, all_attempts=True)) or list(store.rows(all_attempts=True))
    specs = {row.spec for row in rows if model in (row.spec, row.name) or fnmatchcase(row.spec, model)}
    if not specs:
        nearest = ", ".join(by_likeness(model, dict.fromkeys(row.spec for row in rows))[:5])
        raise ArgumentError(
            f"the store has no model {model!r}; {f'the nearest are: {nearest}' if nearest else 'it has no rows'}"
        )
    return [row for row in rows if row.spec in specs]
