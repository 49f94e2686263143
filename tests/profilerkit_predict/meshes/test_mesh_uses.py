"""A rank's report as any other: layouts side by side, budgets, audits, the command, and the smallest mesh that fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

import mesh_networks as networks
from click.testing import CliRunner, Result

from profilerkit import ArgumentError, DeviceInfo, Report, audit, find_mesh, profile
from profilerkit.cli import cli
from profilerkit.devices import Figure
from profilerkit.results.comparison import side_by_side
from profilerkit_audits.plan import Plan
from profilerkit_budgets import Budget, Verdict, check
from profilerkit_predict.meshes import fitting
from profilerkit_predict.meshes.layout import OPEN_MESH
from profilerkit_predict.meshes.placement import _find_backend

#: The parameters of the network: test_mesh_ranks counts them by hand.
WHOLE = 115_008


def profile_layout(**mesh: int) -> Report:
    metrics = ["rank_parameter_bytes", "rank_peak_memory", "collective_bytes"]
    arguments: dict[str, Any] = {"mesh": mesh, "parallelize": networks.shard, "metrics": metrics}
    return profile(networks.Net, networks.words(), strict=True, **arguments)


@pytest.mark.slow
def test_layouts_side_by_side_and_within_a_budget() -> None:
    """A rank of eight has as many bytes of a matrix however they are spread; norms are not split over "tp"."""
    wide, deep = profile_layout(dp_shard=4, tp=2), profile_layout(dp_shard=2, tp=4)
    assert wide.arguments["mesh"] == "{'dp_shard': 4, 'tp': 2}"
    assert wide.arguments["parallelize"] == "mesh_networks.shard"
    comparison = side_by_side([wide, deep])
    assert comparison.reference["collective_bytes"] != comparison.others[0]["collective_bytes"]
    peak = wide["rank_peak_memory"]
    findings = [check(wide, Budget.of({"rank_peak_memory": f"<= {limit} B"})) for limit in (peak, peak - 1)]
    assert [finding.verdict for [finding] in findings] == [Verdict.PASSED, Verdict.FAILED]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    support = Path(networks.__file__).parent
    path = tmp_path / "train.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(support)!r})\nfrom mesh_networks import Net, shard\n")
    return path


@pytest.mark.slow
def test_audit_of_meshes(file: Path, tmp_path: Path) -> None:
    model = {
        "spec": "train.py:Net",
        "mesh": ["dp_shard=4", "dp_shard=2,tp=2"],
        "parallelize": "train.py:shard_or_not",
        "rank": [0, 1],
        "input_shape": {"words": {"shape": [16], "dtype": "int64"}},
        "arguments": {"optimizer": "adamw"},
    }
    plan = {"metrics": ["rank_parameter_bytes", "collective_bytes"], "models": [model]}
    file.write_text(
        file.read_text()
        + "from torch.distributed.fsdp import fully_shard\n\n\n"
        + "def shard_or_not(model, mesh):\n"
        + "    shard(model, mesh) if 'tp' in mesh.mesh_dim_names else fully_shard(model, mesh=mesh)\n"
    )
    rows = list(audit(Plan.of(plan, tmp_path), tmp_path / "audit.db").rows())
    assert [row.reason for row in rows] == [""] * 4
    values = {(row.settings["mesh"], row.settings["rank"]): row.values["rank_parameter_bytes"].value for row in rows}
    assert values["dp_shard=4", 0] == values["dp_shard=4", 1] == WHOLE // 4 * 4  # a fourth of all, of four bytes
    assert len(values) == 4


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["mesh", *arguments])


@pytest.mark.parametrize(("text", "limit"), [("4090", "4090"), ("h100", "h100"), ("80e9", 80e9), ("1.2.3", "1.2.3")])
def test_what_a_step_fits_is_a_device_or_bytes(monkeypatch: pytest.MonkeyPatch, text: str, limit: Any) -> None:
    """A device may be named by a number: 4090 is a GPU, and not that many bytes."""
    limits: list[Any] = []
    monkeypatch.setattr(fitting, "find_mesh", lambda model, fits, **_: limits.append(fits))
    assert run("net.py:Net", "--mesh", "tp=?", "--fits", text).exit_code == 0
    assert limits == [limit]


@pytest.mark.slow
def test_command_finds_a_mesh_and_writes_files(file: Path, tmp_path: Path) -> None:
    model = [f"{file}:Net", "--parallelize", "fsdp2", "--input-shape", "words=16:int64"]
    found = run(*model, "--mesh", "dp_shard=?", "--fits", "1e9")
    assert found.exit_code == 0, found.output
    assert "Rank 0 of 1 (dp_shard=1)" in found.output
    folder, timeline = tmp_path / "traces", tmp_path / "step.json"
    traces = run(*model, "--mesh", "dp_shard=4", "--execution-traces", str(folder))
    assert traces.exit_code == 0, traces.output
    assert sorted(path.name for path in folder.iterdir()) == ["comm_groups.json", *(f"rank.{n}.et" for n in range(4))]
    drawn = run(*model, "--mesh", "dp_shard=4", "--timeline", str(timeline), "--on", "h100")
    assert drawn.exit_code == 0, drawn.output
    assert "a step of" in drawn.output
    lanes = {event["cat"] for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X"}
    assert lanes == {"work", "waiting", "collectives"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mesh", "tp=2"], "give one of --fits, --execution-traces and --timeline"),
        (["--mesh", "tp=?", "--timeline", "step.json"], "a size of --mesh is left open with ?"),
        (["--mesh", "tp=2", "--timeline", "step.json"], "--timeline is predicted for a device; give it: --on h100"),
        (["--mesh", "tp=2", "--fits", "1e9"], "one size must be None"),
        (["--mesh", "tp", "--fits", "1e9"], "give names and sizes"),
        (["--mesh", "tp=?", "--fits", "1.2.3"], "no device '1.2.3'"),
        (["--mesh", "tp=?", "--fits", "1e9", "--ranks-per-node", "4"], "--ranks-per-node is for --timeline alone"),
        (["--mesh", "tp=2", "--execution-traces", "traces", "--rank", "0"], "--rank is for --timeline alone"),
    ],
)
def test_command_that_cannot_be(arguments: list[str], message: str) -> None:
    result = run("train.py:Net", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize("fits", [5, 5.5, np.int64(5), np.float32(5.5)])
def test_a_number_of_bytes_may_be_of_numpy(fits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(*given: Any, mesh: Any, **more: Any) -> Any:
        return {"rank_peak_memory": 8 // mesh["dp"], "mesh": mesh}

    monkeypatch.setattr(fitting, "profile", profile)
    assert find_mesh(networks.Net, mesh="dp=?", fits=fits)["mesh"] == {"dp": 2}, "8, 4, 2 bytes on 1, 2, 4 ranks"


@pytest.mark.parametrize("fits", [0, -1, float("nan"), True, None, np.bool_(True), np.int64(0), [80e9]])
def test_a_number_of_bytes_that_cannot_be_is_an_error(fits: Any) -> None:
    with pytest.raises(ArgumentError, match="fits=.*: give a device, or a number of bytes above zero"):
        find_mesh(networks.Net, mesh="dp=?", fits=fits)


@pytest.mark.parametrize("mesh", [8, "dp=?,dp=2", "dp=x", {"dp": 0, "tp": None}, {}])
def test_a_mesh_that_cannot_be_looked_for_is_an_error(mesh: Any) -> None:
    with pytest.raises(ArgumentError, match="mesh=|dp=0: give"):
        find_mesh(networks.Net, mesh=mesh, fits=1e9)
    sizes = {"dp_shard": None, "tp": 8}
    assert OPEN_MESH("mesh", "dp_shard=?, tp=8") == OPEN_MESH("mesh", sizes) == sizes


@pytest.mark.parametrize(
    ("imports", "backend"),
    [
        ("import torch", "torch"),
        ("def build():\n    from flax import nnx", "jax"),
        ("import jax.numpy\nimport torch", "torch"),
        ("import math", "torch"),
        ("no python", "torch"),
    ],
)
def test_backend_by_the_imports_of_a_file(imports: str, backend: str, tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(imports)
    assert _find_backend(f"{path}:build") == backend
    assert _find_backend("hf:llama") == "torch"


def test_backend_by_the_file_of_a_function() -> None:
    assert _find_backend(networks.Net) == "torch"
    jax_networks: Any = pytest.importorskip("mesh_networks_jax")
    assert _find_backend(jax_networks.build) == "jax"


ARGUMENTS: dict[str, Any] = {
    "parallelize": "fsdp2",
    "optimizer": "adamw",
    "metrics": ["total_params", "rank_peak_memory"],
}


def find(fits: Any, mesh: Any) -> Any:
    return find_mesh(networks.Net, networks.words(), mesh=mesh, fits=fits, **ARGUMENTS)


@pytest.mark.slow
def test_smallest_mesh_is_the_first_that_fits() -> None:
    peaks = [
        profile(networks.Net, networks.words(), mesh={"dp_shard": ranks}, **ARGUMENTS)["rank_peak_memory"]
        for ranks in (2, 4)
    ]
    assert peaks[0] > peaks[1]
    device = DeviceInfo("small", figures={"memory_size": Figure(float(peaks[1]), "an example")})
    report = find(device, {"dp_shard": None})
    assert report["rank_peak_memory"] == peaks[1]
    assert report["total_params"] == 115_008 // 4  # test_mesh_ranks counts the whole


@pytest.mark.slow
def test_no_mesh_suffices() -> None:
    """More ranks than a weight has rows are no use: each gathers weights that are padded to their number."""
    with pytest.raises(ArgumentError, match=r"bytes on a rank even with dp_shard=\d+, and 1,000 are there"):
        find(1000, {"dp_shard": None})


@pytest.mark.parametrize("mesh", [{"dp_shard": 2}, {"dp_shard": None, "tp": None}])
def test_mesh_without_one_open_size(mesh: Any) -> None:
    with pytest.raises(ArgumentError, match="one size must be None"):
        find(80e9, mesh)


def test_device_of_unknown_memory() -> None:
    with pytest.raises(ArgumentError, match="the memory of unknown is not known; give a number of bytes"):
        find(DeviceInfo("unknown"), {"dp_shard": None})
