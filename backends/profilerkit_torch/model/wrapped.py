"""Wrappers around modules: the model inside is counted, under the paths that it has without the wrappers.

| wrapper | its replacement while the model is counted |
|---|---|
| ``torch.compile``, ``DataParallel``, ``DistributedDataParallel`` | the module inside |
| ``FullyShardedDataParallel`` | the module inside, with its parameters as they were before they were flattened |
| ``fully_shard`` (FSDP 2), ``parallelize_module`` | the module without the hooks of these, with whole parameters |

A wrapper may be anywhere in a model. Classes are known by their names, because ``torch.distributed`` is not in every
build of torch. `rank_shares` has the share of one rank in a model that is spread over several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

import torch
from torch import nn

from profilerkit import ModelInputs
from profilerkit.process.cached import once_for_each

from ..compat.modules import (
    INNER_NAMES,
    call_hooks,
    find_flat_parameter,
    list_original_parameters,
    list_shared_parameters,
    read_children,
    read_parameters,
)
from .inventory import Inventory

__all__ = [
    "find_inner_model",
    "find_inner_name",
    "give_wrapper",
    "has_wrappers",
    "is_gathered",
    "is_part",
    "is_spread",
    "list_flattened",
    "unwrap",
]


#: Where the classes and hooks are from that gather and spread weights.
SPREADING = ("torch.distributed.fsdp", "torch.distributed.tensor")
#: Under which name DataParallel and DistributedDataParallel hold the module inside.
DATA_PARALLEL_NAME = INNER_NAMES["DataParallel"]
#: Under which name a FullyShardedDataParallel holds the module inside.
FLATTENED_NAME = INNER_NAMES["FullyShardedDataParallel"]


def find_inner_model(model: nn.Module) -> nn.Module:
    """Return the module inside the wrappers that a model consists of; a model that is no wrapper as it is."""
    *_, inner = _list_nested(model)
    return inner


def _list_nested(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a model and, if it is a wrapper, the models inside it, from the outside inwards."""
    yield model
    name = find_inner_name(model)
    inside = None if name is None else read_children(model)[name]
    if inside is not None:
        yield from _list_nested(inside)


def give_wrapper(inputs: ModelInputs, model: nn.Module) -> ModelInputs:
    """Return inputs whose function, where they have one, is called with the data parallel wrapper of the model.

    The function may read its ``model.module``, also where ``torch.compile`` has wrapped the wrapper, which hands such
    names on. With a model that has none the function is called with the module inside.
    """
    function = inputs.function
    wrapper = next((module for module in _list_nested(model) if find_inner_name(module) == DATA_PARALLEL_NAME), None)
    if function is None or wrapper is None:
        return inputs

    def call(inside: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return function(wrapper, *args, **kwargs)

    return inputs.given_to(update_wrapper(call, function))


def unwrap(model: nn.Module, modules: Sequence[nn.Module]) -> nn.Module:
    """Take the wrappers out of a model with these modules, and return the model inside.

    Use inside `preserve`, which puts them back: the modules themselves are changed. The dictionaries of `read_children`
    and `read_parameters` are the modules' own, so writing to them changes the modules.
    """
    for wrapper, flat in list_flattened(modules):
        _unflatten(wrapper, flat)
    spread = [module for module in modules if is_spread(module)]
    if spread:
        _restore_whole_parameters(spread)
        for module in modules:  # also those without parameters: a block whose inputs are spread, or its dropout
            _remove_hooks(module)
    for module in modules:
        children = read_children(module)
        children.update({name: find_inner_model(child) for name, child in children.items() if child is not None})
    return find_inner_model(model)


def _unflatten(wrapper: nn.Module, flat: Any) -> None:
    """Give the modules inside a FullyShardedDataParallel the parameters that it made one of, without values."""
    for owner, name, shape, requires_grad in list_original_parameters(flat):
        _set_parameter(owner, name, _make_parameter(shape, flat.dtype, requires_grad))
    for owner, name, first_owner, first_name in list_shared_parameters(flat):
        _set_parameter(owner, name, read_parameters(first_owner)[first_name])
    parameters = read_parameters(read_children(wrapper)[FLATTENED_NAME])
    for name in [name for name, tensor in parameters.items() if tensor is flat]:
        del parameters[name]


def _set_parameter(owner: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Give a module a parameter instead of a view of the flat one: a plain attribute, which would hide it."""
    owner.__dict__.pop(name, None)
    read_parameters(owner)[name] = parameter


def _restore_whole_parameters(modules: Sequence[nn.Module]) -> None:
    """Give modules whole parameters, without values, in place of parts, and the classes from before ``fully_shard``."""
    parts: dict[int, Any] = {
        id(tensor): tensor for module in modules for tensor in read_parameters(module).values() if is_part(tensor)
    }
    # By the ``id`` of the part, so that modules that share a part share the whole parameter too.
    whole = {key: _make_parameter(part.shape, part.dtype, part.requires_grad) for key, part in parts.items()}
    for module in modules:
        if is_gathered(module):  # its class was derived from the original one, the first base without gathering
            module.__class__ = next(base for base in type(module).__mro__ if not is_gathering_class(base))
        parameters = read_parameters(module)
        parameters.update({name: whole[id(tensor)] for name, tensor in parameters.items() if is_part(tensor)})


def _remove_hooks(module: nn.Module) -> None:
    """Remove the hooks that gather and spread weights, inputs and outputs of a module."""
    for hooks in call_hooks(module):
        for key, hook in list(hooks.items()):
            if getattr(hook, "__module__", "").startswith(SPREADING):
                del hooks[key]


def _make_parameter(shape: Any, dtype: torch.dtype, requires_grad: bool) -> nn.Parameter:
    """Return a parameter without values."""
    return nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=requires_grad)


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
    """Return each FullyShardedDataParallel with a flat parameter of the module inside, and this parameter."""
    wrappers = [module for module in modules if find_inner_name(module) == FLATTENED_NAME]
    flats = [(wrapper, find_flat_parameter(wrapper)) for wrapper in wrappers]
    return [(wrapper, flat) for wrapper, flat in flats if flat is not None]
