"""The store on a disk that loses power, or is full, at any call: the rows that were added are there, whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from recorded_sqlite import FULL, IO_ERROR, Call, Disk, Recorder, available
from stores import count_row, network_report

from profilerkit import StoreError
from profilerkit_audits import Run, Store

pytestmark = pytest.mark.skipif(not available(), reason="the library of sqlite3 cannot be reached from here")

ROWS = 3
REPORT = network_report(4, 8, 2)
#: By hand: 4 x 8 + 8 x 2 multiply-accumulates.
MACS = 48


def add(store: Store, run: str, number: int) -> None:
    store.add(count_row(run, number, f"net_{number}", REPORT), REPORT)


def fill_store(folder: Path) -> list[Call]:
    """Return the calls by which a store is made and gets its rows, with a mark where each has been added."""
    with Recorder(folder) as recorder:
        with Store.open(folder / "runs.db") as store:
            recorder.mark("0")
            run = store.begin_run(Run("a run", ""), {"cpu": "A"}).run
            for number in range(ROWS):
                add(store, run, number)
                recorder.mark(str(number + 1))
        return recorder.calls


def moments(calls: list[Call]) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    """Yield every state of the disk, with words for it and how many rows had been added."""
    disk, added = Disk(), -1
    for index, call in enumerate(calls):
        if call.kind == "mark":
            added = int(call.name)
        else:
            disk.take(call)
        for words, state in disk.states():
            yield f"call {index} ({call.kind} {call.name}): {words}", added, state


def restore(folder: Path, state: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for item in folder.iterdir():
        item.unlink()
    for name, content in state.items():
        (folder / name).write_bytes(content)
    return folder / "runs.db"


def require_whole(store: Store, path: Path) -> int:
    """Fail unless the store has whole rows, in their order; returns how many."""
    rows = list(store.rows())
    assert [row.spec for row in rows] == [f"net_{number}" for number in range(len(rows))]
    assert [row["macs"] for row in rows] == [MACS] * len(rows)
    assert all(store.report(row) == REPORT for row in rows)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return len(rows)


def gone_on_with(path: Path, once_more: bool) -> int:
    """Return how many rows a store has after a loss of power; with ``once_more`` a further one is added."""
    with Store.open(path) as store:
        rows = require_whole(store, path)
        if once_more:
            add(store, store.begin_run(Run("", ""), {"cpu": "A"}).run, rows)
            assert require_whole(store, path) == rows + 1
    return rows


@pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_no_loss_of_power_loses_a_row_or_leaves_half_of_one(step: int, tmp_path: Path) -> None:
    """After every call, with what was not synchronised lost, torn, or there in part; and the audit can go on.

    Of the hundreds of states each is looked at, or one of ``step``.
    """
    (tmp_path / "made").mkdir()
    calls = fill_store(tmp_path / "made")
    seen: dict[tuple[tuple[str, bytes], ...], int | None] = {}
    for words, added, state in moments(calls):
        content = tuple(sorted(state.items()))
        if content not in seen:
            number = len(seen)
            wanted = number % step == 0
            path = restore(tmp_path / "crashed", state) if wanted else tmp_path
            seen[content] = gone_on_with(path, number % (5 * step) == 0) if wanted else None
        rows = seen[content]
        assert rows is None or rows in ((added, added + 1) if added >= 0 else (0,)), f"{words}: {added} had been added"
    assert len(seen) > 300
    assert len(set(seen.values()) - {None}) >= ROWS


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("result", [FULL, IO_ERROR])
def test_a_call_that_fails_is_an_error_and_the_store_goes_on(step: int, result: int, tmp_path: Path) -> None:
    """Each call in turn, or one of ``step``, fails once while a row is added, as of a full disk or a broken one."""
    with Recorder(tmp_path) as recorder:
        with Store.open(tmp_path / "runs.db") as store:
            run = store.begin_run(Run("a run", ""), {"cpu": "A"}).run
            add(store, run, 0)
            before = len(recorder.calls)
            add(store, run, 1)
            count = len(recorder.calls) - before
        failed = 0
        for place in range(0, count, step):
            with Store.open(tmp_path / "runs.db") as store:
                rows = len(list(store.rows()))
                left = [place]

                def fail(call: Call, left: list[int] = left) -> int:
                    left[0] -= 1
                    return result if left[0] == -1 else 0

                recorder.fail = fail
                try:
                    add(store, run, rows)
                except StoreError as error:
                    failed += 1
                    assert result != FULL or "make room and run the same command again" in str(error)
                recorder.fail = lambda call: 0
                if len(list(store.rows())) == rows:
                    add(store, run, rows)
                assert require_whole(store, tmp_path / "runs.db") == rows + 1
        assert failed > 1
