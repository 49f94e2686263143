"""The model's modules as layers: which one is running, and what goes through it."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from profilerkit import ModelChangedWarning
from profilerkit.backend_kit.call_stack import CallStack, tensors_in
from profilerkit.backend_kit.failures import note_layer
from profilerkit.process.restoring import call_each, restored
from profilerkit.trace.records import LayerCall, TensorInfo

from ..compat import read_parameters, unseen_by_functions
from ..costs import replace_by_shapes
from ..model.inventory import Inventory
from ..model.keras_layers import own_keras_weights
from ..untouched.global_hooks import hook_after_calls
from ..untouched.temporary_settings import deepen_recursion

__all__ = ["LayerStack", "tensor_info"]


def tensor_info(tensor: torch.Tensor) -> TensorInfo:
    """Return shape and dtype of a tensor; a nested one counts as long as its longest samples."""
    if type(tensor) in _PLAIN:  # which have nothing to add to torch's answers, so that no mode need be asked
        with unseen_by_functions():
            return _read_info(tensor)
    return _read_info(tensor)


_PLAIN = (torch.Tensor, nn.Parameter)


def _read_info(tensor: torch.Tensor) -> TensorInfo:
    if tensor.is_nested:
        return TensorInfo(tuple(replace_by_shapes(tensor)), str(tensor.dtype).removeprefix("torch."))
    try:
        return _info(tensor.shape, tensor.dtype)
    except TypeError:  # sizes that are no numbers yet have no hash
        return _info.__wrapped__(tensor.shape, tensor.dtype)


@lru_cache(maxsize=4096)
def _info(shape: torch.Size, dtype: torch.dtype) -> TensorInfo:
    return TensorInfo(tuple(map(int, shape)), str(dtype).removeprefix("torch."))


def infos_in(structure: Any) -> tuple[TensorInfo, ...]:
    """Return shape and dtype of every tensor in a nested structure: tuples, mappings and dataclasses."""
    if type(structure) is tuple and len(structure) == 1:
        (structure,) = structure
    if isinstance(structure, torch.Tensor):
        return (tensor_info(structure),)
    return tuple(map(tensor_info, tensors_in(structure, _is_tensor)))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class LayerStack(CallStack):
    """Follows which module runs. While it is active two hooks for all modules are registered; the model gets none."""

    def __init__(self, model: nn.Module, inventory: Inventory | None = None) -> None:
        inventory = inventory or Inventory(model)
        super().__init__(inventory.layers)
        self.holds_keras: bool = inventory.holds_keras
        self._module_ids = set(map(id, inventory.modules))
        self._thread = get_ident()
        #: Types of modules with parameters that are not the model's: it makes them while it runs.
        self.strangers: list[str] = []
        #: Layers that the model runs in threads of its own, where its operators are not seen.
        self.elsewhere: Counter[str] = Counter()
        #: Calls of the model by threads that were there before the pass: they get what stands in for its weights.
        self.intruders: int = 0
        self._older: set[int | None] = set()
        #: Called with every module that begins, the model's or not.
        self.on_call: Callable[[nn.Module], None] | None = None
        #: Called with (module, path, call index) when one of the model's begins; with its tensors, its arguments (None
        #: where it raised), and its output, when it ends.
        self.on_enter: Callable[[nn.Module, str, int], None] = lambda module, path, call: None
        self.on_leave: Callable[[nn.Module, LayerCall, Any, Any], None] = lambda module, call, arguments, output: None

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow the calls of the model's modules in this thread.

        A hook for all modules costs each call one frame more.
        """
        self._older = {thread.ident for thread in threading.enumerate()}
        stops: list[Callable[[], None]] = []
        with deepen_recursion(), restored(partial(call_each, stops)):
            stops.append(register_module_forward_pre_hook(self._enter).remove)
            stops.append(hook_after_calls(self._leave))
            yield

    def warn_of_intruders(self) -> None:
        """Warn where another thread has called the model while something stood in for its weights."""
        if self.intruders:
            warnings.warn(
                f"another thread called the model, or layers of it, {self.intruders} times while it was counted on "
                "shapes alone: these calls got tensors without values; do not use a model in one thread while it is "
                "profiled in another, or profile a copy.deepcopy of it",
                ModelChangedWarning,
                stacklevel=2,
            )

    def _enter(self, module: nn.Module, args: Any) -> None:
        if get_ident() != self._thread:
            if self.knows(module):
                self.elsewhere[f"{type(module).__name__} in another thread"] += 1
                self.intruders += get_ident() in self._older
            return
        if self.on_call is not None:
            self.on_call(module)
        if id(module) not in self.paths:
            if read_parameters(module) or (
                id(module) not in self._module_ids and any(True for _ in own_keras_weights(module))
            ):
                self.strangers.append(type(module).__name__)
            return
        self.begin(module)
        self.on_enter(module, self.current, self.current_call)

    def _leave(self, module: nn.Module, *arguments: Any) -> None:
        if not self.is_innermost(module) or get_ident() != self._thread:
            return
        finished = len(arguments) == 3
        if not finished:
            note_layer(sys.exc_info()[1], self.current)
        args, output = arguments[0], arguments[-1]
        inputs = infos_in(
            (args, arguments[1]) if finished and arguments[1] else args
        )  # torch leaves kwargs out after an error
        call = self.calls[self.current][self.current_call] = LayerCall(inputs, infos_in(output), self.caller)
        self.on_leave(module, call, arguments[:2] if finished else None, output)
        self.end()
