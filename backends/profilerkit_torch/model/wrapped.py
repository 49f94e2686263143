"""Wrappers around modules: what is counted is the model inside, under the paths that it has without them.

| wrapper | what stands for it while the model is counted |
|---|---|
| ``torch.compile``, ``DataParallel``, ``DistributedDataParallel`` | the module inside |
| ``FullyShardedDataParallel`` | the module inside, with its parameters as they were before they were flattened |
| ``fully_shard`` (FSDP 2), ``parallelize_module`` | the module without the hooks of these, with whole parameters |

A wrapper may be anywhere in a model. What one rank holds of a model that is spread over several is reported beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each
from profilerkit.trace.records import RankShare

from ..compat import (
    INNER_NAMES,
    call_hooks,
    flat_parameter,
    list_shared_parameters,
    original_parameters,
    read_buffers,
    read_children,
    read_parameters,
    sizes_in_shard,
    unsaved_buffers,
)
from .modules import list_modules
from .weights import size_of

__all__ = ["has_wrappers", "inner_model", "rank_share", "unwrap", "with_wrapper"]

#: Where the hooks are from that gather and spread weights.
_SPREADING = ("torch.distributed.fsdp", "torch.distributed.tensor")


def _holder(module: nn.Module) -> str | None:
    """Return under which name a wrapper holds the module inside; None for one that is no wrapper."""
    kind: Any = type(module)
    return _holder_by_class(kind)


@once_for_each
def _holder_by_class(kind: type) -> str | None:
    bases = (base for base in kind.__mro__ if base.__module__.startswith("torch."))
    return next((INNER_NAMES[base.__name__] for base in bases if base.__name__ in INNER_NAMES), None)


def _is_spread(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, or its own parameters are parts of whole ones."""
    kind: Any = type(module)
    return _shards_by_class(kind) or any(_is_part(tensor) for tensor in read_parameters(module).values())


def _is_part(tensor: torch.Tensor | None) -> bool:
    kind: Any = type(tensor)
    return kind is not nn.Parameter and hasattr(tensor, "to_local")


@once_for_each
def _shards_by_class(kind: type) -> bool:
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(_SPREADING) for base in kind.__mro__)


def has_wrappers(modules: Iterable[nn.Module]) -> bool:
    """Return whether one of a model's modules is a wrapper, or spread over several processes."""
    if any(_holder_by_class(kind) or _shards_by_class(kind) for kind in set(map(type, modules))):
        return True
    parameters = {id(tensor): tensor for module in modules for tensor in read_parameters(module).values()}
    return any(map(_is_part, parameters.values()))


def inner_model(model: nn.Module) -> nn.Module:
    """Return the module inside the wrappers that a model consists of."""
    while (name := _holder(model)) is not None:
        inside = read_children(model)[name]
        if inside is None:
            break
        model = inside
    return model


def unwrap(model: nn.Module, modules: Sequence[nn.Module]) -> nn.Module:
    """Take the wrappers out of a model, whose modules these are, and return what is inside; use inside `preserved`."""
    for module in modules:
        if _is_flat(module):
            _unflatten(module)
    _gather([module for module in modules if _is_spread(module)])
    for module in modules:
        children = read_children(module)
        children.update({name: inner_model(child) for name, child in children.items() if child is not None})
    return inner_model(model)


def with_wrapper(inputs: ModelInputs, model: nn.Module) -> ModelInputs:
    """Return inputs whose function, where they have one, gets the wrapper that it was written for.

    One of FullyShardedDataParallel gets the module inside, since the wrapper is without its parameters by then.
    """
    function = inputs.function
    if function is None or _holder(model) != "module":
        return inputs

    def call(inside: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(model, *args, **kwargs)

    return inputs.given_to(update_wrapper(call, function))


def rank_share(modules: Sequence[nn.Module]) -> RankShare | None:
    """Return what this process holds of a model, given all its modules, that runs in several; None for any other."""
    if not has_wrappers(modules):
        return None
    spread = ("DistributedDataParallel", "FullyShardedDataParallel")
    names = {base.__name__ for module in modules for base in type(module).__mro__ if _holder(module)}
    if names.isdisjoint(spread) and not any(_is_spread(module) for module in modules):
        return None
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None  # what is left of a group of processes that is gone
    count = stored = 0
    counted: set[int] = set()
    flattened: set[tuple[int, str]] = set()
    for flat in _flat_parameters(modules):
        originals = (*original_parameters(flat), *list_shared_parameters(flat))
        flattened.update((id(owner), name) for owner, name, *_ in originals)
        elements = sum(sizes_in_shard(flat))
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
            local = tensor.to_local() if _is_part(tensor) else tensor
            count += local.numel() if name in parameters else 0
            stored += size_of(local)
    return RankShare(torch.distributed.get_rank(), torch.distributed.get_world_size(), count, stored)


def _flat_parameters(modules: Iterable[nn.Module]) -> Iterator[Any]:
    flattened = (flat_parameter(module) for module in modules if _is_flat(module))
    yield from (flat for flat in flattened if flat is not None)


def _is_flat(module: nn.Module) -> bool:
    return _holder(module) == INNER_NAMES["FullyShardedDataParallel"]


def _unflatten(module: Any) -> None:
    """Give the modules inside a FullyShardedDataParallel the parameters that it made one of, without values."""
    for flat in _flat_parameters([module]):
        for owner, name, shape, requires_grad in original_parameters(flat):
            owner.__dict__.pop(name, None)
            read_parameters(owner)[name] = _whole(shape, flat.dtype, requires_grad)
        for owner, name, first_owner, first_name in list_shared_parameters(flat):
            owner.__dict__.pop(name, None)
            read_parameters(owner)[name] = read_parameters(first_owner)[first_name]
        parameters = read_parameters(read_children(module)[INNER_NAMES["FullyShardedDataParallel"]])
        for name in [name for name, tensor in parameters.items() if tensor is flat]:
            del parameters[name]


def _gather(modules: Sequence[Any]) -> None:
    """Take from modules what spreads them: classes and hooks, and parameters that are parts of whole ones."""
    whole_parameters: dict[int, nn.Parameter] = {}
    for module in modules:
        kind: Any = type(module)
        if _shards_by_class(kind):
            module.__class__ = next(base for base in kind.__mro__ if not _shards_by_class(base))
        for inside in list_modules(module):
            _without_hooks(inside)
        for name, tensor in read_parameters(module).items():
            if _is_part(tensor):
                if id(tensor) not in whole_parameters:
                    whole_parameters[id(tensor)] = _whole(tensor.shape, tensor.dtype, tensor.requires_grad)
                read_parameters(module)[name] = whole_parameters[id(tensor)]


def _without_hooks(module: nn.Module) -> None:
    for hooks in call_hooks(module):
        for key, hook in list(hooks.items()):
            if getattr(hook, "__module__", "").startswith(_SPREADING):
                del hooks[key]


def _whole(shape: Any, dtype: torch.dtype, requires_grad: bool) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=requires_grad)
