"""The time of a rank's step: of collectives by the links that they use, and what of it is waited for."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

import mesh_networks as networks
from click.testing import CliRunner

from profilerkit import ArgumentError, DeviceInfo, ModelTrace, Report, profile
from profilerkit.cli import cli
from profilerkit.devices import Figure
from profilerkit.trace.bounds import Bounds
from profilerkit_predict.meshes.records import Collective, PlacedCollective, RankTrace
from profilerkit_predict.meshes.step_time import Links, _predict

#: The peak in FLOP/s, and the bytes per second of the link in one direction.
PEAK, LINK = 1e9, 1e6
TOY = DeviceInfo(
    "toy",
    dense_peaks={"float32": Figure(PEAK, "an example")},
    figures={"link_bandwidth": Figure(2 * LINK, "an example")},
)
REASON = "what the links do not reach of their bandwidth"
#: The forward MACs of the network, by the formula of test_mesh_ranks; a step has three times as many.
MACS = 3 * 3_538_944


@pytest.mark.parametrize(
    ("mesh", "kind", "dimension", "rank", "seconds"),
    [
        *(({"dp": 16, "tp": 8}, "all-gather", "tp", rank, 900 / 450) for rank in (0, 3)),  # ranks 0 to 7: one node
        *(({"dp": 16, "tp": 8}, "all-gather", "dp", rank, 900 / 50) for rank in (0, 3)),  # each in a node of its own
        ({"dp": 16}, "all-gather", "dp", 3, 900 / (8 * 50)),  # two nodes, each of which has eight ways out
        ({"dp": 128}, "all-gather", "dp", 3, 900 / (8 * 50)),
        ({"dp": 2, "tp": 2}, "all-gather", "dp,tp", 3, 900 / 450),
        # An eighth of 960 bytes stays here: of 16 ranks each of 15 others gets 60 bytes, 8 of them in another node.
        ({"ep": 16}, "all-to-all", "ep", 3, 8 * 60 / 50),
        ({"ep": 8}, "all-to-all", "ep", 3, 900 / 450),
        # Stages of four ranks: the second stage of a node sends to another one, by its own way out.
        ({"pp": 4, "tp": 4}, "send", "pp", 3, 900 / 450),
        ({"pp": 4, "tp": 4}, "send", "pp", 7, 900 / 50),
    ],
)
def test_seconds_by_the_slowest_link(
    mesh: dict[str, int], kind: str, dimension: str, rank: int, seconds: float
) -> None:
    ranks = prod(mesh[name] for name in dimension.split(","))
    exchanged = Collective("", kind, dimension, ranks, "forward", 1, 960, 900, False)
    links = Links(mesh, rank, link=450, network=50, ranks_per_node=8)
    assert links.find_seconds(exchanged) == pytest.approx(seconds)
    unknown = replace(links, network=None)
    assert unknown.find_seconds(exchanged) == pytest.approx(900 / 450)
    assert bool(unknown.list_unknown([exchanged])) == (seconds != 900 / 450)


def predict_step(exchanged: tuple[PlacedCollective, ...], unknown: dict[str, int]) -> dict[str, Any]:
    """A step of 1 s of work, 0.9 to 1.1 s by a calibration; the link takes a second for 1,000 bytes."""
    work: Any = SimpleNamespace(seconds=1.0, low=0.9, high=1.1, estimate=1.0, device=TOY, tier="calibrated")
    step = RankTrace(ModelTrace((), ()), exchanged=exchanged, unknown=unknown)
    found = _predict(work, step, Links({"dp": 2}, 0, 1000.0, None, 8))
    return {**found, "rank_step_time": found["rank_step_time"].value}


@pytest.mark.parametrize(("overlaps", "low", "value"), [(False, 2.9, 3.0), (True, 2.0, 2.0)])
def test_a_step_that_exchanges_has_no_upper_end(overlaps: bool, low: float, value: float) -> None:
    """2,000 bytes take 2 s at least, and nobody knows how much longer: a calibration is of the work alone."""
    collective = Collective("", "all-reduce", "dp", 2, "backward", 1, 2000, 2000, overlaps)
    found = predict_step((PlacedCollective(0, collective),), {})
    step = found["rank_step_time"]
    assert (step.value, step.bounds) == (pytest.approx(value), Bounds(low, None))
    assert {name: REASON in part.missing for name, part in found.items()} == dict.fromkeys(found, True)


def test_an_exchange_of_unknown_size_is_said() -> None:
    found = predict_step((), {"all_to_all": 3})
    assert {name: "all_to_all (3 calls)" in part.missing for name, part in found.items()} == dict.fromkeys(found, True)
    assert found["rank_step_time"].bounds == Bounds(0.9, None)


def test_a_step_that_exchanges_nothing_has_the_ends_of_its_work() -> None:
    step = predict_step((), {})["rank_step_time"]
    assert (step.value, step.missing, step.bounds) == (1.0, ("predicted, not measured",), Bounds(0.9, 1.1))


def profile_on_toy(parallelize: Any, mesh: dict[str, int], **more: Any) -> Report:
    arguments = {"parallelize": parallelize, "mesh": mesh, "on": TOY, **more}
    metrics = ["rank_step_time", "collective_time", "exposed_time", "collective_bytes"]
    return profile(networks.Net, networks.words(), metrics=metrics, **arguments)


@pytest.mark.slow
def test_gathered_weights_come_beside_the_work() -> None:
    report = profile_on_toy("fsdp2", {"dp_shard": 4})
    work, links = 2 * MACS / PEAK, report["collective_bytes"] / LINK
    assert report["collective_time"] == pytest.approx(links)
    assert report["exposed_time"] == pytest.approx(links - work)  # 0.86 s on the links, 0.02 s of work
    assert report["rank_step_time"] == pytest.approx(links)
    assert "≥" in str(report)


@pytest.mark.slow
def test_tensor_parallel_layers_wait() -> None:
    report = profile_on_toy(networks.shard_tensors, {"tp": 2}, network=50)
    assert report["exposed_time"] == report["collective_time"] == pytest.approx(report["collective_bytes"] / LINK)
    blocks, head = MACS - 3 * 2 * 16 * 64 * 128, 3 * 2 * 16 * 64 * 128
    work = 2 * (blocks // 2 + head) / PEAK
    assert report["rank_step_time"] == pytest.approx(work + report["exposed_time"])


@pytest.mark.slow
def test_what_is_not_known_is_said() -> None:
    report = profile_on_toy("fsdp2", {"dp_shard": 16})
    assert "give its bytes per second and device: network=50e9" in str(report.statuses["rank_step_time"].missing)
    unlinked = DeviceInfo("unlinked", dense_peaks={"float32": Figure(PEAK, "an example")})
    report = profile_on_toy("fsdp2", {"dp_shard": 4}, on=unlinked)
    assert "the bandwidth between devices of unlinked is not known" in report.statuses["rank_step_time"].missing[0]
    nowhere = profile_on_toy(None, {"dp_shard": 4}, on=None)
    assert "no device was given; give one: on='h100'" in nowhere.statuses["exposed_time"].missing[0]


def test_network_that_cannot_be() -> None:
    with pytest.raises(ArgumentError, match="network=50e9, bytes per second"):
        profile_on_toy("fsdp2", {"dp_shard": 4}, network=0)
    with pytest.raises(ArgumentError, match="ranks_per_node=0"):
        profile_on_toy("fsdp2", {"dp_shard": 4}, ranks_per_node=0)
    result = CliRunner().invoke(cli, ["profile", "train.py:Net", "--mesh", "tp=2", "--network", "0"])
    assert result.exit_code == 2
    assert "--network" in result.output
