"""An export beside its source on the command line, as a user runs it, and a path in one line of Python."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("torch")
import torch

from profilerkit import Comparison, profile
from profilerkit.cli import cli

SOURCE = """
from torch import nn

def build():
    convolution = nn.Conv2d(3, 16, 3, padding=1)
    return nn.Sequential(convolution, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval()
"""
MACS = 32 * 32 * 16 * 27 + 16 * 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``net.py`` and its export ``net.onnx``."""
    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(SOURCE)
    names: dict[str, object] = {}
    exec(SOURCE, names)
    model = names["build"]()  # type: ignore[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.ones(1, 3, 32, 32),), folder / "net.onnx", dynamo=True, verbose=False)
    return folder


@pytest.mark.slow
def test_an_export_beside_its_source(folder: Path) -> None:
    target = folder / "report.json"
    command = ["compare", f"{folder / 'net.py'}:build", str(folder / "net.onnx"), "--input-shape", "3,32,32"]
    metrics = ["--metric", "macs", "--metric", "execution_time", "--metric", "total_params"]
    result = CliRunner().invoke(cli, [*command, *metrics, "--output", str(target)])
    assert result.exit_code == 0, result.output
    assert "(torch)" in result.output and "(onnx)" in result.output
    assert [report["macs"] for report in Comparison.load(target).reports] == [MACS, MACS]


def test_a_profile_of_a_path_has_counts_and_times(folder: Path) -> None:
    report = profile(str(folder / "net.onnx"), num_iters=3)
    assert (report.backend, report["macs"], report["total_params"]) == ("onnx", MACS, 16 * 28 + 170)
    assert len(report["execution_time"].samples) == 3
    assert "onnxruntime" in report.environment
