"""What an audit prints at its end, written by hand for rows that nothing has measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from profilerkit import Completeness
from profilerkit.trace.bounds import Sign
from profilerkit_audits import FailureCode, Row, RowStatus, Value
from profilerkit_audits.summary import AuditResult, summarize

SIGNAL = "the process was ended by the signal SIGSEGV (macs failed)"
REASON = "aten.odd (2 calls)"
ODD = Value(3_000_000, "MACs", Completeness.PARTIAL, REASON, low=3_000_000, shown="3 MMACs", sign=Sign.LOWER)
ROWS = [
    Row("zoo:small", "a", RowStatus.COMPLETE, values={"macs": Value(1000, "MACs", shown="1 kMACs")}),
    Row(
        *("zoo:big", "b", RowStatus.COMPLETE),
        values={
            "macs": Value(5_000_000, "MACs", shown="5 MMACs"),
            "execution_time": Value(0.002, "s", samples=9, shown="2 ms ±3% [1.9, 2.2]", brief="2 ms ±3%"),
            "accuracy": Value(0.9, shown="0.9"),
        },
    ),
    Row("zoo:odd", "c", RowStatus.PARTIAL, reason="aten.odd (2 calls) (macs partial)", values={"macs": ODD}),
    Row(
        *("zoo:empty", "d", RowStatus.COMPLETE),
        values={"macs": Value(0, "MACs", shown="0 MACs")},
        flags=("macs: it is 0, and is reported as complete",),
    ),
    Row("zoo:gone", "e", RowStatus.FAILED, FailureCode.SIGNAL, SIGNAL, values={"macs": Value(None)}),
    Row("zoo:lost", "f", RowStatus.FAILED, FailureCode.SIGNAL, SIGNAL),
]

TEXT = """\
4 rows by MACs, the largest first
                           Execution
 Model              MACs        time   Accuracy
 ──────────────────────────────────────────────
 zoo:big         5 MMACs    2 ms ±3%        0.9
 zoo:odd       ≥ 3 MMACs           -          -
 zoo:small       1 kMACs           -          -
 ! zoo:empty      0 MACs           -          -

2 failed (signal): the process was ended by the signal SIGSEGV (macs failed)
  zoo:gone, zoo:lost
1 partial: aten.odd (2 calls) (macs partial)
  zoo:odd
1 not plausible: macs: it is 0, and is reported as complete
  zoo:empty
