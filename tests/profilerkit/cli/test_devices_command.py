"""``profilerkit devices``: the list, one device with its sources, and unknown names."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from profilerkit.cli import cli
from profilerkit.devices import FOLDERS, device_names

TOY = """
name = "toy"
title = "Toy 1"
aliases = ["plaything"]
memory_bandwidth = { value = 3e9, source = "https://toys.example/sheet", spread = 0.04 }
launch_overhead = { value = 2e-6, source = "https://toys.example/sheet" }
[dense_peaks]
bf16 = { value = 4e12, source = "https://toys.example/sheet", note = "half of 8e12" }
[facts]
made_of = "wood"
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["devices", *arguments])
    return result.exit_code, result.output


def test_the_list_has_every_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.toml").write_text(TOY)
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    code, output = run()
    assert code == 0
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert set(device_names()) <= rows.keys()
    assert [cell for cell in rows["toy"] if cell != "│"] == ["toy", "-", "-", "4", "-", "-", "3", "-", "data", "sheet"]


def test_a_narrow_list_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, output = run()
    assert "continued" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "(no room for Tier)" in output


def test_a_large_figure_is_written_without_an_exponent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.toml").write_text(TOY.replace("3e9", "22e12"))
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    assert ["toy", "-", "-", "4", "-", "-", "22,000", "-", "data", "sheet"] in map(str.split, run()[1].splitlines())


def test_one_device_shows_each_figure_with_its_source(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    code, output = run(str(path))
    assert code == 0
    assert output.splitlines() == [
        "toy: Toy 1, data sheet",
        "  other names: plaything",
        "  dense peaks, bfloat16: 4 TFLOP/s  (half of 8e12)",
        "      https://toys.example/sheet",
        "  memory bandwidth: 3 GB/s ± 4%",
        "      https://toys.example/sheet",
        "  launch overhead: 2 µs",
        "      https://toys.example/sheet",
        "  made of: wood",
    ]


def test_an_unknown_device_is_a_usage_error() -> None:
    code, output = run("h10-sxm")
    assert code == 2
    assert "no device 'h10-sxm'" in output
    assert "h100-sxm" in output


def test_a_model_is_not_traced_for_an_unknown_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "net.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(8, 2)\n")
    arguments = ["profile", f"{path}:model", "--input-shape", "8", "--metric", "macs", "--on", "h10-sxm"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "no device 'h10-sxm'; the nearest of" in result.output


@pytest.mark.parametrize("options", [["--on", "l4", "--on", "t4"], ["--batch-size", "8", "--batch-size=1"]])
def test_an_option_of_one_value_is_given_once(options: list[str]) -> None:
    result = CliRunner().invoke(cli, ["profile", "net.py:build", *options])
    assert result.exit_code == 2
    assert f"{options[0]} is given 2 times; it takes one value" in result.output


def test_a_model_is_predicted_on_a_device(tmp_path: Path) -> None:
    """16 MACs at 320 FLOP/s take 0.1 s, and nothing is known of the memory."""
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text("import torch\nmodel = torch.nn.Linear(8, 2)\n")
    (tmp_path / "toy.toml").write_text('name = "toy"\n[dense_peaks]\nfp32 = { value = 320, source = "made up" }\n')
    where = ["--on", str(tmp_path / "toy.toml")]
    arguments = ["profile", f"{tmp_path / 'net.py'}:model", "--input-shape", "8", "--metric", "macs", *where]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "\u2265 100" in result.output
    assert "on toy (data sheet), bound by products; predicted, not measured" in " ".join(result.output.split())
