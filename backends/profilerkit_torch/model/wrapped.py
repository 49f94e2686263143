"""Wrappers around modules: what is counted is the model inside, under the paths that it has without them.

| wrapper | what stands for it while the model is counted |
|---|---|
| ``torch.compile``, ``DataParallel``, ``DistributedDataParallel`` | the module inside |
| ``FullyShardedDataParallel`` | the module inside, with its parameters as they were before they were flattened |
| ``fully_shard`` (FSDP 2), ``parallelize_module`` | the module without the hooks of these, with whole parameters |

A wrapper may be anywhere in a model. What one rank holds of a model that is spread over several is reported beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each
from profilerkit.trace.records import RankShare

from .modules import modules_of
from .weights import size_of

__all__ = ["has_wrappers", "inner_model", "rank_share", "unwrapped", "with_wrapper"]

#: By the class of a wrapper: the name under which it holds the module inside.
_INNER_NAMES = {
    "OptimizedModule": "_orig_mod",
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
}
#: Where the hooks are from that gather and spread weights.
_SPREADING = ("torch.distributed.fsdp", "torch.distributed._composable", "torch.distributed.tensor")
_FLAT = "_flat_param"


def _holder(module: nn.Module) -> str | None:
    """Return under which name a wrapper holds the module inside; None for one that is no wrapper."""
    kind: Any = type(module)
    return _holder_by_class(kind)


@once_for_each
def _holder_by_class(kind: type) -> str | None:
    bases = (base for base in kind.__mro__ if base.__module__.startswith("torch."))
    return next((_INNER_NAMES[base.__name__] for base in bases if base.__name__ in _INNER_NAMES), None)


def _is_spread(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, or its own parameters are parts of whole ones."""
    kind: Any = type(module)
    return _shards_by_class(kind) or any(_is_part(tensor) for tensor in module._parameters.values())


def _is_part(tensor: torch.Tensor | None) -> bool:
    kind: Any = type(tensor)
    return kind is not nn.Parameter and hasattr(tensor, "_local_tensor")


@once_for_each
def _shards_by_class(kind: type) -> bool:
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(_SPREADING) for base in kind.__mro__)


def has_wrappers(modules: Iterable[nn.Module]) -> bool:
    """Return whether one of a model's modules is a wrapper, or spread over several processes."""
    if any(_holder_by_class(kind) or _shards_by_class(kind) for kind in set(map(type, modules))):
        return True
    parameters = {id(tensor): tensor for module in modules for tensor in module._parameters.values()}
    return any(map(_is_part, parameters.values()))


def inner_model(model: nn.Module) -> nn.Module:
    """Return the module inside the wrappers that a model consists of."""
    while (name := _holder(model)) is not None:
        inside = model._modules[name]
        if inside is None:
            break
        model = inside
    return model


def unwrapped(model: nn.Module, modules: Sequence[nn.Module]) -> nn.Module:
    """Take the wrappers out of a model, whose modules these are, and return what is inside; use inside `preserved`."""
    for module in modules:
        if _holder(module) == _INNER_NAMES["FullyShardedDataParallel"]:
            _unflatten(module)
    _gather([module for module in modules if _is_spread(module)])
    for module in modules:
        children = module._modules
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
    for flat in _flat_parameters(modules):
        elements = _in_shard(flat)
        count, stored = count + elements, stored + elements * flat.element_size()
    counted: set[int] = set()
    for module in modules:
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is None or id(tensor) in counted or _is_flattened(module, name) or _is_unsaved(module, name):
                continue
            counted.add(id(tensor))
            local = getattr(tensor, "_local_tensor", tensor)
            count += local.numel() if name in module._parameters else 0
            stored += size_of(local)
    return RankShare(torch.distributed.get_rank(), torch.distributed.get_world_size(), count, stored)


def _is_unsaved(module: nn.Module, name: str) -> bool:
    return name in module._non_persistent_buffers_set


def _flat_parameters(modules: Iterable[nn.Module]) -> Iterator[Any]:
    handles = (getattr(module, "_handle", None) for module in modules if _holder(module))
    yield from (handle.flat_param for handle in handles if handle is not None)


def _is_flattened(module: nn.Module, name: str) -> bool:
    """Return whether a parameter is one of FullyShardedDataParallel's, or a view of one."""
    tensor: Any = module._parameters.get(name)
    return name == _FLAT or (tensor is not None and hasattr(tensor, "_fsdp_flattened"))


def _in_shard(flat: Any) -> int:
    """Return how many elements of the original parameters this rank's part of a flat one holds, without padding."""
    parts = getattr(flat, "_shard_param_infos", None)
    if parts is None:
        return sum(map(math.prod, flat._shapes))
    return sum(part.numel_in_shard or 0 for part in parts)


def _unflatten(module: Any) -> None:
    """Give the modules inside a FullyShardedDataParallel the parameters that it made one of, without values."""
    for flat in _flat_parameters([module]):
        originals = getattr(flat, "_params", None) or [flat] * len(flat._shapes)
        for info, shape, original in zip(flat._param_infos, flat._shapes, originals, strict=True):
            info.module.__dict__.pop(info.param_name, None)
            info.module._parameters[info.param_name] = _whole(shape, flat.dtype, original.requires_grad)
        for shared in flat._shared_param_infos:
            shared.module.__dict__.pop(shared.param_name, None)
            whole = shared.prim_module._parameters[shared.prim_param_name]
            shared.module._parameters[shared.param_name] = whole
    module._fsdp_wrapped_module._parameters.pop(_FLAT, None)


def _gather(modules: Sequence[Any]) -> None:
    """Take from modules what spreads them: classes and hooks, and parameters that are parts of whole ones."""
    whole_parameters: dict[int, nn.Parameter] = {}
    for module in modules:
        kind: Any = type(module)
        if _shards_by_class(kind):
            module.__class__ = kind.__mro__[kind._orig_cls_mro_index]
        for inside in modules_of(module):
            _without_hooks(inside)
        for name, tensor in module._parameters.items():
            if _is_part(tensor):
                if id(tensor) not in whole_parameters:
                    whole_parameters[id(tensor)] = _whole(tensor.shape, tensor.dtype, tensor.requires_grad)
                module._parameters[name] = whole_parameters[id(tensor)]


def _without_hooks(module: nn.Module) -> None:
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in list(hooks.items()):
            if getattr(hook, "__module__", "").startswith(_SPREADING):
                del hooks[key]


def _whole(shape: Any, dtype: torch.dtype, requires_grad: bool) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=requires_grad)
