"""Exports: every form is read back unchanged, a changed file is an error, and what is private stays here."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profilerkit import ArgumentError, Report, ReportFileError, profile
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value, add_report, export, hiding, read_export
from profilerkit_audits.hiding import hide, hide_text
from profilerkit_numpy.layers import Sequential, dense

FORMS = (".parquet", ".jsonl")


@pytest.fixture
def suffix(request: pytest.FixtureRequest) -> str:
    """Return the suffix of a test; skip Parquet's without a pyarrow that can be imported: today's needs numpy 2."""
    form: str = getattr(request, "param", ".parquet")
    if form == ".parquet":
        pytest.importorskip("pyarrow", exc_type=ImportError)
    return form


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "runs.db") as opened:
        model = Sequential(dense(4, 8))
        add_report(opened, profile(model, input_shape=(4,), metrics=["macs", "execution_time"], num_iters=3))
        run = opened.begin_run(Run("", "", machine="m"), {"cpu": "A"}).run
        values = {"of_mine": Value(2**70 + 1), "macs": Value(None, "MACs", reason='none, "quoted"\nand more')}
        reason = "no file /home/someone/nets/net.py:12; see https://host.example/a/b"
        content: dict[str, Any] = {
            "settings": {"input_shape": [1, None]},
            "flags": ("a, b",),
        }
        opened.add(
            Row(
                "nets/é.py:b",
                "k",
                RowStatus.FAILED,
                FailureCode.MODEL,
                reason,
                values=values,
                machine="m",
                run=run,
                **content,
            )
        )
        yield opened


@pytest.mark.parametrize("suffix", FORMS, indirect=True)
def test_rows_and_reports_are_read_back_unchanged(suffix: str, store: Store, tmp_path: Path) -> None:
    file = tmp_path / f"rows{suffix}"
    assert export(store, file, private=True) == 2
    rows = list(store.rows())
    read = list(read_export(file))
    assert [row for row, _ in read] == rows
    assert [report for _, report in read] == [store.report(row) for row in rows]
    assert read[0][0].checksum == rows[0].checksum != ""


def test_files_of_before_are_read_back(store: Store, tmp_path: Path) -> None:
    """Their columns and their digest: of the number, of how many, the row and the report, as a list in JSON."""
    export(store, tmp_path / "rows.jsonl")
    line = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[1])
    assert (line["number"], line["of"]) == (2, 2)
    core = json.dumps([2, 2, line["row"], line["report"]])
    assert line["digest"] == hashlib.sha256(core.encode()).hexdigest()


@pytest.mark.parametrize("suffix", FORMS, indirect=True)
def test_an_export_without_private_things_is_whole_too(suffix: str, store: Store, tmp_path: Path) -> None:
    file = tmp_path / f"rows{suffix}"
    export(store, file)
    (first, report), (second, none) = read_export(file)
    assert report is not None
    assert none is None
    assert "host" not in report.environment
    assert first["macs"] == report["macs"] == 32
    assert second.reason == "no file …/net.py:12; see https://host.example/a/b"


def test_the_columns_of_values_are_numbers_for_other_programs(suffix: str, store: Store, tmp_path: Path) -> None:
    import pandas as pd

    export(store, tmp_path / f"rows{suffix}")
    frame = pd.read_parquet(tmp_path / f"rows{suffix}")
    assert frame["value.macs"].tolist()[0] == 32
    assert frame["value.of_mine"].tolist()[1] == float(2**70 + 1)
    export(store, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert [line["value.macs"] for line in lines] == ["32", ""]
    assert lines[1]["reason"].startswith("no file …/net.py:12; see https")
    assert not {"number", "of", "row", "report", "digest"} & lines[0].keys(), "no cell is as long as a report"
    with pytest.raises(ArgumentError, match="only exports to .parquet and .jsonl are read back"):
        next(read_export(tmp_path / "rows.csv"))


def test_a_file_that_was_changed_or_cut_off_is_an_error(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    export(store, file)
    text = file.read_text()
    for changed, message in (
        (text.replace('\\"failed\\"', '\\"complete\\"'), "the digest of row 2 does not fit"),
        (text.splitlines()[0] + "\n", "has 1 rows of 2: it was cut off"),
        (text[:-20], "line 2 is no JSON"),
        ("".join(reversed(text.splitlines(keepends=True))), "row 1 has the number 2"),
        ('{"a": 1}\n', "is no export of profilerkit: line 1 has no"),
        ("3\n", "line 1 is no row"),
    ):
        file.write_text(changed)
        with pytest.raises(ReportFileError, match=message):
            list(read_export(file))


def test_a_file_in_another_encoding_is_an_error(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    export(store, file)
    file.write_bytes(file.read_bytes().replace(b"net.py", b"n\xe9t.py"))
    with pytest.raises(ReportFileError, match="line 2 is no JSON"):
        list(read_export(file))


@pytest.mark.parametrize("suffix", FORMS, indirect=True)
def test_no_rows_are_read_back_and_an_emptied_file_is_an_error(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"none{suffix}"
    with Store.open(tmp_path / "none.db") as nothing:
        assert export(nothing, file) == 0
    assert list(read_export(file)) == []
    file.write_bytes(b"")
    with pytest.raises(ReportFileError, match="is empty: was it cut off"):
        list(read_export(file))


def test_what_only_begins_as_parquet_does_is_an_error(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows{suffix}"
    file.write_bytes(b"PAR1 and then something else")
    with pytest.raises(ReportFileError, match="is no Parquet file"):
        list(read_export(file))


def test_another_suffix(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"'rows\.xlsx': .* no export format to write; use one of \.parquet, "):
        export(store, tmp_path / "rows.xlsx")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in act (/work/nets/a b/net.py:3)", "in act (…/net.py:3)"),
        ("no file '/home/some one/v1.2 nets/a b.onnx'", "no file '…/a b.onnx'"),
        ("read /home/me/net.py in 3 s/step, wrote /tmp/b to /var/d", "read …/net.py in 3 s/step, wrote …/b to …/d"),
        (r"C:\Users\Some One\My Nets\net.py:12", "…/net.py:12"),
        ("in act ('/work/nets/a b/net.py':3)", "in act ('…/net.py':3)"),
        ("/work/my nets/a b/net.py:build", "…/net.py:build"),
        ("hf:/work/my nets/bert", "hf:…/bert"),
        (r'no file "C:\my nets\net.py", or b/c', 'no file "…/net.py", or b/c'),
        ("/home/a b.py or /home/b c.py: 3 FLOPs/s", "…/a b.py or …/b c.py: 3 FLOPs/s"),
        ("/tmp", "…/tmp"),
        (r"C:\Users\someone\net.py", "…/net.py"),
        ("3 FLOPs/s and/or a/b/c.py", "3 FLOPs/s and/or a/b/c.py"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("https://example.org:80/home/b/", "https://example.org:80/home/b/"),
        ("file:///home/someone/net.py", "file://…/net.py"),
        ("sqlite:////home/someone/runs.db", "sqlite:///…/runs.db"),
        ("hf:/home/someone/bert", "hf:…/bert"),
        (r"hf:C:\Users\someone\bert", "hf:…/bert"),
        ("postgresql://me:pw@db/x", "postgresql://<secret>@db/x"),
        ("API_KEY=abc123 rest", "API_KEY=<secret> rest"),
        ("ghp_" + "a1" * 18, "<secret>"),
        ("hf_" + "Z9" * 17, "<secret>"),
        ("AKIA" + "B2" * 8, "<secret>"),
    ],
)
def test_what_is_hidden_by_its_form(text: str, expected: str) -> None:
    assert hide_text(text) == expected


@pytest.mark.parametrize(
    "name", ["/layer1/conv1/Conv", "/encoder/layers.0/attn/MatMul_1_output_0", "onnx::Conv of '/net/Add'"]
)
def test_a_name_in_a_graph_ends_with_an_operator_and_is_no_path(name: str) -> None:
    assert hide_text(f"{name} (2 calls)") == f"{name} (2 calls)"


def test_paths_of_this_machine_and_of_others_are_hidden(tmp_path: Path) -> None:
    """Whatever their top folder is called."""
    for folder in (tmp_path, Path.home(), Path.cwd(), Path(pytest.__file__).parent):
        assert hide_text(f"see {folder / 'nets' / 'net'}!") == "see …/net!"
    assert hide_text("/Users/jo/net and /scratch/jo/net") == "…/net and …/net"
    for name in ("net.py:12", "Net.py:12", "nets", "nets/v1.2"):
        assert hide_text(f"in /odd-disk/jo/{name}") == f"in …/{Path(name).name}"


def test_inputs_that_are_called_user_and_host_stay() -> None:
    settings = {"input_shape": {"user": [4], "host": {"shape": [2], "dtype": "int64"}}}
    assert hide({"settings": settings, "environment": {"user": "me", "host": "here", "cpu": "x"}}) == {
        "settings": settings,
        "environment": {"cpu": "x"},
    }


def test_names_and_secrets_of_this_machine_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "correct-horse-battery")
    monkeypatch.setenv("HTTP_AUTHORIZATION", "Bearer-of-staples")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "sequential")  # git sets it for its hooks; no secret, and a word of reports
    monkeypatch.setattr("socket.gethostname", lambda: "greenmachine")
    monkeypatch.setattr("getpass.getuser", lambda: "jdoe")
    hiding._compile_names.cache_clear()
    hiding._read_secrets.cache_clear()
    try:
        text = "jdoe@greenmachine says correct-horse-battery, Bearer-of-staples; jdoes sequential"
        assert hide_text(text) == "<name>@<name> says <secret>, <secret>; jdoes sequential"
    finally:
        monkeypatch.undo()
        hiding._compile_names.cache_clear()
        hiding._read_secrets.cache_clear()


def test_a_saved_report_of_an_export_can_be_loaded(store: Store, tmp_path: Path) -> None:
    export(store, tmp_path / "rows.jsonl")
    line = json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[0])
    (tmp_path / "report.json").write_text(line["report"])
    assert Report.load(tmp_path / "report.json")["macs"] == 32
