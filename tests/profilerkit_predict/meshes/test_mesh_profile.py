"""``profile(build, mesh=...)``: the arguments, the report, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

import mesh_networks as networks
import torch
from click.testing import CliRunner

from profilerkit import ArgumentError, ModelInputs, ModelTrace, Report, compare, errors, profile
from profilerkit.cli import cli
from profilerkit.hooks.backends import backend_named
from profilerkit.trace.records import LayerRecord
from profilerkit_predict.meshes import rank_backend
from profilerkit_predict.meshes.layout import MESH, PASSES, RankModel, read_parallelize, read_rank
from profilerkit_predict.meshes.rank_backend import RankBackend

MESH_OF_TWO = {"dp_shard": 2}


@pytest.fixture(scope="module")
def report() -> Report:
    return profile(
        networks.Net, networks.words(), mesh={"dp_shard": 4}, parallelize="fsdp2", optimizer="adamw", static=True
    )


def test_report_is_that_of_the_rank(report: Report) -> None:
    whole = 115_008  # the parameters of the network: test_ranks counts them by hand
    assert (report.name, report.model_type) == ("Net", "Net")
    assert report["total_params"] == whole // 4
    assert report["rank_parameter_bytes"] == report["rank_gradient_bytes"] == whole // 4 * 4
    assert report["rank_optimizer_bytes"] == 2 * whole // 4 * 4  # two means for each element
    assert report["macs"] == 3_538_944
    assert report["collective_bytes"] == sum(row["sent_bytes"] for row in report["collectives"])
    assert not any("workspace" in str(status.missing) for status in report.statuses.values())
    assert sum(report["rank_peak_parts"].values()) == report["rank_peak_memory"]
    assert report["rank_peak_parts"]["optimizer"] == report["rank_optimizer_bytes"]
    assert str(report).count("ank 0 of 4 (dp_shard=4)") == 1
    shares = [int(share) for share in re.findall(r"(\d+) %", report.status("rank_peak_parts").shown)]
    assert abs(sum(shares) - 100) <= len(shares) / 2, "rounded shares of the whole"


def test_a_rank_has_the_class_and_the_settings_of_its_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """What builds the model is a function, which has another name than the class."""
    inner = backend_named("torch")
    backend, model = RankBackend(inner), RankModel(networks.net_of_spread_heads, MESH_OF_TWO, None, 0, 1, False)
    step = SimpleNamespace(trace=ModelTrace((LayerRecord("", "Net", 0),)))
    monkeypatch.setattr(rank_backend, "_trace_in_process", lambda *given: step)
    assert backend.model_type(model) == model.name
    backend.trace_step(model, ModelInputs())
    assert backend.model_type(model) == "Net" != model.name
    monkeypatch.setattr(type(inner), "non_default_settings", ("a setting",))
    assert backend.non_default_settings == ("a setting",)


def test_layers_make_up_the_peak(report: Report) -> None:
    """A matrix of 64 by 64 has a fourth of its weights on each rank, and two means for each."""
    layers = report["rank_peak_layers"]
    assert sum(row["own_peak_bytes"] for row in layers) == layers[""]["peak_bytes"] == report["rank_peak_memory"]
    matrix = 64 * 64 // 4 * 4
    assert layers["layers.0.attn.q"]["weights_bytes"] == matrix
    assert layers["layers.0.attn.q"]["optimizer_bytes"] == 2 * matrix
    parts = report["rank_peak_parts"]
    assert {name: layers[""][f"{name.replace(' ', '_')}_bytes"] for name in parts} == parts
    assert "Where it goes, by peak bytes" in str(report)


def test_inference_and_runs_are_refused(report: Report) -> None:
    assert "rank_peak_memory" in report.statuses["memory_footprint"].missing[0]
    assert "execution_time" not in report.statuses  # as static=True says; the metrics of the rank need no run


@pytest.mark.slow
def test_prediction_of_a_whole_model_is_refused() -> None:
    on_device = profile(
        networks.Net, networks.words(), mesh=MESH_OF_TWO, on="h100", metrics=["predicted_training_time"]
    )
    assert "see rank_step_time" in on_device.statuses["predicted_training_time"].missing[0]


@pytest.mark.parametrize("mesh", ["", "tp", "tp=0", "tp=2,tp=3", "tp=x", {}, {"tp": 1.5}, {1: 2}, 8, {"d p": 2}])
def test_mesh_that_cannot_be(mesh: Any) -> None:
    with pytest.raises(ArgumentError, match="give"):
        MESH("mesh", mesh)


def test_mesh_of_more_ranks_than_can_be_listed() -> None:
    assert MESH("mesh", "dp_shard=64, tp=8") == MESH("mesh", {"dp_shard": 64, "tp": 8}) == {"dp_shard": 64, "tp": 8}
    assert MESH("mesh", "dp=1024,tp=1024") == {"dp": 1024, "tp": 1024}
    with pytest.raises(ArgumentError, match="a mesh of 1,049,600 ranks: give one of at most 1,048,576"):
        MESH("mesh", {"dp": 1025, "tp": 1024})


@pytest.mark.parametrize("rank", [-1, 16, "0", 1.5])
def test_rank_that_the_mesh_lacks(rank: Any) -> None:
    with pytest.raises(ArgumentError, match="rank="):
        read_rank(rank, {"dp_shard": 2, "tp": 8})


def test_scheme_that_is_not_known() -> None:
    with pytest.raises(ArgumentError, match=r"'train.py:shard', or the name of a scheme: 'fsdp2'"):
        read_parallelize("fsdp")
    assert read_parallelize("zero3") == "zero3"


@pytest.mark.parametrize(
    ("build", "arguments", "message"),
    [
        (torch.nn.Linear(8, 2), {"mesh": MESH_OF_TWO}, "is built already; with mesh= give the function that builds it"),
        (networks.Net, {"parallelize": "fsdp2"}, "parallelize is of a mesh; give that too"),
        (networks.Net, {PASSES: 2}, f"{PASSES} is of a mesh; give that too"),
        *((networks.Net, {"mesh": MESH_OF_TWO, PASSES: passes}, f"{PASSES}=") for passes in (0, -1, 1.5, "two")),
        (networks.Net, {"mesh": MESH_OF_TWO, "optimizer": "adamz"}, "optimizer='adamz' is not a known optimizer"),
    ],
)
def test_arguments_that_cannot_be(build: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        profile(build, networks.words(), metrics=["rank_optimizer_bytes"], strict=True, **arguments)


def profile_strictly(build: Any, parallelize: Any, mesh: Any = MESH_OF_TWO, passes: int = 1) -> Report:
    return profile(
        build,
        networks.words(),
        mesh=mesh,
        parallelize=parallelize,
        gradient_accumulation_steps=passes,
        metrics=["macs"],
        strict=True,
    )


@pytest.mark.slow
def test_error_of_the_users_function() -> None:
    """No metric could be computed, so that the call raises, strict or not."""
    for strict in (True, False):
        with pytest.raises(errors.PlacementError, match=r"parallelize raised KeyError: 'no such plan'"):
            profile(networks.Net, networks.words(), mesh=MESH_OF_TWO, parallelize=networks.fail_to_shard, strict=strict)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["no_file.py:shard", f"{networks.__file__}:nothing"])
def test_function_that_is_not_found(function: str) -> None:
    with pytest.raises(errors.PlacementError, match="there is no file 'no_file.py'|has no 'nothing'"):
        profile(networks.Net, networks.words(), mesh=MESH_OF_TWO, parallelize=function)


@pytest.mark.slow
def test_what_a_step_cannot_be_traced_of() -> None:
    with pytest.raises(errors.InputError, match="the function that builds the model returned a int"):
        profile_strictly(networks.no_module, None)
    with pytest.raises(errors.InputError, match="the model asks for the value of a tensor"):
        profile_strictly(networks.Asking, None)
    with pytest.raises(ArgumentError, match="over dp_replicate and dp_shard, in this order, and the mesh has tp"):
        profile_strictly(networks.Net, "fsdp2", {"tp": 2})
    with pytest.raises(errors.InputError, match=r"stage 0 of the pipeline was not told .* give PipelineStage\("):
        profile_strictly(networks.Net, networks.make_pipeline_without_shapes)
    with pytest.raises(errors.InputError, match="context parallel attention, which torch has for the kernels of GPUs"):
        profile_strictly(networks.InParts, networks.keep_mesh)
    with pytest.raises(errors.InputError, match="return stages, schedule"):
        profile_strictly(networks.Net, networks.make_stages_of_nothing)
    with pytest.raises(errors.ModelFailedError, match=r"ended without an answer \(exit code 3\)"):
        profile_strictly(networks.Net, networks.leave)
    with pytest.raises(errors.InputError, match="cannot be sent to a process of its own"):
        profile_strictly(lambda: networks.Net(spread=True), None)


@pytest.mark.slow
def test_gradients_that_cannot_be_added_up() -> None:
    with pytest.raises(errors.InputError, match="leave out gradient_accumulation_steps, and give the schedule more"):
        profile_strictly(networks.Net, networks.make_short_pipeline, {"pp": 2}, passes=2)


@pytest.mark.slow
def test_settings_that_do_not_fit() -> None:
    distributed = pytest.importorskip("transformers.distributed")
    with pytest.raises(ArgumentError, match="parallelize is a Settings; of objects of settings a DistributedConfig"):
        profile_strictly(networks.tiny_llama, networks.Settings())
    config = distributed.DistributedConfig(tp_size=2)
    with pytest.raises(ArgumentError, match="Net is no model of transformers that follows one; give a function"):
        profile_strictly(networks.Net, config, {"tp": 2})
    with pytest.raises(ArgumentError, match=r"has tp_size=2, and the mesh \(4,\); give a mesh of the same sizes"):
        profile_strictly(networks.tiny_llama, config, {"tp": 4})
    with pytest.raises(ArgumentError, match="the pipeline of transformers has no schedule for training"):
        profile_strictly(networks.tiny_llama, distributed.DistributedConfig(pp_size=2), {"pp": 2})
    experts = distributed.DistributedConfig(fsdp_size=2, ep_size=2)
    with pytest.raises(errors.InputError, match="the model asks for the value of a tensor"):
        profile_strictly(networks.tiny_mixtral, experts, {"dp_shard": 2})


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    support = Path(networks.__file__).parent
    (tmp_path / "train.py").write_text(
        f"import sys\nsys.path.insert(0, {str(support)!r})\nfrom mesh_networks import Net, shard\nprint('noise')\n"
    )
    path = tmp_path / "train.py"
    arguments = ["profile", f"{path}:Net", "--mesh", "dp_shard=4,tp=2", "--parallelize", f"{path}:shard"]
    inputs = ["--input-shape", "words=16:int64", "--batch-size", "2", "--optimizer", "adamw", "--rank", "5"]
    passes = ["--gradient-accumulation-steps", "2"]
    output = tmp_path / "report.json"
    result = CliRunner().invoke(cli, [*arguments, *inputs, *passes, "--output", str(output), "--layers"])
    assert result.exit_code == 0, result.output
    assert "Rank 5 of 8 (dp_shard=4, tp=2)" in result.output
    assert "in a step of 2 passes" in result.output
    saved = Report.load(output)
    assert saved["total_params"] == 16_464  # test_ranks has the formula
    assert {row["dimension"] for row in saved["collectives"]} == {"dp_shard", "tp"}


@pytest.mark.slow
def test_command_line_with_isolation() -> None:
    result = CliRunner().invoke(cli, ["profile", "train.py:Net", "--mesh", "tp=2", "--isolate"])
    assert result.exit_code == 2
    assert "--mesh gets a process of its own already" in result.output


@pytest.mark.slow
def test_layouts_side_by_side() -> None:
    comparison = compare(
        networks.Net,
        networks.net_of_spread_heads,
        inputs=networks.words(),
        mesh={"dp_shard": 4},
        parallelize="fsdp2",
        optimizer=torch.optim.AdamW,
        metrics=["rank_optimizer_bytes"],
    )
    assert [report["rank_optimizer_bytes"] for report in comparison.reports] == [2 * 115_008 + 19 * 4] * 2  # and steps
    assert sys.modules.get("torch.distributed") is None or not torch.distributed.is_initialized()
