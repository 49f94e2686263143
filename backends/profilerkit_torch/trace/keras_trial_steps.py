"""The trial step of Keras' recurrent layers, which is run once more than there are steps.

Keras looks at what a step returns before it loops. In a graph nothing uses that step and it falls away; on torch it
runs. It counts as no work, so that a model costs the same on both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from profilerkit.backend_kit.keras_kinds import is_keras
from profilerkit.trace.records import LayerCall

__all__ = ["TrialSteps"]


@dataclass
class _Loop:
    """A recurrent layer that runs: the number of operators recorded before its first call and each step of its cell."""

    layer: Any
    first: int | None = None
    steps: list[int] = field(default_factory=list)


class TrialSteps:
    """Follows the recurrent layers that run, innermost last, and the calls of their cells."""

    def __init__(self) -> None:
        self._running: list[_Loop] = []

    def begin_layer(self, module: nn.Module) -> None:
        """Note that a layer of the model begins."""
        if is_keras(module) and isinstance(module, sys.modules["keras"].layers.RNN):
            self._running.append(_Loop(module))

    def begin_call(self, module: nn.Module, index: int) -> None:
        """Note that a module begins after so many operators, be it the model's or a cell that its layer hides."""
        if not self._running:
            return
        loop = self._running[-1]
        if loop.first is None:
            loop.first = index
        if module is loop.layer.cell:
            loop.steps.append(index)

    def end_layer(self, module: nn.Module, call: LayerCall, has_finished: bool) -> range:
        """Return the indices of the operators that a layer which ends has run for trial."""
        if not self._running or self._running[-1].layer is not module:
            return range(0)
        loop = self._running.pop()
        needed = call.inputs[0].shape[1] if has_finished else 0
        if loop.first is None or not 0 < needed < len(loop.steps):
            return range(0)
        return range(loop.first, loop.steps[-needed])
