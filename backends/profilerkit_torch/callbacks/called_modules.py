"""Which module a step of training calls: the network, where a trainer holds more than that."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import nn

__all__ = ["CalledModules"]


class CalledModules:
    """Notes which modules are called from outside of any other module, while it is entered.

    A ``LightningModule`` is often not called itself: its ``training_step`` calls ``self.net(x)``.
    """

    def __init__(self, root: nn.Module) -> None:
        self._root = root
        self._called: dict[nn.Module, None] = {}
        #: The modules that are running, the outermost first.
        self._running: list[nn.Module] = []
        self._stack = ExitStack()

    def __enter__(self) -> CalledModules:
        """Add a hook to each module; scripted ones run no hooks."""
        with ExitStack() as stack:
            for module in self._root.modules():
                if not isinstance(module, torch.jit.ScriptModule):
                    stack.callback(module.register_forward_pre_hook(self._note_begin).remove)
                    stack.callback(module.register_forward_hook(self._note_end, always_call=True).remove)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the hooks."""
        self._running.clear()
        self._stack.close()

    def find_largest(self) -> nn.Module:
        """Return the called module with the most parameters: not the loss, nor a metric. Without a call, the root."""
        return max(self._called, key=_count_parameters, default=self._root)

    def _note_begin(self, module: nn.Module, inputs: Any) -> None:
        if not self._running and not _is_redirected(module):
            self._called[module] = None
        if self._running or module in self._called:
            self._running.append(module)

    def _note_end(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._running and self._running[-1] is module:
            self._running.pop()


def _is_redirected(module: nn.Module) -> bool:
    """Return whether a call of a module leads elsewhere: Lightning passes ``training_step`` through DDP in this way."""
    return getattr(module.forward, "__self__", None) is not module


def _count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
