"""The trial step of Keras' recurrent layers, which is run once more than there are steps.

Keras looks at what a step returns before it loops. In a graph nothing uses that step and it falls away; on torch it
runs. It counts as no work, so that a model costs the same on both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from profilerkit.backend_kit.keras_layers import is_keras
from profilerkit.trace.records import LayerCall

__all__ = ["TrialSteps"]


class TrialSteps:
    """Follows the recurrent layers that run, innermost last, and the calls of their cells.

    ``index`` is the number of operators recorded before a call.
    """

    def __init__(self) -> None:
        self._running: list[_Loop] = []

    def begin(self, module: nn.Module, index: int) -> None:
        """Note that a module begins, be it the model's or a cell that its layer hides."""
        if self._running:
            self._running[-1].begin(module, index)

    def begins(self, module: nn.Module) -> None:
        """Note that a layer of the model begins."""
        if _is_recurrent(module):
            self._running.append(_Loop(module))

    def ends(self, module: nn.Module, call: LayerCall, finished: bool) -> Iterator[int]:
        """Yield the indices of the operators that a layer which ends has run for trial."""
        if not self._running or self._running[-1].layer is not module:
            return
        loop = self._running.pop()
        steps = call.inputs[0].shape[1] if finished else 0
        if 0 < steps < len(loop.starts):
            yield from range(loop.first, loop.starts[-steps])


class _Loop:
    def __init__(self, layer: Any) -> None:
        self.layer = layer
        self.first = -1
        self.starts: list[int] = []

    def begin(self, module: nn.Module, index: int) -> None:
        if self.first < 0:
            self.first = index
        if module is self.layer.cell:
            self.starts.append(index)


def _is_recurrent(module: nn.Module) -> bool:
    return is_keras(module) and isinstance(module, sys.modules["keras"].layers.RNN)
