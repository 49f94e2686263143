"""The model's modules as layers: which one is running, and what goes through it."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from profilerkit import ModelChangedWarning
from profilerkit.backend_kit.call_stack import CallStack
from profilerkit.backend_kit.failures import note_layer
from profilerkit.process.restoring import call_each, restored
from profilerkit.trace.records import LayerCall

from ..compat import read_parameters
from ..model.inventory import Inventory
from ..model.keras_layers import list_reported_weights
from ..untouched.global_hooks import hook_after_calls
from ..untouched.temporary_settings import deepen_recursion
from .tensor_infos import tensor_infos

__all__ = ["LayerStack"]


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
        """Note that a module begins; torch calls this before each call of any module."""
        if get_ident() != self._thread:
            self._note_other_thread(module)
            return
        if self.on_call is not None:
            self.on_call(module)
        if id(module) in self.paths:
            self.begin(module)
            self.on_enter(module, self.current, self.current_call)
        elif self._is_stranger(module):
            self.strangers.append(type(module).__name__)

    def _note_other_thread(self, module: nn.Module) -> None:
        """Note that another thread calls a module: one of the model's, or a thread that was there before it."""
        if self.knows(module):
            self.elsewhere[f"{type(module).__name__} in another thread"] += 1
            self.intruders += get_ident() in self._older

    def _is_stranger(self, module: nn.Module) -> bool:
        """Return whether a module that is no layer of the model's has weights."""
        if read_parameters(module):
            return True
        return id(module) not in self._module_ids and any(True for _ in list_reported_weights(module))

    def _leave(self, module: nn.Module, args: Any, *rest: Any) -> None:
        """Note that a module ends; ``rest`` is its keyword arguments and its output, after an error None alone."""
        if not self.is_innermost(module) or get_ident() != self._thread:
            return
        has_finished, output = len(rest) == 2, rest[-1]
        kwargs = rest[0] if has_finished else {}
        if not has_finished:
            note_layer(sys.exc_info()[1], self.current)
        inputs = tensor_infos((args, kwargs) if kwargs else args)
        call = self.calls[self.current][self.current_call] = LayerCall(inputs, tensor_infos(output), self.caller)
        self.on_leave(module, call, (args, kwargs) if has_finished else None, output)
        self.end()
