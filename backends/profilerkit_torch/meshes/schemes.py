"""Schemes by name: how a model is spread over a mesh where the user gives no function of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from profilerkit import ArgumentError

__all__ = ["find_scheme"]


def find_scheme(name: str, device_mesh: DeviceMesh) -> Callable[[nn.Module, DeviceMesh], Any]:
    """Return the function of a scheme. Raises `ArgumentError` for a mesh with dimensions that it does not use."""
    spread, dimensions = _SCHEMES[name]
    names = device_mesh.mesh_dim_names or ()
    unused = [dimension for dimension in names if dimension not in dimensions]
    if unused or dimensions[0] not in names:
        raise ArgumentError(
            f"parallelize={name!r} spreads a model over {' and '.join(dimensions)}, and the mesh has "
            f"{', '.join(names)}; give a function of your own: parallelize=shard, which is called with the model and "
            "the mesh"
        )
    return spread


def _shard_fully(model: nn.Module, device_mesh: DeviceMesh) -> None:
    """Shard the model with ``fully_shard``: each module of each list of modules, and what is left with the root."""
    from torch.distributed.fsdp import fully_shard

    for module in _list_blocks(model):
        fully_shard(module, mesh=device_mesh)
    fully_shard(model, mesh=device_mesh)


def _list_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules in lists of modules that are in no other list: the blocks of a network."""
    blocks: list[nn.Module] = []
    remaining = [model]
    while remaining:
        for child in remaining.pop().children():
            if isinstance(child, nn.ModuleList):
                blocks.extend(child)
            else:
                remaining.append(child)
    return blocks


_SCHEMES: dict[str, tuple[Callable[[nn.Module, DeviceMesh], Any], tuple[str, ...]]] = {
    "fsdp2": (_shard_fully, ("dp_shard", "dp_replicate"))
}
