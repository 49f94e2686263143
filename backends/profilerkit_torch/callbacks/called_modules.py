"""The module that a training step calls: the network, if a trainer has further modules."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy as is_unsized

__all__ = ["CalledModules"]


class CalledModules:
    """Notes the modules that are called from outside of any other module, from `start` to `stop`.

    A ``LightningModule`` is often not called itself: its ``training_step`` calls ``self.net(x)``. Under DDP, Lightning
    sets another ``forward`` in it for each step, which calls the ``training_step``: such a call is not one of the
    module.
    """

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        #: What a call of the root runs; of a library that has patched the root before, its own function.
        self._forward = root.forward
        #: The modules that were called from outside, in the order of their first calls; a dict keeps this order.
        self._called: dict[nn.Module, None] = {}
        #: The modules that are running, the outermost first.
        self._running: list[nn.Module] = []
        self._hooks = ExitStack()

    def start(self) -> None:
        """Add hooks to each module, except scripted ones, which run no hooks; remove all hooks if adding one fails."""
        with ExitStack() as hooks:
            for module in self._root.modules():
                if not isinstance(module, torch.jit.ScriptModule):
                    hooks.callback(module.register_forward_pre_hook(self._note_begin).remove)
                    hooks.callback(module.register_forward_hook(self._note_end, always_call=True).remove)
            self._hooks = hooks.pop_all()

    def stop(self) -> None:
        """Remove the hooks."""
        self._running.clear()
        self._hooks.close()

    def find_largest(self) -> nn.Module:
        """Return the called module with the most parameters: not the loss, nor a metric. Without a call, the root.

        A lazy layer that was never called has no parameters yet.
        """

        def count_parameters(module: nn.Module) -> int:
            return sum(parameter.numel() for parameter in module.parameters() if not is_unsized(parameter))

        return max(self._called, key=count_parameters, default=self._root)

    def _note_begin(self, module: nn.Module, inputs: Any) -> None:
        """Note a module that begins, except a root that leads to its training step: what this calls is outermost."""
        if not self._running:
            if module is self._root and module.forward != self._forward:
                return
            self._called[module] = None
        self._running.append(module)

    def _note_end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Note that a module has ended, or raised; a root that was left out is not the innermost that runs."""
        if self._running and self._running[-1] is module:
            self._running.pop()
