"""The smallest mesh on which a step fits: found between powers of two, by the memory of a device."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch.distributed.fsdp", reason="this torch has no fully_shard")

import mesh_networks as networks

from profilerkit import ArgumentError, DeviceInfo, find_mesh, profile
from profilerkit.devices import Figure

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
