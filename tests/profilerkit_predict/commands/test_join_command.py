"""``profilerkit join`` and ``profilerkit trace-script``: their forms, their files, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from chrome_traces import ChromeTrace
from click.testing import CliRunner

from profilerkit.cli import NOT_KEPT, USAGE, cli

NETWORK = "import torch\ndef network():\n    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Return a profile, and the text of the model that it is of: one kernel of 10 µs, 3 * 4 * 8 = 96 MACs."""
    noted = {"inputs": [{"name": None, "shape": [3, 4], "dtype": "float32"}], "training": False}
    trace = ChromeTrace({"schemaVersion": 1, "profilerkit": noted})
    trace.layer("", 0, 50)
    trace.layer("0", 1, 20)
    trace.operator("aten::linear", 2, 19)
    trace.launch(1, 5, 6)
    trace.kernel("gemm", 100, 110, correlation=1)
    (tmp_path / "network.py").write_text(NETWORK)
    return str(trace.save(tmp_path / "profile.json.gz")), f"{tmp_path / 'network.py'}:network"


def run(*arguments: str, code: int = 0) -> str:
    """Return what a command prints, in one line where it ends with another code."""
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    return result.output if code == 0 else " ".join(result.output.split())


def test_the_table_is_printed(files: tuple[str, str]) -> None:
    out = run("join", files[0], "--model", files[1], "--device", "h100")
    assert "Layers of Sequential (torch.profiler, forward)" in out
    assert "Without a layer: 0 s, 0.0 % of the kernels' time." in out
    assert "Peaks and bandwidth of h100-sxm (data sheet); attention counts in full." in out


def test_json_and_a_file(files: tuple[str, str], tmp_path: Path) -> None:
    target = tmp_path / "joined.json"
    out = run("join", files[0], "--model", files[1], "--format", "json", "--output", str(target))
    values = json.loads(out)
    assert values == json.loads(target.read_text())
    assert values["macs"] == 96
    assert [row["own_macs"] for row in values["layers"]] == [0, 96, 0]
    assert values["layers"][1]["own_seconds"] == pytest.approx(10e-6)


@pytest.mark.parametrize(("names", "macs"), [((None, None), 216), (("x", "y"), 216), ((None, "y"), None)])
def test_the_noted_sizes_of_several_inputs_are_kept(
    names: tuple[str | None, ...], macs: int | None, tmp_path: Path
) -> None:
    """Three samples of 4 numbers, and of 5, each times 8: 96 + 120 multiply-accumulates."""
    noted = [{"name": name, "shape": [3, size], "dtype": "float32"} for name, size in zip(names, (4, 5), strict=True)]
    trace = ChromeTrace({"schemaVersion": 1, "profilerkit": {"inputs": noted, "training": False}})
    trace.layer("", 0, 50)
    trace.layer("one", 1, 20)
    trace.operator("aten::linear", 2, 19)
    trace.launch(1, 5, 6)
    trace.kernel("gemm", 100, 110, correlation=1)
    profile = str(trace.save(tmp_path / "profile.json.gz"))
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\nclass Two(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.one, self.two = torch.nn.Linear(4, 8), torch.nn.Linear(5, 8)\n"
        "    def forward(self, x, y):\n        return self.one(x) + self.two(y)\n"
    )
    arguments = ("join", profile, "--model", f"{path}:Two", "--format", "json")
    if macs is None:
        assert "some are given by name and others by position; give inputs" in run(*arguments, code=USAGE)
    else:
        assert json.loads(run(*arguments))["macs"] == macs


def test_above_one_is_not_kept(files: tuple[str, str], tmp_path: Path) -> None:
    device = tmp_path / "slow.toml"
    device.write_text('name = "slow"\n[dense_peaks]\nfloat32 = { value = 1e6, source = "by hand" }\n')
    arguments = ("join", files[0], "--model", files[1], "--device", str(device))
    out = run(*arguments)
    assert "(!)" in out
    assert "Above 1 by products" in out
    err = run(*arguments, "--strict", code=NOT_KEPT)
    assert "2 layers above 1 of what slow can do" in err


def test_strict_names_the_device_that_the_profile_names(tmp_path: Path) -> None:
    """96 MACs in a millionth of a microsecond: 1.92e14 FLOP/s, and an H100 has 6.7e13 in float32."""
    noted = {"inputs": [{"name": None, "shape": [3, 4], "dtype": "float32"}], "training": False}
    properties = [{"name": "NVIDIA H100 80GB HBM3"}]
    trace = ChromeTrace({"schemaVersion": 1, "profilerkit": noted, "deviceProperties": properties})
    trace.layer("", 0, 50)
    trace.layer("0", 1, 20)
    trace.operator("aten::linear", 2, 19)
    trace.launch(1, 5, 6)
    trace.kernel("gemm", 100, 100.000001, correlation=1)
    (tmp_path / "network.py").write_text(NETWORK)
    profile = str(trace.save(tmp_path / "profile.json"))
    err = run("join", profile, "--model", f"{tmp_path / 'network.py'}:network", "--strict", code=NOT_KEPT)
    assert "2 layers above 1 of what h100-sxm can do" in err


@pytest.mark.parametrize(
    ("further", "message"),
    [
        (("--device", "h1000"), "no device 'h1000'; the nearest"),
        (("--skip", "1"), "skip=1: the profile has 1 passes"),
        (("--batch-size", "0"), "Invalid value for '--batch-size'"),
        (("--dtype", "bf17"), "is no dtype of products"),
        (("--output", "joined.csv"), "give a name that ends in .json or .txt"),
    ],
)
def test_what_is_refused(files: tuple[str, str], further: tuple[str, ...], message: str) -> None:
    err = run("join", files[0], "--model", files[1], *further, code=USAGE)
    assert message in err


def test_the_script_is_printed_and_written(tmp_path: Path) -> None:
    out = run("trace-script")
    compile(out, "script.py", "exec")
    target = tmp_path / "profile_model.py"
    said = run("trace-script", "--output", str(target))
    assert target.read_text().strip() == out.strip()
    assert "run it with: python" in said


def test_frameworks_without_a_script() -> None:
    err = run("trace-script", "--backend", "tensorflow", code=USAGE)
    assert "the tensorflow backend does not join profiles from elsewhere" in err
