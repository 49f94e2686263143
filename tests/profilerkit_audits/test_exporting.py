"""Exports: every form has the rows and the reports, and what is private stays here."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profilerkit import ArgumentError, Report, profile
from profilerkit_audits import FailureCode, Row, RowStatus, Run, Store, Value, add_report, export, hiding
from profilerkit_audits.hiding import hide, hide_text
from profilerkit_audits.rows import decode
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
            "tries": {"t": (0.5, 1.0)},
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


def read_lines(store: Store, file: Path, private: bool) -> list[dict[str, Any]]:
    """Return the lines of an export by their columns."""
    assert export(store, file, private=private) == 2
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in file.read_text().splitlines()]
    import pyarrow.parquet

    lines: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
    return lines


@pytest.mark.parametrize("suffix", FORMS, indirect=True)
@pytest.mark.parametrize("private", [True, False])
def test_a_line_has_the_row_and_the_report(suffix: str, private: bool, store: Store, tmp_path: Path) -> None:
    first, second = read_lines(store, tmp_path / f"rows{suffix}", private)
    rows = list(store.rows())
    assert first["value.macs"] == json.loads(first["row"])["values"]["macs"]["value"] == 32
    (tmp_path / "report.json").write_text(first["report"])
    report = Report.load(tmp_path / "report.json")
    assert report["macs"] == 32
    assert second["report"] == ""
    reason = "no file /home/someone/nets/net.py:12; see https://host.example/a/b"
    if private:
        assert [decode(line["row"]) for line in (first, second)] == rows
        assert report == store.report(rows[0])
        assert second["reason"] == reason
    else:
        assert "host" not in report.environment
        assert second["reason"] == decode(second["row"]).reason == "no file …/net.py:12; see https://host.example/a/b"


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
    assert not {"row", "report"} & lines[0].keys(), "no cell is as long as a report"


@pytest.mark.parametrize("suffix", [*FORMS, ".csv"], indirect=True)
def test_a_store_without_rows(suffix: str, tmp_path: Path) -> None:
    with Store.open(tmp_path / "none.db") as nothing:
        assert export(nothing, tmp_path / f"none{suffix}") == 0


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
    monkeypatch.setattr("socket.gethostname", lambda: "greenmachine")
    monkeypatch.setattr("getpass.getuser", lambda: "jdoe")
    hiding._compile_names.cache_clear()
    hiding._read_secrets.cache_clear()
    try:
        assert hide_text("jdoe@greenmachine says correct-horse-battery; jdoes") == "<name>@<name> says <secret>; jdoes"
    finally:
        monkeypatch.undo()
        hiding._compile_names.cache_clear()
        hiding._read_secrets.cache_clear()
