"""The machine of a row, as the page writes it, and what else changed between two measurements."""

from __future__ import annotations

from msgspec.structs import replace

from profilerkit_audits import Row, RowStatus, Value
from profilerkit_audits.dashboard.page_data import make_page_data
from profilerkit_audits.dashboard.subjects import group_rows

FACTS = {"system": "Linux", "cpu": "A 1", "cores": "2", "usable_cores": "2", "memory_bytes": str(3 * 2**30)}


def test_a_machine_is_written_for_people() -> None:
    """3 * 2**30 bytes are 3 GiB; usable cores are mentioned if they are not all, and never the host."""
    row = Row("a.py:f", "k", RowStatus.COMPLETE, machine="m", created="2026-01-01")
    machines = {"m": {**FACTS, "host": "box"}, "n": {**FACTS, "cores": "64"}}
    subjects = group_rows([row, replace(row, spec="b.py:f", machine="n")])
    column = make_page_data(subjects, machines, private=True)["columns"]["machine"]
    texts = column if isinstance(column, list) else [column["of"][place] for place in column["at"]]
    assert texts == ["Linux, A 1, 2 cores, 3 GiB of memory", "Linux, A 1, 64 cores, 2 of them usable, 3 GiB of memory"]


def test_a_history_tells_where_code_and_machine_changed() -> None:
    values = {"macs": Value(3, "MACs")}
    base = Row("a.py:f", "k", RowStatus.COMPLETE, values=values, machine="m", code="one", created="2026-01-01")
    second = replace(base, code="two", created="2026-01-02")
    third = replace(second, machine="n", created="2026-01-03")
    (history,) = make_page_data(group_rows([base, second, third]), {}, private=False)["histories"].values()
    assert (history["code"], history["machine"]) == ([0, 1, 1], [0, 0, 1])