3 complete, 2 failed, 1 partial
6 measured, 0 in the store before; run rrrrrrrrrrrr in zoo.db
all values: profilerkit export zoo.db --output rows.csv
as a page: profilerkit dashboard zoo.db --output audit.html"""


def write(
    rows: list[Row],
    metrics: tuple[str, ...] = ("macs", "execution_time"),
    store: str | Path = "zoo.db",
    color: bool = False,
) -> str:
    """Return the text of a run that measured these rows."""

    def read(finished: AuditResult) -> Iterator[Row]:
        return iter(rows)

    counts = Counter(row.status.value for row in rows)
    with mock.patch.object(AuditResult, "rows", read):
        return summarize(AuditResult("r" * 32, str(store), counts, len(rows), 0, metrics), color)


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def test_what_each_model_costs_stands_before_what_failed() -> None:
    assert write(ROWS) == TEXT


def test_colors_mark_what_is_not_complete_and_change_no_text() -> None:
    colored = write(ROWS, color=True)
    assert "\x1b[33m≥ 3 MMACs" in colored
    assert "\x1b[1;31m! zoo:empty" in colored
    plain = re.sub(r"\x1b\[[\d;]*m", "", colored)
    assert [line.rstrip() for line in plain.splitlines()] == TEXT.splitlines()


def test_a_result_is_printed_as_the_text() -> None:
    finished = AuditResult("r" * 32, "zoo.db", {}, 0, 0)
    with mock.patch.object(AuditResult, "rows", lambda self: iter(())):
        assert str(finished) == "no rows\n0 measured, 0 in the store before; run rrrrrrrrrrrr in zoo.db"


def test_rows_of_one_case_are_one_line() -> None:
    """Two entries of a plan measured zoo:net in a batch of 1, each another metric; a third one in a batch of 8.

    A third entry has both: its count has failed, so that the one before stays, and its time is the newest.
    """

    def row(key: str, status: RowStatus, batch: int, **values: Value) -> Row:
        return Row("zoo:net", key, status, settings={"batch_size": batch}, values=values)

    macs, time = Value(1000, "MACs", shown="1 kMACs"), Value(0.002, "s", samples=9, shown="2 ms")
    later = Value(0.003, "s", samples=9, shown="3 ms")
    text = write(
        [
            row("a", RowStatus.COMPLETE, 1, macs=macs),
            row("b", RowStatus.COMPLETE, 8, macs=Value(8000, "MACs", shown="8 kMACs")),
            row("c", RowStatus.COMPLETE, 1, execution_time=time),
            row("d", RowStatus.FAILED, 1, macs=Value(None, completeness=Completeness.FAILED), execution_time=later),
        ]
    )
    assert text.startswith("2 rows by MACs, the largest first")
    lines = [line.split() for line in text.splitlines() if "zoo:net" in line]
    assert lines == [
        ["zoo:net", "batch_size=8", "8", "kMACs", "-"],
        ["zoo:net", "batch_size=1", "1", "kMACs", "3", "ms"],
    ]


def test_of_many_rows_the_largest_and_the_smallest() -> None:
    """Of 53 rows, nine at each end and the 35 between them in one line; their order in the store does not matter."""
    several = [
        Row(f"zoo:net_{7 * number % 53:02d}", str(number), RowStatus.COMPLETE, values={"macs": Value(7 * number % 53)})
        for number in range(53)
    ]
    lines = write(several).splitlines()
    assert lines[0] == "53 rows by MACs: the 9 largest and the 9 smallest"
    first = [line.split("  ")[0].strip() for line in lines[3:22]]
    assert first == [
        *(f"zoo:net_{number}" for number in range(52, 43, -1)),
        "... 35 others",
        *(f"zoo:net_0{number}" for number in range(8, -1, -1)),
    ]
    assert lines[22] == ""
    assert lines[23] == "53 complete"


@pytest.mark.parametrize("known", [0, 5, 30])
def test_no_row_is_at_both_ends(known: int) -> None:
    """Thirty rows of equal parameters, of which some have MACs, all equal: the first nine, and the last nine."""
    values = {"total_params": Value(2, shown="2")}
    several = [
        Row(f"zoo:{number:02d}", str(number), RowStatus.COMPLETE, values=values | ({"macs": Value(7)} if has else {}))
        for number, has in enumerate([True] * known + [False] * (30 - known))
    ]
    shown = re.findall(r"^ zoo:(\d+)", write(several, ("macs", "total_params")), re.MULTILINE)
    assert list(map(int, shown)) == [*range(9), *range(21, 30)]


def test_settings_stand_beside_models_where_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan without metrics shows the usual ones: parameters, MACs, memory, time."""
    values = {"flops": Value(9, shown="9 FLOPs"), "macs": Value(4, shown="4 MACs"), "total_params": Value(2, shown="2")}
    settings = [{"batch_size": size, "device": "cpu"} for size in (1, 8)]
    several = [Row("zoo:net", str(one), RowStatus.COMPLETE, settings=one, values=values) for one in settings]
    lines = [" ".join(line.split()) for line in write(several, ()).splitlines()]
    assert lines[0] == "2 rows by total params, the largest first"
    assert lines[1:3] == ["Total", "Model Settings params MACs"]
    assert lines[4:6] == ["zoo:net batch_size=1 2 4 MACs", "zoo:net batch_size=8 2 4 MACs"]


