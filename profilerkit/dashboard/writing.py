"""Writing the page of a store: one file that loads nothing, and beside it a page for each model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from ..audits.hiding import hidden_text
from ..audits.store import Run, Store
from ..errors import ArgumentError, by_likeness
from ..process.files import write_text
from ..render.grids import visible
from ..render.page_data import embedded
from ..render.page_parts import page_of, script_of, source
from .model_pages import write_pages
from .page_data import page_data
from .subjects import Subject, subjects_of

__all__ = ["Written", "render", "write"]

#: Scripts of the report's page that this one is made with, and those of its own, in the order in which they build on
#: each other.
_SHARED = ("format", "axes")
_SCRIPTS = ("rows", "address", "filter", "table", "scatter", "history", "model", "app")
#: A share of all cores that others may take before the page says that the machine was busy.
_QUIET = 0.05


@dataclass(frozen=True)
class Written:
    """What was written: the rows of the page, and the pages of single models."""

    rows: int
    pages: int


def write(
    store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False, pages: bool = True
) -> Written:
    """Write the page of a store, or of one run, and without ``pages=False`` the page of each model beside it.

    Without ``private``, secrets, names of users and hosts and absolute paths are left out. Raises `ArgumentError` for a
    run that is not in the store, `OSError` if a file cannot be written.
    """
    output = Path(path)
    subjects = _subjects(store, run)
    rows = {index: subject.newest for index, subject in enumerate(subjects)}
    addresses = write_pages(store, rows, output, private) if pages else {}
    write_text(output, _page(store, subjects, addresses, private))
    return Written(len(subjects), len(addresses))


def render(store: Store, run: str | None = None, private: bool = False) -> str:
    """Return the page of a store, or of one run, without links to pages of models; raises as `write` does."""
    return _page(store, _subjects(store, run), {}, private)


def _subjects(store: Store, run: str | None) -> list[Subject]:
    """Return the subjects of a store; of a run those that it has, with their history up to it."""
    runs = [each.run for each in store.runs()]
    if run is not None and run not in runs:
        nearest = ", ".join(by_likeness(run, runs)[:3])
        raise ArgumentError(f"there is no run {run!r} in the store; the nearest are: {nearest or 'none, it is empty'}")
    subjects = subjects_of(store.rows(all_attempts=True))
    if run is None:
        return subjects
    members = {row.id for row in store.rows(run=run, values=False)}
    return [cut for subject in subjects for cut in [_up_to(subject, members)] if cut is not None]


def _up_to(subject: Subject, members: set[int | None]) -> Subject | None:
    """Return a subject with its rows up to the last one among the members; None if it has none of them."""
    last = max((index for index, row in enumerate(subject.rows) if row.id in members), default=None)
    return None if last is None else Subject(subject.id, subject.rows[: last + 1])


def _page(store: Store, subjects: Sequence[Subject], addresses: dict[int, str], private: bool) -> str:
    runs = store.runs()
    data = page_data(subjects, runs, store.machines(), private)
    data["pages"] = [addresses.get(index, "") for index in range(len(subjects))] if addresses else []
    style = f"{source('page.css')}\n{source('audit.css', __package__)}"
    script = script_of(
        [*(source(f"{name}.js") for name in _SHARED), *(source(f"{name}.js", __package__) for name in _SCRIPTS)]
    )
    name = visible(_store_name(store) if not private else store.url)
    return page_of(
        "audit.html",
        style,
        script,
        __package__,
        name=name,
        facts=_facts(subjects, runs, name),
        cards=list(_cards(subjects)),
        data=embedded(data),
    )


def _store_name(store: Store) -> str:
    """Return the name of the database, without folders, users and hosts."""
    return hidden_text(store.url.rpartition("/")[2].partition("?")[0])


def _facts(subjects: Sequence[Subject], runs: Sequence[Run], name: str) -> list[tuple[str, str]]:
    facts = [("Store", name), ("Runs", str(len(runs)))]
    if runs:
        facts.append(("Last run", runs[-1].started[:19].replace("T", " ") + " UTC"))
    machines = {row.machine for subject in subjects for row in subject.rows}
    facts.append(("Kinds of machine", str(len(machines))))
    facts += _business(subjects)
    return [*facts, ("Written", datetime.now(UTC).isoformat(sep=" ", timespec="seconds")[:19] + " UTC")]


def _business(subjects: Sequence[Subject]) -> list[tuple[str, str]]:
    """Return how much of the cores others took while the newest values were measured, if they took any."""
    shares = [subject.newest.conditions.get("busy") for subject in subjects]
    numbers = sorted(share for share in shares if isinstance(share, (int, float)))
    if not numbers or numbers[-1] < _QUIET:
        return []
    usual, most = f"{numbers[len(numbers) // 2]:.0%}", f"{numbers[-1]:.0%}"
    return [("Cores busy with other work", f"{usual} in the median row, {most} at the most")]


def _cards(subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """Return the numbers above the table, each of which filters it."""
    statuses = Counter(subject.newest.status.value for subject in subjects)
    flagged = sum(bool(subject.newest.flags) for subject in subjects)
    cards = [{"title": "Models and settings", "count": len(subjects), "status": "", "parts": _parts(subjects)}]
    for status in ("complete", "partial", "failed"):
        chosen = [subject for subject in subjects if subject.newest.status.value == status]
        ends = Counter(subject.newest.end.value for subject in chosen if subject.newest.end.value != "done")
        parts = ", ".join(f"{count} {end}" for end, count in ends.most_common(4))
        cards.append({"title": status.capitalize(), "count": statuses[status], "status": status, "parts": parts})
    if flagged:
        about = "values that cannot be right; each row has the reason"
        cards.append({"title": "Not plausible", "count": flagged, "status": "flagged", "parts": about})
    return cards


def _parts(subjects: Sequence[Subject]) -> str:
    backends = Counter(subject.newest.backend for subject in subjects)
    return ", ".join(
        f"{count} {'not built' if backend == 'unknown' else visible(backend)}"
        for backend, count in backends.most_common()
    )
