"""The model's modules as layers: which one is running, and what goes through it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy as is_unsized

from profilerkit.layering import CallStack, tensors_in
from profilerkit.trace import LayerCall, TensorInfo

from .keras_layers import is_unbuilt, own_keras_weights
from .modules import buffers_of, modules_of, named_layers, parameters_of

__all__ = ["LayerStack", "is_lazy", "tensor_info"]


def tensor_info(tensor: torch.Tensor) -> TensorInfo:
    """Return shape and dtype of a tensor."""
    return TensorInfo(tuple(map(int, tensor.shape)), str(tensor.dtype).removeprefix("torch."))


def infos_in(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure: tuples, mappings and dataclasses."""
    return tuple(map(tensor_info, tensors_in(structure, _is_tensor)))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_lazy(model: nn.Module) -> bool:
    """Say whether the model has parameters or buffers that no forward pass has sized yet, or layers without theirs."""
    return is_unbuilt(modules_of(model)) or any(
        is_unsized(tensor) for tensor in (*parameters_of(model), *buffers_of(model))
    )


class LayerStack(CallStack):
    """Follows which module runs. While it is active two hooks for all modules are registered; the model gets none."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(named_layers(model))
        self._held = set(map(id, modules_of(model)))
        self._thread = threading.get_ident()
        #: Types of modules with parameters that are not the model's: it makes them while it runs.
        self.strangers: list[str] = []
        #: Layers that the model runs in threads of its own, where its operators are not seen.
        self.elsewhere: Counter[str] = Counter()
        #: Called with every module that begins, the model's or not.
        self.on_call: Callable[[nn.Module], None] = lambda module: None
        #: Called with (module, path, call index) when one of the model's begins; with its tensors, and whether it got
        #: through without raising, when it ends.
        self.on_enter: Callable[[nn.Module, str, int], None] = lambda module, path, call: None
        self.on_leave: Callable[[nn.Module, LayerCall, bool], None] = lambda module, call, finished: None

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow the calls of the model's modules in this thread."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
                torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # torch leaves these behind
                torch_module._global_forward_hooks_always_called.pop(handle.id, None)

    def _enter(self, module: nn.Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            if self.knows(module):
                self.elsewhere[f"{type(module).__name__} in another thread"] += 1
            return
        self.on_call(module)
        if not self.knows(module):
            if module._parameters or (id(module) not in self._held and any(True for _ in own_keras_weights(module))):
                self.strangers.append(type(module).__name__)
            return
        self.begin(module)
        self.on_enter(module, self.current, self.current_call)

    def _leave(self, module: nn.Module, *seen: Any) -> None:
        if not self.is_innermost(module) or threading.get_ident() != self._thread:
            return
        *inputs, output = seen  # args, kwargs, output; torch leaves out kwargs where the module raised
        call = LayerCall(infos_in(inputs), infos_in(output))
        self.note(call)
        self.on_leave(module, call, len(inputs) == 2)
        self.end()
