"""What this process holds of a model that is spread over several: its rank, and its share of the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from profilerkit.trace.records import RankShare

from ..compat.modules import read_buffers, read_parameters, unsaved_buffers
from ..compat.wrappers import list_original_parameters, list_shared_parameters, list_sizes_in_shard
from .stored_bytes import count_stored_bytes
from .wrapped import find_inner_name, has_wrappers, is_gathered, is_part, is_spread, list_flat_parameters

__all__ = ["rank_share"]

_SPREADING = ("DistributedDataParallel", "FullyShardedDataParallel")


def rank_share(modules: Sequence[nn.Module]) -> RankShare | None:
    """Return what this process holds of a model, given all its modules, that runs in several; None for any other."""
    if not has_wrappers(modules) or not _runs_in_several(modules):
        return None
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None  # what is left of a group of processes that is gone
    count = stored = 0
    counted: set[int] = set()
    flattened: set[tuple[int, str]] = set()
    for flat in list_flat_parameters(modules):
        originals = (*list_original_parameters(flat), *list_shared_parameters(flat))
        flattened.update((id(owner), name) for owner, name, *_ in originals)
        elements = sum(list_sizes_in_shard(flat))
        count, stored = count + elements, stored + elements * flat.element_size()
        counted.add(id(flat))
    for module in modules:
        parameters, buffers = read_parameters(module), read_buffers(module)
        for name, tensor in (*parameters.items(), *buffers.items()):
            if tensor is None or id(tensor) in counted or (id(module), name) in flattened:
                continue
            if name in unsaved_buffers(module):
                continue
            counted.add(id(tensor))
            local = tensor.to_local() if is_part(tensor) else tensor
            count += local.numel() if name in parameters else 0
            stored += count_stored_bytes(local)
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return RankShare(rank, ranks, count, stored, _count_sharing(modules))


def _count_sharing(modules: Sequence[nn.Module]) -> int:
    """Return how many processes share the work of one pass, by the meshes over which the parts of weights lie.

    ``fully_shard`` gathers the weights along the first dimension of a mesh along which they are parts, and each process
    runs the model on samples of its own. Of a weight that lies over (2 copies, 4 parts, 8 parts) it gathers the 4.
    """
    gathers = any(map(is_gathered, modules))
    parts: Any = [tensor for module in modules for tensor in read_parameters(module).values() if is_part(tensor)]
    sharing = [1]
    for tensor in parts:
        placed = zip(tensor.device_mesh.shape, tensor.placements, strict=True)
        sizes = [size for size, placement in placed if not placement.is_replicate()]
        sharing.append(math.prod(sizes[1:] if gathers else sizes))
    return max(sharing)


def _runs_in_several(modules: Sequence[nn.Module]) -> bool:
    """Return whether a wrapper copies or spreads a model over processes, or one of its modules is spread."""
    wrappers = [module for module in modules if find_inner_name(module)]
    names = {base.__name__ for wrapper in wrappers for base in type(wrapper).__mro__}
    return not names.isdisjoint(_SPREADING) or any(map(is_spread, modules))
