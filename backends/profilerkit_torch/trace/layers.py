"""The model's modules as layers: which layer is running, and the inputs and outputs of each call.

`LayerStack` follows the calls by hooks of torch, and reports each call to a `LayerListener`.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Any

from msgspec import Struct
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from profilerkit import ModelChangedWarning
from profilerkit.backend_kit.call_stack import CallStack
from profilerkit.backend_kit.failures import note_layer
from profilerkit.process.restoring import call_each, restored
from profilerkit.process.user_lines import find_stack_level
from profilerkit.trace.records import LayerCall

from ..compat.modules import hook_after_calls, read_parameters
from ..model.inventory import Inventory
from ..model.keras_layers import list_reported_weights
from ..untouched.temporary_settings import deepen_recursion
from .records import tensor_infos

__all__ = ["EndedCall", "LayerListener", "LayerStack"]


class EndedCall(Struct, frozen=True):
    """A call of a layer that has ended.

    Attributes:
        record: The record of the call.
        args: The positional arguments.
        kwargs: The named arguments; empty if the call raised, because torch does not pass them on then.
        output: The result; None if the call raised.
        has_finished: Whether it returned; otherwise it raised.
    """

    record: LayerCall
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any
    has_finished: bool


class LayerListener:
    """Receives the calls that a `LayerStack` follows. A subclass overrides the methods that it needs."""

    def begin_module(self, module: nn.Module) -> None:
        """Learn that a module begins, be it one of the model's or not; before `begin_layer`, of Keras models alone."""

    def begin_layer(self, module: nn.Module, path: str, call: int) -> None:
        """Learn that a module of the model begins: its path, and the index of its call."""

    def end_layer(self, module: nn.Module, call: EndedCall) -> None:
        """Learn that a module of the model ends; it still is the innermost layer."""


class ThreadCalls:
    """Counts the calls of a model's layers in other threads than that of a pass: their operators are not seen."""

    def __init__(self) -> None:
        #: How many calls there were of layers of each type, by what messages call that.
        self.counts: Counter[str] = Counter()
        self._older_threads: set[int | None] = set()
        self._calls_by_older_threads = 0

    def note_threads(self) -> None:
        """Note the threads that there are before a pass."""
        self._older_threads = {thread.ident for thread in threading.enumerate()}

    def note_call(self, module: nn.Module) -> None:
        """Note that this thread, which is not the thread of the pass, calls a layer of the model."""
        self.counts[f"{type(module).__name__} in another thread"] += 1
        if get_ident() in self._older_threads:
            self._calls_by_older_threads += 1

    def warn_of_older_threads(self) -> None:
        """Warn of calls by threads that were there before a pass on shapes alone: they got what stands in for weights.

        A thread that the model starts in the pass is no other user of the model, and no reason to warn.
        """
        if self._calls_by_older_threads:
            warnings.warn(
                f"another thread called the model, or layers of it, {self._calls_by_older_threads} times while it was "
                "counted on shapes alone: these calls got tensors without values; do not use a model in one thread "
                "while it is profiled in another, or profile a copy.deepcopy of it",
                ModelChangedWarning,
                stacklevel=find_stack_level(),
            )


class LayerStack(CallStack):
    """Follows which module runs. While it is active two hooks for all modules are registered; the model gets none.

    `CallStack` has the stack itself: the path of the innermost layer, ``current``, and the calls of each path.

    Attributes:
        holds_keras: Whether modules of Keras are among the model's.
        unlisted_types: Types of modules with weights that the model does not list: it makes them while it runs.
        in_other_threads: The calls that were made in other threads.
    """

    def __init__(self, model: nn.Module, inventory: Inventory | None = None) -> None:
        inventory = inventory or Inventory(model)
        super().__init__(inventory.layers)
        self.holds_keras: bool = inventory.holds_keras
        self.unlisted_types: list[str] = []
        self.in_other_threads: ThreadCalls = ThreadCalls()
        self._listener = LayerListener()
        self._module_ids = set(map(id, inventory.modules))
        self._thread = get_ident()

    @property
    def is_idle(self) -> bool:
        """Whether no layer runs."""
        return not self._stack

    def report_to(self, listener: LayerListener) -> None:
        """Tell a listener of each call from now on, instead of the one before."""
        self._listener = listener

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Follow the calls of the model's modules in this thread."""
        self.in_other_threads.note_threads()
        stops: list[Callable[[], None]] = []
        # A hook for all modules costs each call one frame more: Python may go deeper meanwhile.
        with deepen_recursion(), restored(partial(call_each, stops)):
            stops.append(register_module_forward_pre_hook(self._enter).remove)
            stops.append(hook_after_calls(self._leave))
            yield

    def _enter(self, module: nn.Module, args: Any) -> None:
        """Note that a module begins; torch calls this before each call of any module."""
        is_listed = id(module) in self.paths
        if get_ident() != self._thread:
            if is_listed:
                self.in_other_threads.note_call(module)
            return
        if self.holds_keras:
            self._listener.begin_module(module)
        if is_listed:
            self.begin(module)
            self._listener.begin_layer(module, self.current, self.current_call)
        elif self._has_unlisted_weights(module):
            self.unlisted_types.append(type(module).__name__)

    def _has_unlisted_weights(self, module: nn.Module) -> bool:
        """Return whether a module that is no layer of the model's has weights: parameters of torch's, or Keras' own.

        A layer may hide a module, as an RNN of Keras hides its cell: the weights that Keras reports of it are that
        layer's.
        """
        if read_parameters(module):
            return True
        is_hidden = id(module) in self._module_ids
        return not is_hidden and any(True for _ in list_reported_weights(module))

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, *outputs: Any) -> None:
        """Note that a module ends; torch calls this after each call of any module.

        Where the call raised, torch gives no output, and None in place of the named arguments.
        """
        if not self._stack or self._stack[-1].layer_id != id(module) or get_ident() != self._thread:
            return
        has_finished = bool(outputs)
        if has_finished:
            (output,) = outputs
        else:
            note_layer(sys.exc_info()[1], self.current)
            kwargs, output = {}, None
        inputs = tensor_infos((args, kwargs) if kwargs else args)
        record = LayerCall(inputs, tensor_infos(output), self.caller)
        self.calls[self.current][self.current_call] = record
        self._listener.end_layer(module, EndedCall(record, args, kwargs, output, has_finished))
        self.end()
