"""Wrappers: modules that are spread over several processes.

Nothing inside of them could be counted without their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from profilerkit.backend_kit.private_names import field

from .names import read_attribute

#: By the class of a wrapper: the name under which it holds the module inside.
INNER_NAMES = {
    "OptimizedModule": field("_orig_mod"),
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": field("_fsdp_wrapped_module"),
}


def _read_wrapped(owner: Any, name: str) -> Any:
    """Return what ``FullyShardedDataParallel`` keeps under a name."""
    return read_attribute(
        owner, name, f"FullyShardedDataParallel's {name}", "finds the parameters that it has made one of"
    )


def find_flat_parameter(wrapper: Any) -> Any:
    """Return the parameter that a ``FullyShardedDataParallel`` has made of several; None where it has none."""
    handle = _read_wrapped(wrapper, field("_handle"))
    return None if handle is None else handle.flat_param


def list_sizes_in_shard(flat: Any) -> list[int]:
    """Return how many elements of each original parameter this rank has, without padding."""
    parts = getattr(flat, field("_shard_param_infos"), None)
    if parts is None:  # it is not spread
        return [shape.numel() for shape in _read_wrapped(flat, field("_shapes"))]
    return [part.numel_in_shard or 0 for part in parts]


def list_original_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.Size, bool]]:
    """Yield module, name, shape and whether it needs a gradient, for each parameter that a flat one was made of."""
    shapes = _read_wrapped(flat, field("_shapes"))
    originals = getattr(flat, field("_params"), None) or [flat] * len(shapes)
    for info, shape, original in zip(_read_wrapped(flat, field("_param_infos")), shapes, originals, strict=True):
        yield info.module, info.param_name, shape, original.requires_grad


def list_shared_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.nn.Module, str]]:
    """Yield module and name of each parameter that is another one too, with module and name of that."""
    for info in _read_wrapped(flat, field("_shared_param_infos")):
        yield info.module, info.param_name, info.prim_module, info.prim_param_name
