"""The script of ``profilerkit trace-script``: run by a plain interpreter, without profilerkit."""

from __future__ import annotations

import ast
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from time_limits import run_program
from torch import nn

import profilerkit
from profilerkit_predict.joining import read_profile
from profilerkit_torch.backend import TorchBackend
from profilerkit_torch.joining import script
from profilerkit_torch.joining.script import profile_model

NETWORK = """
import torch
def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
"""
#: No package of ours can be imported, wherever it lies.
BLOCKED = """
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("profilerkit"):
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Blocked())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(TorchBackend().profile_script(), encoding="utf-8")
    (folder / "network.py").write_text(NETWORK, encoding="utf-8")
    command = [sys.executable, "-c", BLOCKED, "script.py", *arguments]
    return run_program(command, check=False, cwd=folder, seconds=300)


def test_it_needs_torch_alone() -> None:
    imported = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(TorchBackend().profile_script()))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported - sys.stdlib_module_names == {"torch"}


@pytest.mark.slow
def test_a_plain_interpreter_makes_a_profile(tmp_path: Path) -> None:
    arguments = ("network.py:network", "--input", "4", "--batch-size", "3", "--steps", "2", "--warm-up", "1")
    ended = run(tmp_path, *arguments, "--training", "--device", "cpu", "--output", "made.json.gz")
    assert ended.returncode == 0, ended.stderr
    assert "written to made.json.gz" in ended.stdout
    noted = read_profile(tmp_path / "made.json.gz").metadata
    assert noted["inputs"] == [{"name": None, "shape": [3, 4], "dtype": "float32"}]
    assert (noted["training"], noted["steps"], noted["device"]) == (True, 2, "cpu")
    assert noted["torch"] == torch.__version__
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    joined = profilerkit.join(tmp_path / "made.json.gz", model)  # the sizes are in the profile
    assert joined.phase == "training"
    assert len(joined.recording.passes) == 2
    # 96 and 48 forward; the gradients of both weights, and that of the input of the last.
    assert joined.layers[""]["macs"] == 2 * 96 + 3 * 48
    assert all(joined.layers[path][f"own_{phase}_seconds"] > 0 for path in "02" for phase in ("forward", "backward"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("network",), "MODEL is 'network'; give module:name or path/to/file.py:name"),
        (("missing.py:network",), "there is no file missing.py"),
        (("json:JSONDecoder",), "json:JSONDecoder is a JSONDecoder, no torch.nn.Module"),
    ],
)
def test_what_is_no_model(arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py", *arguments, "--input-shape", "4", "--device", "cpu"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit, match=message):
        script.main()


def test_from_python_the_model_comes_back(tmp_path: Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, *, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
            return {"y": [self.inner(x)]}

    model = Named()
    model.inner.eval()
    profile_model(model, named={"x": torch.ones(5, 4)}, output=str(tmp_path / "plain.json"), steps=1, training=True)
    assert model.training
    assert not model.inner.training
    assert not model._forward_hooks
    assert not model.inner._forward_pre_hooks
    noted = json.loads((tmp_path / "plain.json").read_text())["profilerkit"]
    assert noted["inputs"] == [{"name": "x", "shape": [5, 4], "dtype": "float32"}]
    assert (
        profilerkit.join(tmp_path / "plain.json", model).layers["inner"]["macs"] == 2 * 5 * 4 * 2
    )  # x has no gradient


class Fragile(nn.Module):
    """A layer that raises an error inside a layer inside."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)  # of another width than its input's

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


class Tolerant(nn.Module):
    """It tries a layer, and multiplies by itself after the error of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fragile = Fragile()
        self.after = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> Any:
        with contextlib.suppress(RuntimeError):
            return self.fragile(x)
        return self.after(x.mul(x))


@pytest.mark.parametrize("can_follow_errors", [True, False])
def test_work_after_an_error_that_the_model_catches_is_its_own(
    can_follow_errors: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only in a torch that runs hooks after errors; in an older one the layers after it still end in their order."""
    if not can_follow_errors:
        register = nn.Module.register_forward_hook

        def register_as_before(module: nn.Module, hook: Any) -> Any:
            return register(module, hook)

        monkeypatch.setattr(nn.Module, "register_forward_hook", register_as_before)
    file = tmp_path / "plain.json"
    profile_model(nn.Sequential(Tolerant(), nn.ReLU()), (torch.ones(1, 4),), output=str(file), steps=1, warm_up=0)
    events = [event for event in json.loads(file.read_text())["traceEvents"] if "dur" in event]
    (product,) = (event for event in events if event["name"] == "aten::mul")
    (rectified,) = (event for event in events if event["name"] == "aten::relu")
    failed = {"", "0", "0.fragile", "0.fragile.inner"}
    assert find_layers_around(product, events) == ({"", "0"} if can_follow_errors else failed)
    assert find_layers_around(rectified, events) == {"", "1"}


def find_layers_around(operator: dict[str, Any], events: list[dict[str, Any]]) -> set[str]:
    return {
        event["name"][len(script.LAYER) :]
        for event in events
        if event["name"].startswith(script.LAYER)
        and event["ts"] <= operator["ts"]
        and operator["ts"] + operator["dur"] <= event["ts"] + event["dur"]
    }
