"""What a module is: a wrapper around another one, or one that is spread over several processes.

Classes are known by their names, as ``torch.distributed`` is not in every build of torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from profilerkit.process.cached import once_for_each

from ..compat.modules import INNER_NAMES, find_flat_parameter, read_parameters
from .inventory import Inventory

__all__ = [
    "DATA_PARALLEL_NAME",
    "FLATTENED_NAME",
    "SPREADING",
    "find_inner_name",
    "has_wrappers",
    "is_gathered",
    "is_gathering_class",
    "is_part",
    "is_spread",
    "list_flattened",
]

#: Where the classes and hooks are from that gather and spread weights.
SPREADING = ("torch.distributed.fsdp", "torch.distributed.tensor")
#: Under which name DataParallel and DistributedDataParallel hold the module inside.
DATA_PARALLEL_NAME = INNER_NAMES["DataParallel"]
#: Under which name a FullyShardedDataParallel holds the module inside.
FLATTENED_NAME = INNER_NAMES["FullyShardedDataParallel"]


def find_inner_name(module: nn.Module) -> str | None:
    """Return under which name a wrapper holds the module inside; None for one that is no wrapper."""
    return _find_inner_name_by_class(type(module))


@once_for_each
def _find_inner_name_by_class(kind: type) -> str | None:
    bases = (base for base in kind.__mro__ if base.__module__.startswith("torch."))
    return next((INNER_NAMES[base.__name__] for base in bases if base.__name__ in INNER_NAMES), None)


def is_spread(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, or its own parameters are parts of whole ones."""
    return is_gathered(module) or any(map(is_part, read_parameters(module).values()))


def is_gathered(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, so that its weights are whole while it runs."""
    return is_gathering_class(type(module))


@once_for_each
def is_gathering_class(kind: type) -> bool:
    """Return whether a class is one that ``fully_shard`` has made of the class of a module."""
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(SPREADING) for base in kind.__mro__)


def is_part(tensor: torch.Tensor | None) -> bool:
    """Return whether a tensor is this rank's part of a whole one, a ``DTensor``."""
    return _is_part_class(type(tensor))


def _is_part_class(kind: type) -> bool:
    return hasattr(kind, "to_local")


def has_wrappers(inventory: Inventory) -> bool:
    """Return whether one of a model's modules is a wrapper, or spread over several processes."""
    if any(_find_inner_name_by_class(kind) or is_gathering_class(kind) for kind in inventory.kinds):
        return True
    return any(map(_is_part_class, set(map(type, inventory.direct_parameters))))


def list_flattened(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, Any]]:
    """Return each FullyShardedDataParallel that has made one parameter of those of the module inside, with that."""
    wrappers = [module for module in modules if find_inner_name(module) == FLATTENED_NAME]
    flats = [(wrapper, find_flat_parameter(wrapper)) for wrapper in wrappers]
    return [(wrapper, flat) for wrapper, flat in flats if flat is not None]
