"""What a backend provides for a calibration: single operators, and small networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..inputs import ModelInputs

__all__ = ["CalibrationCase", "CalibrationNetwork", "HostSeconds"]


@dataclass(frozen=True)
class CalibrationCase:
    """One operator at one shape.

    Attributes:
        name: What it is, for messages.
        call: Runs it once, and returns when the device is done.
        model: A model that does the same and nothing else: the backend's trace of it tells the kind, sizes and work.
        inputs: What ``model`` is called with.
        is_gradient: Whether ``call`` computes the gradients of the model's one operator, which have twice its
            multiply-accumulates, instead of that operator.
    """

    name: str
    call: Callable[[], object]
    model: Any
    inputs: ModelInputs
    is_gradient: bool = False


@dataclass(frozen=True)
class HostSeconds:
    """What the host takes besides the operators themselves.

    Attributes:
        layer_call: Seconds for the call of one layer.
        view_call: Seconds for an operator that moves no bytes, such as a transposition.
        gradient_call: Seconds that automatic differentiation takes for each operator of a backward pass.
        backward_call: Seconds that it takes to start a backward pass.
        graph_call: Seconds for the call of a compiled graph; None if that was not measured.
        kernel_call: Seconds for the call of a kernel that a compiler generated; None if that was not measured.
    """

    layer_call: float
    view_call: float = 0.0
    gradient_call: float = 0.0
    backward_call: float = 0.0
    graph_call: float | None = None
    kernel_call: float | None = None


@dataclass(frozen=True)
class CalibrationNetwork:
    """A small network that is both predicted and run, to know how well the tables add up.

    Attributes:
        name: Its name.
        family: Its family: "convolutional", "transformer".
        model: The model.
        inputs: What it is called with.
    """

    name: str
    family: str
    model: Any
    inputs: ModelInputs
