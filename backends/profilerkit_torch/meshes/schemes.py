"""Schemes by name: how a model is spread over a mesh where the user gives no function of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from profilerkit import ArgumentError

from .data_parallel import DataParallel
from .step_scheme import StepScheme
from .zero_parameters import PartitionedParameters
from .zero_states import PartitionedGradients, PartitionedStates

__all__ = ["spread_by_scheme"]


def spread_by_scheme(name: str, model: nn.Module, device_mesh: DeviceMesh) -> StepScheme:
    """Spread a model by a scheme, and return what that does in its step.

    Raises `ArgumentError` for a mesh with other dimensions than the scheme uses, or in another order.
    """
    scheme = _SCHEMES[name]
    names = device_mesh.mesh_dim_names or ()
    in_order = tuple(dimension for dimension in scheme.dimensions if dimension in names)
    if names != in_order or scheme.needed not in names:
        raise ArgumentError(
            f"parallelize={name!r} spreads a model over {' and '.join(scheme.dimensions)}, in this order, and the mesh "
            f"has {', '.join(names)}; give a function of your own: parallelize=shard, which is called with the model "
            "and the mesh"
        )
    return scheme.spread(model, device_mesh)


def _shard_fully(model: nn.Module, device_mesh: DeviceMesh) -> StepScheme:
    """Shard the model with ``fully_shard``: each module of each list of modules, and what is left with the root."""
    from torch.distributed.fsdp import fully_shard

    for module in (*_list_blocks(model), model):
        fully_shard(module, mesh=device_mesh)
    return StepScheme()


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


class _Scheme(NamedTuple):
    """What spreads a model, the dimensions of the mesh that it uses, and the one that it needs."""

    spread: Callable[[nn.Module, DeviceMesh], StepScheme]
    dimensions: tuple[str, ...]
    needed: str


_SCHEMES = {
    "fsdp2": _Scheme(_shard_fully, ("dp_replicate", "dp_shard"), "dp_shard"),
    "ddp": _Scheme(lambda model, mesh: DataParallel(model, mesh.get_group()), ("dp_replicate",), "dp_replicate"),
    "zero1": _Scheme(lambda model, mesh: PartitionedStates(mesh.get_group()), ("dp_shard",), "dp_shard"),
    "zero2": _Scheme(lambda model, mesh: PartitionedGradients(mesh.get_group()), ("dp_shard",), "dp_shard"),
    "zero3": _Scheme(lambda model, mesh: PartitionedParameters(mesh.get_group()), ("dp_shard",), "dp_shard"),
}
