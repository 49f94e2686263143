"""Modules: the attributes that torch keeps in each, the hooks for their calls and gradients, and wrappers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.optim import optimizer as torch_optimizer

from profilerkit.backend_kit.private_names import field

from .names import find_first, read_attribute, refuse

_module = torch.nn.Module()


def _reader(name: str, instead: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
    """Return a function that reads an attribute of every module; without it ``instead``, or a refusal."""
    if hasattr(_module, name):
        return attrgetter(name)
    return instead or refuse(f"Module.{name}", "finds the layers and the weights of a model")


#: The parameters of a module itself by name, in torch's own dict, in which others can take their places.
read_parameters: Callable[[Any], dict[str, Any]] = _reader(field("_parameters"))
#: The same for buffers.
read_buffers: Callable[[Any], dict[str, Any]] = _reader(field("_buffers"))
#: The same for the modules inside.
read_children: Callable[[Any], dict[str, Any]] = _reader(field("_modules"))
#: The names of the buffers that a module does not save; else all buffers that are not in its state dict.
unsaved_buffers: Callable[[Any], Container[str]] = _reader(
    field("_non_persistent_buffers_set"), lambda module: read_buffers(module).keys() - module.state_dict().keys()
)
#: The attributes that hold parameters, buffers and modules: a walk over attributes knows the kind of their contents.
OWN = (field("_parameters"), field("_buffers"), field("_modules"))
#: Attributes for saving and loading the state of a module; else a change of them counts as a change of the model.
OF_STATE_DICTS = frozenset(
    (
        *(field("_load_state_dict_post_hooks"), field("_load_state_dict_pre_hooks"), field("_state_dict_hooks")),
        *(field("_state_dict_pre_hooks"), field("_non_persistent_buffers_set")),
    )
)


def replace_tensors(modules: Iterable[torch.nn.Module], stand_ins: Mapping[int, Any]) -> None:
    """Replace the parameters and buffers of modules by stand-ins, which are given by the ``id`` of the tensors."""
    for module in modules:
        for tensors in (read_parameters(module), read_buffers(module)):
            if tensors:
                tensors.update({key: stand_ins.get(id(tensor), tensor) for key, tensor in tensors.items()})


_before_calls = _reader(field("_forward_pre_hooks"), lambda module: {})
_after_calls = _reader(field("_forward_hooks"), lambda module: {})


def call_hooks(module: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the hooks before and after a module's calls; without these names hooks are only noticed in runs."""
    return _before_calls(module), _after_calls(module)


_CALL, COMPILED_CALL = field("_call_impl"), field("_compiled_call_impl")


def name_of_call(module: Any) -> str:
    """Return the name of the method that torch calls for a module; without it no layer is timed alone."""
    if not hasattr(module, _CALL):
        refuse("Module._call_impl", "times single layers")()
    return COMPILED_CALL if getattr(module, COMPILED_CALL, None) is not None else _CALL


#: The hooks for gradients that modules have; without these names a module's hooks act on a step that is counted.
MODULE_GRADIENT_HOOKS = (field("_backward_hooks"), field("_backward_pre_hooks"))
_OFF = "hooks of a model's parameters run in a training step that is counted, and those that a pass adds stay"
#: The attributes of tensors with the hooks for their gradients, and with the hooks once gradients are accumulated.
GRADIENT_HOOKS = ("_backward_hooks",) if find_first("torch.Tensor._backward_hooks", off=_OFF) is not None else ()
ACCUMULATION_HOOKS = (
    ("_post_accumulate_grad_hooks",)
    if find_first("torch.Tensor._post_accumulate_grad_hooks", off=_OFF) is not None
    else ()
)
#: The hooks before and after the calls of all modules, and for the gradients of all; without a name there are none.
GLOBAL_CALL_HOOKS: tuple[dict[int, Any], ...] = (
    find_first("torch.nn.modules.module._global_forward_pre_hooks", instead={}),
    find_first("torch.nn.modules.module._global_forward_hooks", instead={}),
)
GLOBAL_GRADIENT_HOOKS: tuple[dict[int, Any], ...] = (
    find_first("torch.nn.modules.module._global_backward_pre_hooks", instead={}),
    find_first("torch.nn.modules.module._global_backward_hooks", instead={}),
)
#: Marks that torch keeps beside a hook for the calls of all modules, and does not remove with the hook.
GLOBAL_HOOK_MARKS: tuple[dict[int, Any], ...] = (
    find_first("torch.nn.modules.module._global_forward_hooks_with_kwargs", instead={}),
    find_first("torch.nn.modules.module._global_forward_hooks_always_called", instead={}),
)
#: All hooks for all modules and all optimizers, also hooks of later releases.
ALL_GLOBAL_HOOKS: tuple[dict[Any, Any], ...] = tuple(
    hooks
    for owner in (torch.nn.modules.module, torch_optimizer)
    for name, hooks in vars(owner).items()
    if name.startswith("_global_") and isinstance(hooks, dict)
)


def hook_after_calls(hook: Callable[..., None], *, always: bool = True) -> Callable[[], None]:
    """Have a function called after each call of any module; return a function that ends this.

    The function gets ``(module, args, kwargs, output)``; with ``always`` also calls that raised, as
    ``(module, args, None)``.
    """
    handle = register_module_forward_hook(hook, with_kwargs=True, always_call=always)

    def stop() -> None:
        handle.remove()
        for marks in GLOBAL_HOOK_MARKS:  # torch leaves these behind
            marks.pop(handle.id, None)

    return stop


# Wrappers that are spread over several processes: without these names nothing inside could be counted -----------------


#: By the class of a wrapper: the name under which it holds the module inside.
INNER_NAMES = {
    "OptimizedModule": field("_orig_mod"),
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": field("_fsdp_wrapped_module"),
}


def _read_wrapped(owner: Any, name: str) -> Any:
    """Return an attribute of ``FullyShardedDataParallel``, or of its flat parameter, by its name."""
    return read_attribute(
        owner, name, f"FullyShardedDataParallel's {name}", "finds the parameters that it has made one of"
    )


def find_flat_parameter(wrapper: Any) -> Any:
    """Return the parameter that a ``FullyShardedDataParallel`` has made of several; None if it has none."""
    handle = _read_wrapped(wrapper, field("_handle"))
    return None if handle is None else handle.flat_param


def list_sizes_in_shard(flat: Any) -> list[int]:
    """Return how many elements of each original parameter this rank has, without padding."""
    parts = getattr(flat, field("_shard_param_infos"), None)
    if parts is None:  # it is not spread
        return [shape.numel() for shape in _read_wrapped(flat, field("_shapes"))]
    return [part.numel_in_shard or 0 for part in parts]


def list_original_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.Size, bool]]:
    """Yield module, name, shape and whether it needs a gradient, for each parameter in a flat parameter."""
    shapes = _read_wrapped(flat, field("_shapes"))
    originals = getattr(flat, field("_params"), None) or [flat] * len(shapes)
    for info, shape, original in zip(_read_wrapped(flat, field("_param_infos")), shapes, originals, strict=True):
        yield info.module, info.param_name, shape, original.requires_grad


def list_shared_parameters(flat: Any) -> Iterator[tuple[torch.nn.Module, str, torch.nn.Module, str]]:
    """Yield module and name of each parameter that is tied to another, with the module and name of the other."""
    for info in _read_wrapped(flat, field("_shared_param_infos")):
        yield info.module, info.param_name, info.prim_module, info.prim_param_name
