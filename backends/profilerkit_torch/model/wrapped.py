"""Wrappers around modules: what is counted is the model inside, under the paths that it has without them.

| wrapper | what stands for it while the model is counted |
|---|---|
| ``torch.compile``, ``DataParallel``, ``DistributedDataParallel`` | the module inside |
| ``FullyShardedDataParallel`` | the module inside, with its parameters as they were before they were flattened |
| ``fully_shard`` (FSDP 2), ``parallelize_module`` | the module without the hooks of these, with whole parameters |

A wrapper may be anywhere in a model. What one rank holds of a model that is spread over several is in `rank_shares`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each

from ..compat.modules import call_hooks, read_children, read_parameters
from ..compat.wrappers import INNER_NAMES, find_flat_parameter, list_original_parameters, list_shared_parameters
from .modules import list_modules

__all__ = [
    "find_inner_name",
    "has_wrappers",
    "inner_model",
    "is_gathered",
    "is_part",
    "is_spread",
    "list_flat_parameters",
    "unwrap",
    "with_wrapper",
]

#: Where the hooks are from that gather and spread weights.
_SPREADING = ("torch.distributed.fsdp", "torch.distributed.tensor")
#: Under which name a FullyShardedDataParallel holds the module inside.
_FLATTENED_NAME = INNER_NAMES["FullyShardedDataParallel"]


# What a module is -----------------------------------------------------------------------------------------------------


def find_inner_name(module: nn.Module) -> str | None:
    """Return under which name a wrapper holds the module inside; None for one that is no wrapper."""
    return _find_inner_name_by_class(type(module))


@once_for_each
def _find_inner_name_by_class(kind: type) -> str | None:
    bases = (base for base in kind.__mro__ if base.__module__.startswith("torch."))
    return next((INNER_NAMES[base.__name__] for base in bases if base.__name__ in INNER_NAMES), None)


def is_spread(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, or its own parameters are parts of whole ones."""
    return is_gathered(module) or any(is_part(tensor) for tensor in read_parameters(module).values())


def is_gathered(module: nn.Module) -> bool:
    """Return whether ``fully_shard`` has changed a module, so that its weights are whole while it runs."""
    return _is_gathered_by_class(type(module))


@once_for_each
def _is_gathered_by_class(kind: type) -> bool:
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(_SPREADING) for base in kind.__mro__)


def is_part(tensor: torch.Tensor | None) -> bool:
    """Return whether a tensor is this rank's part of a whole one, a ``DTensor``."""
    return _is_part_by_class(type(tensor))


def _is_part_by_class(kind: type) -> bool:
    return kind is not nn.Parameter and hasattr(kind, "to_local")


def has_wrappers(modules: Iterable[nn.Module]) -> bool:
    """Return whether one of a model's modules is a wrapper, or spread over several processes."""
    if any(_find_inner_name_by_class(kind) or _is_gathered_by_class(kind) for kind in set(map(type, modules))):
        return True
    return any(
        map(_is_part_by_class, {type(tensor) for module in modules for tensor in read_parameters(module).values()})
    )


def list_flat_parameters(modules: Iterable[nn.Module]) -> Iterator[Any]:
    """Yield the parameters in which FullyShardedDataParallel has those of a module as one."""
    flats = (find_flat_parameter(module) for module in modules if _is_flattened(module))
    yield from (flat for flat in flats if flat is not None)


def _is_flattened(module: nn.Module) -> bool:
    return find_inner_name(module) == _FLATTENED_NAME


# The model inside -----------------------------------------------------------------------------------------------------


def inner_model(model: nn.Module) -> nn.Module:
    """Return the module inside the wrappers that a model consists of."""
    while (name := find_inner_name(model)) is not None:
        inside = read_children(model)[name]
        if inside is None:
            break
        model = inside
    return model


def with_wrapper(inputs: ModelInputs, model: nn.Module) -> ModelInputs:
    """Return inputs whose function, where they have one, gets the data-parallel wrapper that it was written for.

    It may read ``model.module``. Any other function gets the module inside: a FullyShardedDataParallel is without its
    parameters by then, and what ``torch.compile`` returns has the attributes of the module inside.
    """
    function = inputs.function
    if function is None or find_inner_name(model) != INNER_NAMES["DataParallel"]:
        return inputs

    def call(inside: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(model, *args, **kwargs)

    return inputs.given_to(update_wrapper(call, function))


def unwrap(model: nn.Module, modules: Sequence[nn.Module]) -> nn.Module:
    """Take the wrappers out of a model, whose modules these are, and return what is inside.

    Use inside `preserve`, which puts them back: the modules themselves are changed.
    """
    for wrapper in filter(_is_flattened, modules):
        for flat in list_flat_parameters([wrapper]):
            _unflatten(wrapper, flat)
    spread = [module for module in modules if is_spread(module)]
    whole_parameters: dict[int, nn.Parameter] = {}
    for module in spread:
        _gather(module, whole_parameters)
    for module in modules:
        children = read_children(module)
        children.update({name: inner_model(child) for name, child in children.items() if child is not None})
    return inner_model(model)


def _unflatten(wrapper: nn.Module, flat: Any) -> None:
    """Give the modules inside a FullyShardedDataParallel the parameters that it made one of, without values.

    Each module has views of the flat tensor as plain attributes, which would hide its parameters.
    """
    for owner, name, shape, requires_grad in list_original_parameters(flat):
        owner.__dict__.pop(name, None)
        read_parameters(owner)[name] = _make_whole(shape, flat.dtype, requires_grad)
    for owner, name, first_owner, first_name in list_shared_parameters(flat):
        owner.__dict__.pop(name, None)
        read_parameters(owner)[name] = read_parameters(first_owner)[first_name]
    parameters = read_parameters(read_children(wrapper)[_FLATTENED_NAME])
    for name in [name for name, tensor in parameters.items() if tensor is flat]:
        del parameters[name]


def _gather(module: Any, whole_parameters: dict[int, nn.Parameter]) -> None:
    """Take from a module what spreads it: class and hooks, and parameters that are parts of whole ones.

    ``whole_parameters`` has and gets what stands for a part, by the ``id`` of that: it may be in several modules.
    """
    if is_gathered(module):
        module.__class__ = next(base for base in type(module).__mro__ if not _is_gathered_by_class(base))
    for inside in list_modules(module):
        _remove_hooks(inside)
    for name, tensor in read_parameters(module).items():
        if is_part(tensor):
            if id(tensor) not in whole_parameters:
                whole_parameters[id(tensor)] = _make_whole(tensor.shape, tensor.dtype, tensor.requires_grad)
            read_parameters(module)[name] = whole_parameters[id(tensor)]


def _remove_hooks(module: nn.Module) -> None:
    for hooks in call_hooks(module):
        for key, hook in list(hooks.items()):
            if getattr(hook, "__module__", "").startswith(_SPREADING):
                del hooks[key]


def _make_whole(shape: Any, dtype: torch.dtype, requires_grad: bool) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=requires_grad)
