"""The layers of a model that is spread over ranks: a rank's share of each layer, and the layer that runs now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn
from torch.distributed.fsdp import FSDPModule

from profilerkit.backend_kit.call_stack import list_shown_layers
from profilerkit.process.restoring import call_each, restored
from profilerkit.trace.layer_paths import count_depth
from profilerkit.trace.records import LayerRecord, WeightRecord
from profilerkit_predict.meshes.records import Purpose

from ..compat.modules import read_buffers, read_parameters, unsaved_buffers
from ..compat.tensors import storage_address
from ..model.inventory import Inventory
from ..model.scripts import type_name
from ..model.weights import weight_record
from ..training.trained_layers import TrainedLayers

__all__ = ["RankLayers"]

#: Returns a rank's share of a tensor.
_TakeShare = Callable[[torch.Tensor], torch.Tensor]


class RankLayers(TrainedLayers):
    """Follows the layers of our own model, by hooks around all other hooks: the other hooks spread its tensors."""

    def __init__(self, model: nn.Module) -> None:
        self.inventory: Inventory = Inventory(model)
        super().__init__(model, self.inventory)
        self.note_owners(self.inventory.layers)

    # The rank's share of each layer -----------------------------------------------------------------------------------

    def list_shares(self, take: _TakeShare) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield this rank's share of each parameter and buffer, after the path of its layer; tied ones repeatedly."""
        for path, module in self.inventory.layers:
            for tensors in (read_parameters(module), read_buffers(module)):
                for _, tensor in _list_present(tensors):
                    yield path, take(tensor)

    def count_weight_bytes(self, take: _TakeShare) -> Counter[Purpose]:
        """Return the bytes of weights by layer, each storage once: a shard may be padded to the size of the largest.

        A storage that several layers share counts for the first of them.
        """
        counted: set[int] = set()
        taken: Counter[Purpose] = Counter()
        for path, share in self.list_shares(take):
            storage = share.untyped_storage()
            if storage_address(storage) not in counted:
                counted.add(storage_address(storage))
                taken[Purpose("weights", path)] += storage.nbytes()
        return taken

    def list_records(self, take: _TakeShare) -> tuple[LayerRecord, ...]:
        """Return a record of each module, with its calls and this rank's share of its weights."""
        identities: dict[Any, int] = {}

        def record(name: str, tensor: torch.Tensor, is_saved: bool = True) -> WeightRecord:
            share = weight_record(name, take(tensor), identities, persistent=is_saved)
            return replace(share, trainable=tensor.requires_grad)

        records = []
        for path, module in list_shown_layers(self.inventory.layers, self.calls):
            unsaved = unsaved_buffers(module)
            parameters = _list_present(read_parameters(module))
            buffers = _list_present(read_buffers(module))
            records.append(
                LayerRecord(
                    path,
                    _name_type(module),
                    count_depth(path),
                    tuple(record(name, tensor) for name, tensor in parameters),
                    tuple(record(name, tensor, name not in unsaved) for name, tensor in buffers),
                    tuple(self.calls.get(path, ())),
                )
            )
        return tuple(records)

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow the calls of the model's modules."""
        stops: list[Callable[[], None]] = []
        with restored(partial(call_each, stops)):
            for module in self.inventory.modules:
                stops.append(module.register_forward_pre_hook(self._enter, prepend=True).remove)
                stops.append(module.register_forward_hook(self._leave, with_kwargs=True, always_call=True).remove)
            yield


def _list_present(tensors: Mapping[str, torch.Tensor | None]) -> list[tuple[str, torch.Tensor]]:
    return [(name, tensor) for name, tensor in tensors.items() if tensor is not None]


def _name_type(module: nn.Module) -> str:
    """Return the name of a module's class: the original class if ``fully_shard`` has changed it."""
    if not isinstance(module, FSDPModule):
        return type_name(module)
    _spread, _fsdp_module, original, *_ = type(module).__mro__
    return original.__name__