@pytest.mark.parametrize("is_told_apart", [True, False])
def test_a_narrow_terminal_leaves_out_columns(is_told_apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 80 columns a long name takes 36: settings go first, but where they tell rows of one model apart."""
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"metric_{letter}" for letter in "abcd"]
    values = {name: Value(1, shown="1.234 MMACs") for name in names}
    several = [
        Row(
            f"../a/long/path/of/models/to/net_{size if is_told_apart else 0}.py:build",
            *(str(size), RowStatus.COMPLETE),
            settings={"batch_size": size},
            values=values,
        )
        for size in (1, 8)
    ]
    text = write(several, tuple(names))
    table = text.partition("\n2 complete")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert ".../path/of/models/to/net_" in table
    assert ("batch_size=8" in table) is not is_told_apart
    # with a space before and behind each and a gap of one: (1 + 36 + 1) + 3 * (3 + 11) = 80; settings take 3 + 12
    expected = "(no room for Settings, Metric d)" if is_told_apart else "(no room for Metric d, Metric c, Metric b)"
    assert expected in table
    assert "continued" not in table


def test_problems_are_grouped_and_long_lists_end() -> None:
    several = [
        Row(f"zoo:{number}", str(number), RowStatus.FAILED, FailureCode.MODEL, f"reason {number // 5}")
        for number in range(110)
    ]
    lines = write(several).splitlines()
    assert lines[:2] == ["5 failed (model): reason 0", "  zoo:0, zoo:1, zoo:2 and 2 more"]
    assert lines[38:42] == [
        "5 failed (model): reason 19",
        "  zoo:95, zoo:96, zoo:97 and 2 more",
        "10 with 2 other reasons",
        "110 failed",
    ]


def test_problems_and_warnings_that_are_not_named_are_counted() -> None:
    """Eight problems that are no failures are named, and five warnings, the most frequent first."""
    rows = [Row(f"zoo:{number}", str(number), RowStatus.PARTIAL, reason=f"reason {number}") for number in range(10)]
    assert "1 partial: reason 7\n  zoo:7\n1 with 1 other reason\n9 partial" in write(rows[:9])
    assert "1 partial: reason 7\n  zoo:7\n2 with 2 other reasons\n10 partial" in write(rows)
    warnings = [f"argument {number}" for number in range(7)]
    rows = [
        Row("zoo:a", str(at), RowStatus.COMPLETE, conditions={"warnings": some})
        for at, some in enumerate((warnings, warnings[6:]))
    ]
    lines = [line for line in write(rows).splitlines() if "warning" in line]
    assert lines[0] == "warning of 2 rows: argument 6"
    assert lines[1:5] == [f"warning of 1 row: argument {number}" for number in range(4)]
    assert lines[5:] == ["and 2 other warnings, which the rows have (conditions)"]


def test_why_models_failed_stands_before_what_is_partial() -> None:
    """However many models are partial for however many reasons."""
    partial = [
        Row(f"zoo:{number}", str(number), RowStatus.PARTIAL, reason=f"reason {number // 2}") for number in range(40)
    ]
    failed = [Row(f"zoo:f{number}", f"f{number}", RowStatus.FAILED, reason=f"bug {number}") for number in range(20)]
    lines = write([*partial, *failed]).splitlines()
    assert lines[:40:2] == [f"1 failed: bug {number}" for number in range(20)]
    assert lines[40] == "2 partial: reason 0"


def test_what_a_model_writes_cannot_move_the_cursor() -> None:
    evil = Row("zoo:\x1b[2J", "a", RowStatus.FAILED, FailureCode.MODEL, "it said \x1b[2J")
    assert "\x1b" not in write([evil], color=True)


def test_a_path_with_a_space_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "profilerkit export 'my zoo.db' --output rows.csv" in write(ROWS, store=tmp_path / "my zoo.db")
