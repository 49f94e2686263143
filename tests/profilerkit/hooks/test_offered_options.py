"""Options that a package adds to ``profile``: they are found, checked and used like ours."""

from typing import Any

import click
import pytest
from click.testing import CliRunner
from plugin_fixtures import add_entry_point, make_offering, make_raising

from profilerkit import OptionInfo
from profilerkit.cli import cli

MODEL = "import numpy as np\nfrom profilerkit_numpy.layers import Sequential, dense\nmodel = Sequential(dense(4, 2))\n"


@pytest.fixture
def numbers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, entry_points: Any, core: None) -> None:
    """A model of numpy in a file, and the backend for it."""
    add_entry_point(entry_points, "metrics", "profilerkit_metrics.plugin", "profilerkit", "0.1")
    add_entry_point(entry_points, "numpy", "profilerkit_numpy.plugin", "profilerkit-numpy", "0.1")
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        cli, ["profile", "net.py:model", "--input-shape", "4", "--metric", "total_params", "-q", *arguments]
    )
    return result.exit_code, result.output or str(result.exception)


def test_an_option_of_a_package_gets_the_report(install: Any, numbers: None) -> None:
    seen = []
    option = click.Option(["--tag"], help="What the tag does.")
    use = lambda value, report, spec: seen.append((value, report["total_params"], spec))  # noqa: E731
    install("tags", options=make_offering(OptionInfo("--tag", lambda: option, lambda: use)))
    assert run("--tag", "first")[0] == 0
    assert seen == [("first", 4 * 2 + 2, "net.py:model")]
    assert run()[0] == 0
    assert len(seen) == 1, "it was not given"
    assert "What the tag does." in run("--help")[1]


def test_an_option_that_cannot_be_used_says_why(install: Any, numbers: None) -> None:
    install(
        "tags", options=make_offering(OptionInfo("--tag", make_raising(ImportError("no tags here")), lambda: print))
    )
    code, output = run("--tag", "first")
    assert code != 0
    assert "option '--tag' of plugin 'tags'" in output
    assert "cannot be used (ImportError: no tags here" in output


def test_what_is_no_option_is_said(install: Any, numbers: None) -> None:
    install("tags", options=make_offering(OptionInfo("--tag", lambda: len, lambda: print)))  # type: ignore[arg-type, return-value]
    assert "its load returned <built-in function len>, which is no option; " in run()[1]
