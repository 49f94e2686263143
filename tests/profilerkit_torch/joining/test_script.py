"""The script of ``profilerkit trace-script``: run by a plain interpreter, without profilerkit."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
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
    assert noted["training"] is True
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
        (("json:Missing",), "json has no Missing"),
        (("json:JSONDecoder",), "json:JSONDecoder is a JSONDecoder, no torch.nn.Module"),
        (("torch.nn:Identity", "--dtype", "nn"), "nn is no dtype of torch"),
        (("torch.nn:Identity", "--dtype", "float33"), "float33 is no dtype of torch"),
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


class Stateful(nn.Module):
    """A counter that is a new tensor after each call, a batch norm, noise, and one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.normal = nn.BatchNorm1d(2)
        self.linear = nn.Linear(2, 2)
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        self.count = self.count + 1
        return self.linear(self.normal(x)) + torch.rand(2)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_gradients_and_buffers_and_random_numbers_come_back(training: bool, fails: bool, tmp_path: Path) -> None:
    model, x = Stateful(), torch.ones(3, 2, requires_grad=True)
    weight, values = model.linear.weight, {name: buffer.clone() for name, buffer in model.named_buffers()}
    weight.grad, x.grad = torch.full((2, 2), 7.0), torch.full((3, 2), 5.0)
    gradients, buffers = (weight.grad, x.grad), dict(model.named_buffers())
    generator = torch.get_rng_state()
    output = str(tmp_path / "missing" / "made.json") if fails else str(tmp_path / "made.json")
    with pytest.raises(FileNotFoundError) if fails else contextlib.nullcontext():
        profile_model(model, (x,), output=output, steps=2, warm_up=1, training=training)
    assert weight.grad is gradients[0]
    assert x.grad is gradients[1]
    assert weight.grad.unique().tolist() == [7.0]
    assert x.grad.unique().tolist() == [5.0]
    assert model.linear.bias.grad is None
    for name, buffer in model.named_buffers():
        assert buffer is buffers[name]
        assert torch.equal(buffer, values[name])
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_buffer_that_no_pass_changes_is_not_written_to() -> None:
    """The caller may still compute gradients through it."""
    model, mask = nn.Module(), torch.ones(2)
    model.register_buffer("mask", mask)
    x = torch.ones(2, requires_grad=True)
    product = (x * mask).sum()
    with script.restore_state(model, [x]):
        pass
    product.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "buffer",
    [
        torch.eye(2).to_sparse(),
        torch.empty(2, device="meta"),
        torch.nested.as_nested_tensor([torch.ones(2)], layout=torch.jagged),
        nn.parameter.UninitializedBuffer(),
    ],
    ids=["sparse", "meta", "nested", "lazy"],
)
def test_buffers_that_torch_cannot_compare_are_left_alone(buffer: torch.Tensor) -> None:
    model = nn.Module()
    model.register_buffer("kept", buffer)
    with script.restore_state(model, []):
        pass
    assert model.kept is buffer


def test_a_frozen_model_runs_forward_passes_in_training_mode(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).requires_grad_(False)
    file = tmp_path / "made.json"
    with pytest.warns(UserWarning, match="no output depends on a weight that is trained: only forward passes") as said:
        profile_model(model, (torch.ones(5, 4),), output=str(file), steps=2, warm_up=1, training=True)
    assert len(said) == 1
    names = [event.get("name", "") for event in json.loads(file.read_text())["traceEvents"]]
    assert names.count(script.PASS) == 2
    assert "aten::addmm" in names
    assert not [name for name in names if "Backward" in name]
    joined = profilerkit.join(file, model)
    assert joined.layers["0"]["macs"] == 5 * 4 * 2  # forward alone


def test_a_training_step_has_gradients_where_the_caller_has_none(tmp_path: Path) -> None:
    file = tmp_path / "made.json"
    with torch.no_grad():
        profile_model(nn.Linear(4, 2), (torch.ones(5, 4),), output=str(file), steps=1, warm_up=0, training=True)
    assert "AddmmBackward0" in file.read_text()


@pytest.mark.parametrize("source", ["{folder}/mine.py", "mine"])
def test_a_file_imports_its_neighbours(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text(NETWORK, encoding="utf-8")
    (tmp_path / "mine.py").write_text("from neighbour_of_mine import network\nclass Nets:\n    net = network\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    if source == "mine":
        monkeypatch.chdir(tmp_path)
    for name in ("network", "Nets.net"):
        assert len(list(script.load_model(f"{source.format(folder=tmp_path)}:{name}").children())) == 3


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


def test_the_device_is_that_of_the_weights_if_the_model_moves_its_inputs() -> None:
    """Without it the kernels of the device would be missing from the profile, and the host's time be theirs."""
    x = torch.ones(1, 4)
    assert script.Workload(nn.Linear(4, 2, device="meta"), (x,), {}, training=False).find_device().type == "meta"
    assert script.Workload(nn.Linear(4, 2), (x,), {}, training=False).find_device().type == "cpu"
    assert script.Workload(nn.ReLU(), (), {"x": x.to("meta")}, training=False).find_device().type == "meta"


@dataclasses.dataclass
class Output:
    scores: torch.Tensor


def test_outputs_in_a_dataclass_are_trained(tmp_path: Path) -> None:
    """They were taken for none at all: forward passes were profiled, and the weights called frozen."""

    class Scoring(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> Output:
            return Output(self.linear(x))

    profile_model(Scoring(), (torch.ones(3, 4),), output=str(tmp_path / "made.json"), steps=1, training=True)
    names = {event.get("name") for event in json.loads((tmp_path / "made.json").read_text())["traceEvents"]}
    assert "autograd::engine::evaluate_function: AddmmBackward0" in names


def test_each_call_of_a_shared_layer_is_of_its_own_path(tmp_path: Path) -> None:
    """Both had the path in the first block, which had the time of two calls and the work of one."""

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shared = nn.Linear(4, 4)
            self.first, self.second = nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared, nn.Tanh())
            self.first.add_module("around", self.first)  # one that holds itself

        def forward(self, x: torch.Tensor) -> Any:
            return self.second[1](self.second[0](self.first[1](self.first[0](x))))

    with script.mark_layers(model := Blocks()), torch.profiler.profile() as profiler:
        model.second(model.first[0](torch.ones(1, 4)))
    paths = [event.name for event in profiler.events() if event.name.startswith(script.LAYER)]
    assert sorted(path.removeprefix(script.LAYER) for path in paths) == [
        *("first.0", "second", "second.0", "second.1"),
    ]
