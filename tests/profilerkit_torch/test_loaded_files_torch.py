"""Two files whose folders have modules of the same names, through what PyTorch looks up by name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from time_limits import run_program

from profilerkit import profile
from profilerkit.cli import cli
from profilerkit.models.loaders import load_model

NET = """
import torch
from helper import WIDTH, scaled

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, WIDTH)

    def forward(self, x):
        import late
        return scaled(self.layer(x)) * late.FACTOR

def build():
    return Net()

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        import late
        return late.FACTOR * (index + 1)
"""
HELPER = """
WIDTH = {width}
FACTOR = {factor}

def scaled(x):
    return x * FACTOR
"""


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Return a folder with ``old/net.py``, a layer of 8 x 8 + 8 = 72, and ``new/net.py``, one of 8 x 32 + 32 = 288."""
    for name, width, factor in (("old", 8, 2.0), ("new", 32, 3.0)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "net.py").write_text(NET, encoding="utf-8")
        (folder / "helper.py").write_text(HELPER.format(width=width, factor=factor), encoding="utf-8")
        (folder / "late.py").write_text(f"FACTOR = {factor}", encoding="utf-8")
    return tmp_path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def test_compare_and_diff_measure_two_models(folders: Path) -> None:
    specs = [f"{folders / name / 'net.py'}:build" for name in ("old", "new")]
    for command in ("compare", "diff"):
        result = run(command, *specs, "--input-shape", "8", "--metric", "total_params", "--format", "json")
        reports = json.loads(result.stdout)["reports"]
        assert [report["statuses"][0]["value"] for report in reports] == [8 * 8 + 8, 8 * 32 + 32]
        assert [report["model_type"] for report in reports] == ["net.Net", "net.Net"], "no path of this machine"
    assert "helper" not in sys.modules


def test_check_fails_where_the_new_model_is_larger(folders: Path) -> None:
    old, new = (f"{folders / name / 'net.py'}:build" for name in ("old", "new"))
    options = ["--baseline", old, "--limit", "total_params <= 1.1x", "--input-shape", "8"]
    assert run("check", new, *options).exit_code == 1
    assert run("check", old, *options).exit_code == 0


def test_what_runs_later_finds_the_modules_of_its_file(folders: Path) -> None:
    """Both models are run after both were loaded, as they are and compiled; ``forward`` imports a module."""
    x = torch.ones(1, 8)
    loaded = {name: load_model(f"{folders / name / 'net.py'}:build") for name in ("old", "new")}
    for name, factor in (("old", 4.0), ("new", 9.0)):
        model = loaded[name]
        expected = model.layer(x).detach() * factor
        torch.testing.assert_close(model(x).detach(), expected)
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend="eager")(x), expected)  # type: ignore[no-untyped-call,unused-ignore]
        assert profile(model, x, metrics="macs")["macs"] == 8 * model.layer.out_features


def test_scripted_and_saved_classes(folders: Path, tmp_path: Path) -> None:
    for name, factor in (("old", 2.0), ("new", 3.0)):
        model = load_model(f"{folders / name / 'net.py'}:build")
        scaled = type(model).forward.__globals__["scaled"]
        fx: Any = torch.fx
        function = fx.symbolic_trace(scaled)
        torch.testing.assert_close(function(torch.ones(2)), torch.full((2,), factor))
        torch.save(model, tmp_path / "whole.pt")
        again = torch.load(tmp_path / "whole.pt", weights_only=False)
        assert type(again) is type(model)


WORKERS = """
import sys
import torch
from profilerkit.models.loaders import load_model

if __name__ == "__main__":
    for name in ("old", "new"):
        data = load_model(f"{name}/net.py:Numbers")
        for way in ("spawn", "fork"):
            loader = torch.utils.data.DataLoader(data, num_workers=1, multiprocessing_context=way)
            print(name, way, [batch.item() for batch in loader])
"""


@pytest.mark.slow
def test_workers_of_a_data_loader_find_the_modules_of_the_file(folders: Path) -> None:
    (folders / "main.py").write_text(WORKERS, encoding="utf-8")
    done = run_program([sys.executable, "main.py"], check=False, cwd=folders)
    lines = [
        f"{name} {way} {values}"
        for name, values in (("old", [2.0, 4.0]), ("new", [3.0, 6.0]))
        for way in ("spawn", "fork")
    ]
    assert done.stdout.splitlines() == lines, done.stderr
