"""The command line, in process and as a user's own process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from profilerkit.cli import COMMANDS, cli, main

MODEL = """
import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 3)

    def forward(self, ids):
        return self.table(ids)

ready = build()

class Broken(torch.nn.Module):
    def __init__(self):
        raise RuntimeError("not today")

class Strange(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eigh(x @ x.T)[0]
"""


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    path = tmp_path / "my_models.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    return result.exit_code, result.output


def test_help_names_every_command() -> None:
    code, output = run("--help")
    assert code == 0, output
    assert all(command in output for command in COMMANDS)
    for command in COMMANDS:
        assert run(command, "--help")[0] == 0
    assert run("no-such-command")[0] == 2


def test_list_says_what_comes_from_where() -> None:
    code, output = run("list")
    assert code == 0
    assert "profilerkit_torch.plugin" in output
    assert "macs                 profilerkit_metrics.complexity:ComputeComplexity" in output


@pytest.mark.parametrize("name", ["build", "ready"])
def test_profile_a_file(model_file: str, name: str) -> None:
    code, output = run("profile", f"{model_file}:{name}", "--input-shape", "2,4", "--max-seconds", "0.1")
    assert code == 0, output
    assert "96" in output, "2 * (4 * 8 + 8 * 2) MACs"
    assert "batch of 2" in output


def test_profile_as_json_and_with_named_inputs(model_file: str) -> None:
    arguments = ["--input-shape", "ids=1,5:int64", "--metric", "macs", "--metric", "total_params", "--format", "json"]
    code, output = run("profile", f"{model_file}:Words", *arguments, "--batch-size", "3")
    assert code == 0, output
    data = json.loads(output)
    assert {status["key"]: status["value"] for status in data["statuses"]} == {"total_params": 30, "macs": 0}
    assert data["batch_size"] == 3


def test_layers(model_file: str) -> None:
    code, output = run("profile", f"{model_file}:build", "--input-shape", "1,4", "--metric", "macs", "--layers")
    assert code == 0
    assert "Layers" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "does not say where the model is; give package.module:name or path/to/file.py:name"),
        (["no_such_package:model"], "cannot import 'no_such_package'"),
        (["missing.py:model"], "there is no file 'missing.py'"),
        (["FILE:nothing"], "has no 'nothing'; it has: torch, build, Words, ready, Broken, Strange"),
        (["FILE:build", "--input-shape", "1,x"], "'1,x' is no shape; give 1,3,224,224"),
        (["FILE:build", "--input-shape", "1,4", "--input-shape", "2,4"], "have different batch sizes"),
        (["FILE:build", "--input-shape", "a=1,4", "--input-shape", "1,4"], "name all inputs or none of them"),
        (["FILE:build", "--batch-size", "0"], "0 is not in the range"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, model_file: str) -> None:
    code, output = run("profile", *(argument.replace("FILE", model_file) for argument in arguments))
    assert code == 2
    assert message in " ".join(output.replace("│", " ").split())


def test_exit_codes(model_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = run("profile", f"{model_file}:Strange", "--input-shape", "3,3", "--metric", "macs", "--strict")
    assert code == 1
    assert "is partial" in output
    for arguments, message in [
        (["build", "--input-shape", "1,4", "--device", "warp", "--strict"], "torch knows no device 'warp'"),
        (["build", "--input-shape", "1,4", "--device", "warp"], "Error: torch knows no device 'warp'"),
        (
            ["build", "--input-shape", "1,5"],
            "macs, flops, memory_footprint, execution_time, throughput of Sequential fa",
        ),
        (["build"], "macs, flops, memory_footprint, execution_time, throughput of Sequential failed"),
        (["Broken"], "my_models.py:Broken raised RuntimeError: not today"),
    ]:
        with pytest.raises(SystemExit) as caught:
            main(["profile", f"{model_file}:{arguments[0]}", *arguments[1:]])
        assert caught.value.code == 3
        assert message in capsys.readouterr().err
    code, output = run("profile", f"{model_file}:build", "--metric", "total_params")
    assert (code, "58" in output) == (0, True), "parameters need no inputs"


def test_a_file_that_cannot_be_imported_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken_file.py").write_text("raise ValueError('half written')", encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["profile", f"{tmp_path}/broken_file.py:model"])
    assert caught.value.code == 3
    assert "broken_file.py raised ValueError: half written" in capsys.readouterr().err


def test_a_module_on_the_path(model_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(model_file).parent)
    monkeypatch.syspath_prepend(str(Path(model_file).parent))
    code, output = run("profile", "my_models:build", "--input-shape", "1,4", "--metric", "macs")
    assert code == 0, output


def test_the_installed_script_prints_the_table_alone(model_file: str) -> None:
    script = Path(sys.executable).parent / "profilerkit"
    command = [str(script), "profile", f"{model_file}:build", "--input-shape", "1,4", "--metric", "macs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Sequential  (torch)")
    assert done.stderr == "", "no progress bar in a pipe"
    version = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("profilerkit, version 0.")
