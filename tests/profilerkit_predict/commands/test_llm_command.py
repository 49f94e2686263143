"""``profilerkit llm``: its forms, its files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tiny_language_models import tiny_config

from profilerkit.cli import USAGE, main


@pytest.fixture
def spec(tmp_path: Path) -> str:
    """Return a text for a folder with the configuration of a tiny Llama."""
    tiny_config().save_pretrained(tmp_path)
    return f"hf:{tmp_path}"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["llm", *arguments])
    out, err = capsys.readouterr()
    code: Any = ended.value.code
    return code, out, err


def test_the_tables_are_printed(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, spec, "--prompt", "8", "--new", "4", "--batch", "1,4", "--device", "h100", "--dtype", "bf16"
    )
    assert code == 0
    assert "Engine, 8 tokens of prompt and 4 new: 1 x h100-sxm (data sheet)" in out
    assert "as written (transformers" in out
    assert "no continuous batching" in out


def test_json_has_every_number(spec: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ["--prompt", "8", "--new", "4", "--format", "json", "--output", str(path)]
    code, out, _ = run(capsys, spec, *options, "--dtype", "bf16")
    assert code == 0
    values = json.loads(out)
    assert values == json.loads(path.read_text())
    assert values["as_written"]["cache"][0]["logical_bytes"] == 8 * 2 * 2 * 16 * 2  # 8 tokens, 2 layers, 2 x 16, bf16


def test_several_of_anything_are_compared(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--prompt", "8", "--new", "4", "--device", "h100,a100-80", "--weights", "bf16,int4", "--dtype", "bf16"]
    code, out, _ = run(capsys, spec, *options)
    assert code == 0
    assert "Language models, engine" in out
    assert [out.count(name) for name in ("h100-sxm", "a100", "int4")] == [2, 2, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prompt", "100"], "takes 64 (max_position_embeddings of its configuration)"),
        (["--prompt", "8", "--new", "2", "--weights", "int5"], "weights='int5' is no format of weights"),
        (["--prompt", "8", "--new", "2", "--device", "h1000"], "no device 'h1000'"),
        (["--output", "x.png"], "give a name that ends in .json, .txt or .html"),
        (["--prompt", "0"], "0 is not in the range x>=1"),
    ],
)
def test_what_is_refused(spec: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, spec, *options)
    assert (code, out) == (USAGE, "")
    assert message in " ".join(err.split())


def test_a_small_model_is_measured(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, spec, "--prompt", "4", "--new", "2", "--measure")
    assert code == 0
    assert "Measured" in out


def test_a_page_is_written(spec: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    code, _, _ = run(capsys, spec, "--prompt", "8", "--new", "4", "--device", "h100", "--output", str(path))
    assert code == 0
    assert "Passes as written" in path.read_text(encoding="utf-8")
