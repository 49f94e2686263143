"""The share of this process in a model that is spread over several processes: its rank, and its part of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from profilerkit.trace.records import RankShare

from ..compat.modules import (
    list_original_parameters,
    list_shared_parameters,
    list_sizes_in_shard,
    read_buffers,
    read_parameters,
    unsaved_buffers,
)
from .inventory import Inventory
from .modules import list_modules
from .storages import count_stored_bytes
from .wrapped import find_inner_name, has_wrappers, is_gathered, is_part, is_spread, list_flattened

__all__ = ["count_bucket_bytes", "is_in_group", "rank_share"]

_DATA_PARALLEL = "DistributedDataParallel"
_SPREADING = (_DATA_PARALLEL, "FullyShardedDataParallel")


class _Share(NamedTuple):
    """The share of this process in some weights: elements of parameters, and the bytes of parameters and buffers."""

    elements: int
    bytes: int


def rank_share(inventory: Inventory) -> RankShare | None:
    """Return the share of this process in a model that runs in several processes; None for any other model."""
    modules = inventory.modules
    if not has_wrappers(inventory) or not _runs_in_several(modules):
        return None
    if not is_in_group():
        return None  # a leftover of a group of processes that is gone
    flats = [flat for _, flat in list_flattened(modules)]
    in_flats = [(sum(list_sizes_in_shard(flat)), flat.element_size()) for flat in flats]
    shares = [_Share(elements, elements * size) for elements, size in in_flats]
    shares += _measure_others(modules, flats)
    return RankShare(
        torch.distributed.get_rank(),
        torch.distributed.get_world_size(),
        sum(part.elements for part in shares),
        sum(part.bytes for part in shares),
        _count_sharing(modules),
    )


def count_bucket_bytes(model: nn.Module) -> int:
    """Return the bytes of a model's gradients that DistributedDataParallel has a second time, in buckets to send them.

    It makes them with itself, for each parameter that is trained. With ``gradient_as_bucket_view`` the gradients lie in
    them, and there is no second copy.
    """
    if not is_in_group():
        return 0
    wrappers: list[Any] = [module for module in list_modules(model) if _is_of_class(module, _DATA_PARALLEL)]
    copying = [wrapper for wrapper in wrappers if not getattr(wrapper, "gradient_as_bucket_view", False)]
    return sum(
        count_stored_bytes(parameter)
        for wrapper in copying
        for name, parameter in wrapper.module.named_parameters()
        if parameter.requires_grad and name not in wrapper.parameters_to_ignore
    )


def _measure_others(modules: Iterable[nn.Module], flats: Iterable[Any]) -> Iterator[_Share]:
    """Yield the share of this process in each weight that is in no flat parameter; tied weights are yielded once."""
    measured = set(map(id, flats))
    flattened = {
        (id(owner), name)
        for flat in flats
        for owner, name, *_ in (*list_original_parameters(flat), *list_shared_parameters(flat))
    }
    for module in modules:
        parameters, unsaved = read_parameters(module), unsaved_buffers(module)
        for name, tensor in (*parameters.items(), *read_buffers(module).items()):
            if tensor is None or id(tensor) in measured or (id(module), name) in flattened or name in unsaved:
                continue
            measured.add(id(tensor))
            local = tensor.to_local() if is_part(tensor) else tensor
            yield _Share(local.numel() if name in parameters else 0, count_stored_bytes(local))


def _count_sharing(modules: Sequence[nn.Module]) -> int:
    """Return how many processes share the work of one pass: the most that share the work on one weight."""
    gathering = [module for module in modules if is_gathered(module)]
    within_gathering = {id(inner) for module in gathering for inner in list_modules(module)}
    sharing = (
        _count_sharing_weight(tensor, id(module) in within_gathering)
        for module in modules
        for tensor in read_parameters(module).values()
        if is_part(tensor)
    )
    return max(sharing, default=1)


def _count_sharing_weight(tensor: Any, is_gathered_first: bool) -> int:
    """Return how many processes share the work on a weight, by the mesh over which its parts lie.

    ``fully_shard`` gathers the weights of a module and of the modules in it along the first dimension of the mesh along
    which they are parts, and each process runs the module on samples of its own. Of a weight that lies over (2 copies,
    4 parts, 8 parts) it gathers the 4. Weights of other modules are not gathered: each process works on its part.
    """
    placed = zip(tensor.device_mesh.shape, tensor.placements, strict=True)
    sizes = [size for size, placement in placed if not placement.is_replicate()]
    return math.prod(sizes[1:] if is_gathered_first else sizes)


def _runs_in_several(modules: Sequence[nn.Module]) -> bool:
    """Return whether a wrapper copies or spreads a model over processes, or one of its modules is spread."""
    wrappers = [module for module in modules if find_inner_name(module)]
    return any(_is_of_class(wrapper, *_SPREADING) for wrapper in wrappers) or any(map(is_spread, modules))


def _is_of_class(module: nn.Module, *names: str) -> bool:
    """Return whether the class of a module, or a class that it is derived from, has one of these names."""
    return any(base.__name__ in names for base in type(module).__mro__)


def is_in_group() -> bool:
    """Return whether this process is one of a group of torch's."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()
