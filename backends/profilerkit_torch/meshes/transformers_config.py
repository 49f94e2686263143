"""A model of transformers, spread as the library's own ``DistributedConfig`` says."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from profilerkit import ArgumentError

__all__ = ["spread_by_config"]

#: The fields of the configuration that are dimensions of its mesh, the outermost first.
_SIZES = ("pp_size", "dp_replicate_size", "fsdp_size", "tp_size")


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
    sizes = [getattr(config, name) or 1 for name in _SIZES]
    if [size for size in sizes if size > 1] != [size for size in device_mesh.shape if size > 1]:
        asked = ", ".join(f"{name}={size}" for name, size in zip(_SIZES, sizes, strict=True) if size > 1)
        raise ArgumentError(
            f"the DistributedConfig has {asked or 'one rank'}, and the mesh {tuple(device_mesh.shape)}; give a mesh of "
            "the same sizes in this order"
        )
    if sizes[0] > 1:
        raise ArgumentError(
            "the pipeline of transformers has no schedule for training; give a function that returns stages and a "
            "schedule of torch.distributed.pipelining"
        )
    prepared, _, manager = model.prepare_distribute_model(config)  # type: ignore[operator]
    return model.maybe_distribute_model(model, prepared, manager)  # type: ignore[operator, no-any-return]
