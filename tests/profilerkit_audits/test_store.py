"""The store: what is put in comes out unchanged, nothing is changed in it, and what is no store is an error."""

from __future__ import annotations

import platform
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace as with_facts
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from profilerkit import Completeness, Report, StoreError, profile
from profilerkit.isolation import processes
from profilerkit.process.environment import machine
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value, add_report
from profilerkit_audits.dashboard import write
from profilerkit_audits.database import hide_password, parse_url
from profilerkit_audits.exporting import export
from profilerkit_audits.machines import digest_machine, read_machine, read_stated_machine
from profilerkit_numpy.layers import Sequential, dense

KEY = "k" * 64


def row(run: str, **fields: Any) -> Row:
    values = {
        "macs": Value(2**70 + 1, "MACs", shown="1.18e21 MACs"),
        "execution_time": Value(0.5, "s", low=0.4, high=0.7, samples=12, noise=0.3),
        "flops": Value(None, "FLOPs", Completeness.FAILED, "it crashed\x00 \ud800"),
    }
    content: dict[str, Any] = {
        "settings": {"batch_size": 8, "input_shape": [3, 4]},
        "flags": ("odd",),
    }
    content |= {"versions": {"python": "3.11"}, "conditions": {"load_before": 0.1, "signs": []}, "values": values}
    base = Row("net.py:build", KEY, RowStatus.FAILED, FailureCode.SIGNAL, "it crashed", run=run, machine="m", **content)
    return replace(base, **fields)


def report(name: str | None = None) -> Report:
    return profile(Sequential(dense(4, 8)), input_shape=(4,), metrics=["macs", "total_params"], name=name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened:
        yield opened


def begun(store: Store) -> str:
    return store.begin_run(Run("", "", plan={"models": [1]}, machine="m", commit="c+"), {"cpu": "A"}).run


def test_a_row_comes_back_as_it_was(store: Store) -> None:
    run = begun(store)
    original = row(run)
    added = store.add(original, report())
    (read,) = store.rows()
    values = {**original.values, "flops": replace(original.values["flops"], reason="it crashed\x00 ?")}
    ignored: dict[str, Any] = {"id": added.id, "created": added.created, "checksum": added.checksum}
    assert read.values == values, "every digit of a count, and no half of a surrogate pair"
    assert read == added == replace(original, values=values, **ignored)
    assert store.report(read) == store.report(added)
    assert store.machines() == {"m": {"cpu": "A"}}


def test_the_report_comes_back_with_its_checksum(store: Store, tmp_path: Path) -> None:
    original = report()
    original.save(tmp_path / "saved.json")
    added = store.add(row(begun(store)), original)
    assert store.report(added) == original
    content = store.report_json(added)
    assert content is not None
    (tmp_path / "from_store.json").write_bytes(content)
    assert Report.load(tmp_path / "from_store.json") == original
    assert added.checksum in (tmp_path / "saved.json").read_text()


def test_a_row_that_is_measured_again_is_a_further_one(store: Store) -> None:
    first, second = begun(store), begun(store)
    store.add(row(first))
    store.add(row(second, reason="again"))
    assert [(one_row.attempt, one_row.reason) for one_row in store.rows()] == [(2, "again")]
    assert [one_row.attempt for one_row in store.rows(all_attempts=True)] == [1, 2]
    assert store.latest([KEY, "other"])[KEY].attempt == 2
    assert [one_row.attempt for one_row in store.rows(run=first)] == [1], "a run keeps the rows that it had"


def test_a_run_consists_of_reused_rows_too(store: Store) -> None:
    added = store.add(row(begun(store)))
    later = begun(store)
    store.reuse(later, [added.id or 0])
    assert [one_row.run for one_row in store.rows(run=later)] == [added.run]
    store.end_run(later, "interrupted")
    runs = {run.run: run for run in store.runs()}
    assert (runs[later].outcome, runs[added.run].outcome) == ("interrupted", "")
    assert runs[later].plan == {"models": [1]}


def test_many_rows_come_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(store)
    for number in range(7):
        store.add(row(run, key=f"{number}", spec=f"s{number % 2}"))
    monkeypatch.setattr("profilerkit_audits.store._AT_ONCE", 3)
    assert [one_row.key for one_row in store.rows()] == [str(number) for number in range(7)]
    assert [one_row.key for one_row in store.rows(spec="s1")] == ["1", "3", "5"]
    assert set(store.latest(map(str, range(9)))) == set(map(str, range(7)))


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path / "runs.db").close()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection, connection:
        connection.execute("UPDATE profilerkit_store SET version = 99")
    connection.close()
    with pytest.raises(StoreError, match="has version 99, and this profilerkit reads version 1; use the profilerkit"):
        Store.open(tmp_path / "runs.db")


