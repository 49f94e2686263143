"""What a backend provides for a calibration: single operators, and small networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profilerkit.inputs import ModelInputs
from profilerkit.times.run import Run

__all__ = ["CalibrationCase", "CalibrationNetwork", "CompiledSeconds", "HostSeconds", "OperatorCall"]


@dataclass(frozen=True)
class OperatorCall:
    """What one operator is measured by.

    Attributes:
        call: Runs it once, and returns when the device is done. For a device that works while the host goes on, such as
            a GPU, it is a `Run`, whose ``seconds`` are those of the device alone for one operator.
        model: A model that does the same and nothing else: the backend's trace of it tells the kind, sizes and work.
        inputs: What ``model`` is called with.
        host_seconds: Returns what the host takes to hand one operator to such a device. It is called after ``call`` was
            measured, which is when this becomes known.
    """

    call: Callable[[], object] | Run
    model: Any
    inputs: ModelInputs
    host_seconds: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True)
class CalibrationCase:
    """One operator at one shape.

    Attributes:
        name: What it is, for messages: "attention (8, 12, 197, 64) in float32". Cases with the same first word are
            alike.
        make: Makes the operator's tensors, and returns what it is measured by. It is called when the operator's turn
            comes, so that tensors of operators for which there is no time are never made.
        is_gradient: Whether the call computes gradients: those of the one operator of the model, which have twice the
            multiply-accumulates of that operator.
    """

    name: str
    make: Callable[[], OperatorCall]
    is_gradient: bool = False


@dataclass(frozen=True)
class HostSeconds:
    """What the host takes besides the operators themselves.

    Attributes:
        layer_call: Seconds for the call of one layer.
        view_call: Seconds for an operator that moves no bytes, such as a transposition.
        gradient_call: Seconds that automatic differentiation takes for each operator of a backward pass.
        backward_call: Seconds that it takes to start a backward pass.
        compiled: What it takes for compiled graphs; None if that was not measured.
        operator_call: Seconds for handing one operator to a device such as a GPU; 0 where the host runs operators.
    """

    layer_call: float
    view_call: float = 0.0
    gradient_call: float = 0.0
    backward_call: float = 0.0
    compiled: CompiledSeconds | None = None
    operator_call: float = 0.0


@dataclass(frozen=True)
class CompiledSeconds:
    """What the host takes for compiled graphs.

    Attributes:
        graph_call: Seconds for the call of a graph.
        graph_weight: Seconds for each weight of it, which is checked and passed on.
        step_call: Seconds for the calls of the graphs of a training step.
        step_weight: Seconds for each trainable weight of it, its gradient's assignment among them.
        kernel_call: Seconds for the call of a kernel that the compiler generated.
    """

    graph_call: float
    graph_weight: float
    step_call: float
    step_weight: float
    kernel_call: float


@dataclass(frozen=True)
class CalibrationNetwork:
    """A small network that is both predicted and run, to know how well the tables add up.

    Attributes:
        name: Its name in the file of the device.
        family: Networks that are alike, of which all families have one measured first: "convolutional", "transformer".
        model: The model.
        inputs: What it is called with.
    """

    name: str
    family: str
    model: Any
    inputs: ModelInputs
