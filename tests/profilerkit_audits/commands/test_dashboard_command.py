"""``profilerkit dashboard``: what it writes, and what it says of what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_rows import fill
from click.testing import CliRunner

from profilerkit.cli import cli, main
from profilerkit_audits import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "runs.db") as store:
        fill(store, 3)
    return tmp_path / "runs.db"


def test_it_writes_the_page(path: Path) -> None:
    output = path.with_name("audit.html")
    result = CliRunner().invoke(cli, ["dashboard", str(path), "-o", str(output)])
    assert (result.exit_code, result.output) == (0, f"3 rows in {output}\n")
    assert "zoo:model_00002" in output.read_text(encoding="utf-8")
    assert not output.with_name("audit-models").exists(), "no row has a report"


def test_a_store_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["dashboard", str(tmp_path / "none.db"), "-o", str(tmp_path / "audit.html")])
    assert end.value.code == 3
    assert "there is no store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_there_is_an_error(path: Path) -> None:
    result = CliRunner().invoke(cli, ["dashboard", str(path), "-o", str(path.with_name("a.html")), "--run", "x"])
    assert result.exit_code == 2
    assert "there is no run 'x'; the newest are: " in result.output