def test_a_row_that_was_damaged_is_an_error_and_no_wrong_number(store: Store) -> None:
    store.add(row(begun(store)))
    with store._transact(writes=True) as connection:
        connection.exec_driver_sql('UPDATE rows SET content = replace(content, \'"samples": 12\', \'"samples": "x"\')')
    with pytest.raises(StoreError, match="row 1 of the store is damaged: Expected `int`, got `str`"):
        list(store.rows())


@pytest.mark.parametrize(
    ("text", "words"), [("{bad", ""), ("[1]", "Expected `object`, got `array`"), ("[" * 100_000, ""), ("\x80", "")]
)
def test_every_column_of_json_that_was_damaged_is_an_error_of_the_store(store: Store, text: str, words: str) -> None:
    run = begun(store)
    store.add(row(run))
    with store._transact(writes=True) as connection:
        for table, column in (("rows", "content"), ("runs", "content"), ("machines", "facts")):
            connection.exec_driver_sql(f"UPDATE {table} SET {column} = ?", (text,))
    reads = {"row 1": lambda: list(store.rows()), f"run {run}": store.runs, "machine m": store.machines}
    for name, read in reads.items():
        with pytest.raises(StoreError, match=f"^{name} of the store is damaged: .*{words}"):
            read()


@pytest.mark.parametrize("content", [b"no zlib", *map(zlib.compress, [b"{bad", b"[1]", b"\xff", b"[" * 100_000])])
def test_a_report_that_was_damaged_is_an_error_of_the_store(store: Store, content: bytes, tmp_path: Path) -> None:
    run = begun(store)
    added = store.add(row(run), report())
    with store._transact(writes=True) as connection:
        connection.exec_driver_sql("UPDATE reports SET content = ?", (content,))
    for read in (
        lambda: store.report(added),
        lambda: store.report_json(added),
        lambda: export(store, tmp_path / "rows.jsonl"),
        lambda: write(store, tmp_path / "audit.html"),
    ):
        with pytest.raises(StoreError, match="^the report of row 1 is "):
            read()


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE rows (a)")
    connection.close()
    with pytest.raises(StoreError, match="tables rows, and is no store"):
        Store.open(tmp_path / "other.db")
    (tmp_path / "text.db").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(StoreError, match="file is not a database"):
        Store.open(tmp_path / "text.db")
    if processes.LINUX:
        open_files = {link.resolve() for link in Path("/proc/self/fd").iterdir()}
        assert not open_files & {tmp_path / "other.db", tmp_path / "text.db"}, "what is refused is closed"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me@host/x", "a store in mysql is not offered"),
        ("nothing at all://", "is no URL of a store"),
        ("no/such/folder/runs.db", "there is no folder"),
    ],
)
def test_a_wrong_url_is_an_error(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        Store.open(url)


def test_a_store_that_is_only_read_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        Store.open(tmp_path / "runs.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_shown() -> None:
    assert parse_url("postgresql://me:secret@host/x").render_as_string() == "postgresql+psycopg://me:***@host/x"
    in_query = "postgresql://host/x?user=me&password={}&connect_timeout=3"
    assert hide_password(in_query.format("se=cret")) == in_query.format("***")
    missing = mock.patch("profilerkit_audits.store.create_engine", side_effect=ImportError("no psycopg"))
    with missing, pytest.raises(StoreError, match="needs a package") as caught:
        Store.open(in_query.format("secret"))
    assert "secret" not in str(caught.value)


def test_one_audit_at_a_time_writes_to_a_file(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs.db") as second, store.exclusive():
        message = r"another audit is writing to .*runs\.db \(process \d+\); wait"
        with pytest.raises(StoreError, match=message), second.exclusive():
            pass
        assert add_report(second, report()).attempt == 1, "a single report may be added meanwhile"
    with store.exclusive():
        pass


def test_a_report_without_a_spec_has_its_name_as_one(store: Store) -> None:
    """Also in its key: a model of another name is another one, whatever else is equal."""
    first, other = report(), report("other")
    keys = {added.spec: added.key for added in (add_report(store, first), add_report(store, other))}
    assert len(keys) == len(set(keys.values())) == 2
    again = add_report(store, other, "other")
    assert (again.key, again.attempt) == (keys["other"], 2), "said or not, it is the same model"


def test_a_report_from_elsewhere_is_of_its_own_machine(store: Store) -> None:
    """Times are compared within one kind of machine: whoever puts a report in must not lend it the own one."""
    elsewhere = {"os": "Linux 6.1", "cpu": "another", "cores": "96", "python": "3.12.1"}
    rows = [add_report(store, with_facts(report(), environment=facts)) for facts in (machine(), elsewhere, {})]
    machines = store.machines()
    assert machines[rows[0].machine] == read_machine()
    assert machines[rows[1].machine] == {"system": "Linux", "cpu": "another", "cores": "96"}
    assert (rows[0].versions["python"], rows[1].versions["python"]) == (platform.python_version(), "3.12.1")
    assert rows[2].machine == "", "it states none"


@pytest.mark.parametrize("left_out", ["cpu", "cores", "memory_bytes"])
def test_a_report_that_leaves_a_fact_out_is_not_of_this_machine(store: Store, left_out: str) -> None:
    """What it states is true of other machines too."""
    stated = {name: fact for name, fact in machine().items() if name != left_out}
    added = add_report(store, with_facts(report(), environment=stated))
    expected = {name: fact for name, fact in read_machine().items() if name not in (left_out, "architecture")}
    assert store.machines()[added.machine] == expected


def test_another_gpu_is_another_kind_of_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver has a folder for each GPU; a report names them as frameworks do."""
    monkeypatch.setattr("profilerkit_audits.machines._GPUS", tmp_path)
    digests = {digest_machine(read_machine())}
    for name in ("NVIDIA H100", "NVIDIA H200"):
        for bus in ("0000:01:00.0", "0000:02:00.0"):
            (tmp_path / bus).mkdir(exist_ok=True)
            (tmp_path / bus / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 42\n")
        facts = read_machine()
        assert facts["accelerators"] == f"{name}, {name}"
        assert read_stated_machine({**machine(), "accelerators": f"{name}, {name}"}) == facts
        digests.add(digest_machine(facts))
    assert len(digests) == 3


# The journal ----------------------------------------------------------------------------------------------------------


def test_every_row_is_written_to_the_disk(store: Store) -> None:
    with store._engine.connect() as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert pragmas == ["delete", 3], "the rollback journal, and EXTRA"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_full_disk_is_an_error_that_says_what_to_do(store: Store) -> None:
    """SQLite itself says that the disk is full, once the file may not grow any more."""
    from sqlalchemy import event

    run = begun(store)
    store.add(row(run), report())
    store._engine.dispose()

    @event.listens_for(store._engine, "connect")
    def limit(connection: sqlite3.Connection, record: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match="full; make room and run the same command again: it goes on"):
        for number in range(100):
            store.add(row(run, key=f"{number}"), report())
    numbers = [one_row.key for one_row in store.rows()]
    assert numbers == [KEY, *map(str, range(len(numbers) - 1))], "whole rows, in their order"
    assert all(one_row.values for one_row in store.rows())
