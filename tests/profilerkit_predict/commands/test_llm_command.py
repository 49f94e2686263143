"""``profilerkit llm``: its forms, its files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from click.testing import CliRunner
from tiny_language_models import tiny_config

from profilerkit.cli import USAGE, cli

LENGTHS = ("--prompt", "8", "--new", "4")


@pytest.fixture
def spec(tmp_path: Path) -> str:
    """Return a text for a folder with the configuration of a tiny Llama."""
    tiny_config().save_pretrained(tmp_path)
    return f"hf:{tmp_path}"


def run(*arguments: str, code: int = 0) -> str:
    """Return what the command prints, in one line where it ends with another code."""
    result = CliRunner().invoke(cli, ["llm", *arguments])
    assert result.exit_code == code, result.output
    return result.output if code == 0 else " ".join(result.output.split())


def test_the_tables_are_printed(spec: str) -> None:
    out = run(spec, *LENGTHS, "--batch", "1,4", "--device", "h100", "--dtype", "bf16")
    assert "Engine, 8 tokens of prompt and 4 new: 1 x h100-sxm (data sheet)" in out
    assert "as written (transformers" in out
    assert "no continuous batching" in out


def test_json_has_every_number(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    values = json.loads(run(spec, *LENGTHS, "--format", "json", "--output", str(path), "--dtype", "bf16"))
    assert values == json.loads(path.read_text())
    assert values["as_written"]["cache"][0]["logical_bytes"] == 8 * 2 * 2 * 16 * 2  # 8 tokens, 2 layers, 2 x 16, bf16


def test_several_of_anything_are_compared(spec: str) -> None:
    out = run(spec, *LENGTHS, "--device", "h100,a100-80", "--weights", "bf16,int4", "--dtype", "bf16")
    assert "Language models, engine" in out
    assert [out.count(name) for name in ("h100-sxm", "a100", "int4")] == [2, 2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", "100"], "101 tokens are more than the 64 that"),
        (["--prompt", "8", "--new", "2", "--weights", "int5"], "weights='int5' is no format of weights"),
        (["--prompt", "8", "--new", "2", "--device", "h1000"], "no device 'h1000'"),
        (["--output", "x.png"], "give a name that ends in .json, .txt or .html"),
        (["--prompt", "0"], "0 is not in the range x>=1"),
    ],
)
def test_what_is_refused(spec: str, options: list[str], message: str) -> None:
    assert message in run(spec, *options, code=USAGE)


def test_a_small_model_is_measured(spec: str) -> None:
    assert "Measured" in run(spec, "--prompt", "4", "--new", "2", "--measure")


def test_a_page_is_written(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    run(spec, *LENGTHS, "--device", "h100", "--output", str(path))
    assert "Passes as written" in path.read_text(encoding="utf-8")
