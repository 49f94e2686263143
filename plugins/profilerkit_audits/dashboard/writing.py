"""Writing the page of a store: one file that loads nothing, and beside it a page for each model."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from profilerkit.foreign_text import visible
from profilerkit.process.files import write_text
from profilerkit.results.saving import parse, reseal
from profilerkit_pages import html
from profilerkit_pages.page_data import embed
from profilerkit_pages.page_parts import join_scripts, render_page, source

from ..hiding import hide, hide_text
from ..lookup import find_run
from ..origins import shorten_moment
from ..rows import Row
from ..store import Run, Store
from .page_data import make_page_data
from .subjects import Subject, group_rows

#: Scripts that this page shares with the report's page, and scripts of this page alone, in the order in which they
#: build on each other.
_SHARED = ("format", "elements", "frame", "address", "rows", "filter", "axes", "points", "widths", "table")
_SCRIPTS = ("models", "scatter", "history", "model", "app")


@dataclass(frozen=True)
class Output:
    """The numbers of written rows of the page, and of written pages of single models."""

    rows: int
    pages: int


def write(
    store: Store, path: str | PathLike[str], run: str | None = None, private: bool = False, pages: bool = True
) -> Output:
    """Write the page of a store, or of one run, and without ``pages=False`` the page of each model beside it.

    Without ``private``, secrets, names of users and hosts and absolute paths are left out. Raises `ArgumentError` for a
    run that is not in the store, `OSError` if a file cannot be written.
    """
    output = Path(path)
    subjects = _find_subjects(store, run)
    addresses = [_write_model(store, subject.newest, output, private) for subject in subjects] if pages else []
    write_text(output, _draw(store, subjects, addresses, private))
    return Output(len(subjects), sum(map(bool, addresses)))


def _write_model(store: Store, row: Row, output: Path, private: bool) -> str:
    """Write the page of a row's report, for ``audit.html`` into the folder ``audit-models``; returns its address.

    A file is named by a digest of its content (the report's checksum, the page's style and script), so that an existing
    page is not written again. The address is empty for a row without a report.
    """
    if not row.checksum:
        return ""
    folder = output.with_name(f"{output.stem}-models")
    name = f"{hashlib.sha256(f'{row.checksum}{private}{html.assets()}'.encode()).hexdigest()[:20]}.html"
    if not (folder / name).is_file():
        content = store.report_json(row) or b"null"
        if not private:
            content = json.dumps(reseal(hide(json.loads(content)))).encode()
        folder.mkdir(exist_ok=True)
        write_text(folder / name, html.render(parse(content, f"the report of row {row.id}")))
    return f"{folder.name}/{name}"


def render(store: Store, run: str | None = None, private: bool = False) -> str:
    """Return the page of a store, or of one run, without links to pages of models; raises as `write` does."""
    return _draw(store, _find_subjects(store, run), [], private)


def _find_subjects(store: Store, run: str | None) -> list[Subject]:
    """Return the subjects of a store, or the subjects of a run, with their history up to the run."""
    chosen = "" if run is None else find_run(store, run).run
    return group_rows(store.rows(all_attempts=True), store.list_members, chosen)


def _draw(store: Store, subjects: Sequence[Subject], addresses: Sequence[str], private: bool) -> str:
    runs = store.runs()
    data = make_page_data(subjects, store.machines(), private, store.report)
    data["pages"] = addresses if any(addresses) else []
    style = f"{source('page.css')}\n{source('audit.css', __package__)}"
    script = join_scripts(
        [*(source(f"{name}.js") for name in _SHARED), *(source(f"{name}.js", __package__) for name in _SCRIPTS)]
    )
    # The name of the database, without folders, users and hosts.
    name = visible(store.url if private else hide_text(store.url.rpartition("/")[2].partition("?")[0]))
    facts, cards = _list_facts(subjects, runs, name), list(_list_cards(subjects))
    return render_page("audit.html", style, script, __package__, name=name, facts=facts, cards=cards, data=embed(data))


def _list_facts(subjects: Sequence[Subject], runs: Sequence[Run], name: str) -> list[tuple[str, str]]:
    facts = [("Store", name), ("Runs", str(len(runs)))]
    if runs:
        facts.append(("Last run", f"{shorten_moment(runs[-1].started)} UTC"))
    machines = {row.machine for subject in subjects for row in subject.rows}
    facts.append(("Kinds of machine", str(len(machines))))
    return [*facts, ("Written", datetime.now(UTC).isoformat(sep=" ", timespec="seconds")[:19] + " UTC")]


def _list_cards(subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """Return the numbers above the table, each of which filters it."""
    flagged = sum(bool(subject.newest.flags) for subject in subjects)
    cards = [{"title": "Models and settings", "count": len(subjects), "status": "", "parts": _count_backends(subjects)}]
    for status in ("complete", "partial", "failed"):
        chosen = [subject for subject in subjects if subject.newest.status.value == status]
        codes = Counter(subject.newest.failure.value for subject in chosen if subject.newest.failure is not None)
        parts = ", ".join(f"{code}: {count}" for code, count in codes.most_common())
        cards.append({"title": status.capitalize(), "count": len(chosen), "status": status, "parts": parts})
    if flagged:
        about = "values that cannot be right; each row has the reason"
        cards.append({"title": "Not plausible", "count": flagged, "status": "flagged", "parts": about})
    return cards


def _count_backends(subjects: Sequence[Subject]) -> str:
    backends = Counter(subject.newest.backend for subject in subjects)
    return ", ".join(
        f"{count} {'not built' if backend == 'unknown' else visible(backend)}"
        for backend, count in backends.most_common()
    )
