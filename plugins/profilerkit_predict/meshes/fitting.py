"""The smallest mesh on which a training step fits the memory of each device."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from os import PathLike
from typing import Any

from profilerkit.api import profile
from profilerkit.arguments.checks import positive
from profilerkit.devices import DeviceInfo, DeviceInfoLike, device
from profilerkit.errors import ArgumentError
from profilerkit.results.report import Report

from ..rank_metrics import RankPeakMemory
from .layout import OPEN_MESH

#: The most ranks that are tried.
_MOST_RANKS = 4096
_BYTES = positive("fits=80e9", "a device, or a number of bytes")


def find_mesh(
    build: Any,
    inputs: Any = None,
    *,
    mesh: Mapping[str, int | None] | str,
    fits: DeviceInfoLike | float,
    **arguments: Any,
) -> Report:
    """Return the report of a rank of the smallest mesh on which a training step fits, with the optimizer's state.

    One size of the mesh is None; powers of two are tried for it, the smallest first, while more ranks need less.

    Args:
        build: The function that builds the model; see `profilerkit.profile` for this and for the inputs.
        inputs: The inputs of each rank.
        mesh: Names and sizes of the dimensions, one of them None: ``{"dp_shard": None, "tp": 8}`` or "dp_shard=?,tp=8".
        fits: The device, whose memory counts: a name, a `DeviceInfo`, the path of a file; or a number of bytes.
        arguments: Further arguments of `profilerkit.profile`: ``parallelize``, ``optimizer``, ``input_shape``.

    Raises:
        ArgumentError: An argument is invalid, the device's memory is not known, or no mesh suffices.
        DeviceNotKnownError: No device has the name.
    """
    limit = _read_limit(fits)
    sizes = OPEN_MESH("mesh", mesh)
    looked_for = [name for name, size in sizes.items() if size is None]
    if len(looked_for) != 1:
        raise ArgumentError(f"mesh={sizes!r}: one size must be None, which is looked for: {{'dp_shard': None}}")
    name = looked_for[0]
    ranks = prod(size for size in sizes.values() if size is not None)
    strictly = {**arguments, "metrics": [RankPeakMemory.NAME], "static": False, "strict": True}
    peaks: dict[int, int] = {}
    size = 1
    while size * ranks <= max(_MOST_RANKS, ranks):
        peaks[size] = profile(build, inputs, mesh={**sizes, name: size}, **strictly)[RankPeakMemory.NAME]
        if peaks[size] <= limit:
            return profile(build, inputs, mesh={**sizes, name: size}, **{"static": True, **arguments})
        if size > 2 and peaks[size] >= peaks[size // 2]:
            break  # as many ranks pad small weights
        size *= 2
    best = min(peaks, key=lambda tried: peaks[tried])
    raise ArgumentError(
        f"a step needs {peaks[best]:,} bytes on a rank even with {name}={best}, and {limit:,.0f} are there; spread it "
        "over another dimension too, or give each rank fewer samples"
    )


def _read_limit(fits: DeviceInfoLike | float) -> float:
    if not isinstance(fits, (DeviceInfo, str, PathLike)):
        limit: float = _BYTES("fits", fits)
        return limit
    target = device(fits)
    if target.memory is None:
        raise ArgumentError(f"the memory of {target.name} is not known; give a number of bytes: fits=80e9")
    return target.memory
