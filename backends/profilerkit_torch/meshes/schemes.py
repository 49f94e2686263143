"""Spreading a model over a mesh if the user gives no function: by a scheme with a name, or by a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from profilerkit import ArgumentError

from .data_parallel import DataParallel
from .step_scheme import StepScheme
from .zero import PartitionedUpdate
from .zero_parameters import PartitionedParameters

__all__ = ["spread_attention", "spread_by_config", "spread_by_scheme"]

#: The fields of transformers' ``DistributedConfig`` that are dimensions of its mesh, the outermost first.
_SIZES = ("pp_size", "dp_replicate_size", "fsdp_size", "tp_size")


def spread_by_scheme(name: str, model: nn.Module, device_mesh: DeviceMesh) -> StepScheme:
    """Spread a model by a scheme, and return the scheme's work in a step.

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
    """Shard the model with ``fully_shard``: each module of each list of modules, and the rest with the root."""
    from torch.distributed.fsdp import fully_shard

    for module in dict.fromkeys((*_list_blocks(model), model)):  # a block may be in several places
        fully_shard(module, mesh=device_mesh)
    return StepScheme()


def _list_blocks(module: nn.Module, is_in_list: bool = False) -> Iterator[nn.Module]:
    """Yield the modules in lists of modules, the blocks of a network, but no modules inside of blocks.

    A module that only holds modules and is never called, such as a list in a list, is no block; its modules are.
    """
    is_in_list = is_in_list or isinstance(module, nn.ModuleList)
    for child in module.children():
        if is_in_list and type(child).forward is not nn.Module.forward:
            yield child
        else:
            yield from _list_blocks(child, is_in_list)


def _partition_update(model: nn.Module, device_mesh: DeviceMesh, stage: int) -> StepScheme:
    return PartitionedUpdate(device_mesh.get_group(), stage)


class _Scheme(NamedTuple):
    """A way of spreading a model, the mesh dimensions that it may use, and the dimension that it needs."""

    spread: Callable[[nn.Module, DeviceMesh], StepScheme]
    dimensions: tuple[str, ...]
    needed: str


_SCHEMES = {
    "fsdp2": _Scheme(_shard_fully, ("dp_replicate", "dp_shard"), "dp_shard"),
    "ddp": _Scheme(lambda model, mesh: DataParallel(model, mesh.get_group()), ("dp_replicate",), "dp_replicate"),
    "zero1": _Scheme(partial(_partition_update, stage=1), ("dp_shard",), "dp_shard"),
    "zero2": _Scheme(partial(_partition_update, stage=2), ("dp_shard",), "dp_shard"),
    "zero3": _Scheme(lambda model, mesh: PartitionedParameters(mesh.get_group()), ("dp_shard",), "dp_shard"),
}


def spread_attention() -> None:
    """Register how torch spreads the CPU's kernel of attention: by samples and by heads, like the kernels of GPUs.

    Without a rule it gathers all heads on every rank first, or refuses.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    placements = (Replicate(), Shard(0), Shard(1))  # samples are the first dimension, heads the second

    def spread_alike(results: int, tensors: int) -> Callable[..., list[Any]]:
        """Return a rule by which results and tensors, the first arguments, are spread alike."""
        return lambda *arguments, **named: [
            ([placement] * results, [placement] * tensors + [None] * (len(arguments) - tensors))
            for placement in placements
        ]

    aten: Any = torch.ops.aten
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu.default)(spread_alike(2, 3))
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)(spread_alike(3, 6))


def spread_by_config(config: Any, model: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
    """Return a model that transformers has spread, over dimensions that the mesh must have too, in the same order.

    Raises `ArgumentError` for other settings, other models, another mesh, and a pipeline.
    """
    if not all(hasattr(config, name) for name in _SIZES):
        raise ArgumentError(
            f"parallelize is a {type(config).__name__}; of objects of settings a DistributedConfig of transformers is "
            "known: give that, or a function that is called with the model and the mesh"
        )
    if not hasattr(model, "maybe_distribute_model"):
        raise ArgumentError(
            f"parallelize is a DistributedConfig, and {type(model).__name__} is no model of transformers that follows "
            "one; give a function that is called with the model and the mesh"
        )
    _require_mesh(config, device_mesh)
    prepared, _, manager = model.prepare_distribute_model(config)  # type: ignore[operator]
    return model.maybe_distribute_model(model, prepared, manager)  # type: ignore[operator, no-any-return]


def _require_mesh(config: Any, device_mesh: DeviceMesh) -> None:
    """Raise `ArgumentError` if a mesh has other sizes than settings of transformers, or these have a pipeline."""
    sizes = {name: getattr(config, name) or 1 for name in _SIZES}
    above_one = {name: size for name, size in sizes.items() if size > 1}
    if list(above_one.values()) != [size for size in device_mesh.shape if size > 1]:
        asked = ", ".join(f"{name}={size}" for name, size in above_one.items())
        raise ArgumentError(
            f"the DistributedConfig has {asked or 'one rank'}, and the mesh {tuple(device_mesh.shape)}; give a mesh of "
            "the same sizes in this order"
        )
    if "pp_size" in above_one:
        raise ArgumentError(
            "the pipeline of transformers has no schedule for training; give a function that returns stages and a "
            "schedule of torch.distributed.pipelining"
        )
