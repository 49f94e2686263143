"""The cases that a backend provides for a calibration: single operators, and small networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profilerkit.inputs import ModelInputs
from profilerkit.times.run import Run


@dataclass(frozen=True)
class OperatorCall:
    """The calls that measure one operator."""

    #: Runs it once, and returns when the device is done. For a device that works while the host goes on, such as a GPU,
    #: it is a `Run`, whose ``seconds`` are the seconds of the device alone for one operator.
    call: Callable[[], object] | Run
    #: A model that does the same and nothing else: the backend's trace of it tells the kind, sizes and work.
    model: Any
    #: The inputs of ``model``.
    inputs: ModelInputs
    #: Returns the host's seconds to hand one operator to a device like a GPU. Called after ``call`` was measured, when
    #: they are known.
    host_seconds: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True)
class CalibrationCase:
    """One operator at one shape."""

    #: Its name in messages: "attention (8, 12, 197, 64) in float32". Cases with the same first word are alike.
    name: str
    #: Makes the operator's tensors, and returns the calls that measure it. It runs just before the measurement, so that
    #: tensors of operators for which there is no time are never made.
    make: Callable[[], OperatorCall]
    #: Whether the call computes the gradients of one operator, which have twice its multiply-accumulates.
    is_gradient: bool = False


@dataclass(frozen=True)
class HostSeconds:
    """The seconds of the host besides the operators themselves."""

    #: Seconds for the call of one layer.
    layer_call: float
    #: Seconds for an operator that moves no bytes, such as a transposition.
    view_call: float = 0.0
    #: Seconds that automatic differentiation takes for each operator of a backward pass.
    gradient_call: float = 0.0
    #: Seconds that it takes to start a backward pass.
    backward_call: float = 0.0
    #: The seconds for compiled graphs; None if they were not measured.
    compiled: CompiledSeconds | None = None
    #: Seconds for handing one operator to a device such as a GPU; 0 if the host runs operators.
    operator_call: float = 0.0


@dataclass(frozen=True)
class CompiledSeconds:
    """The seconds of the host for compiled graphs."""

    #: Seconds for the call of a graph.
    graph_call: float
    #: Seconds for each weight of it, which is checked and passed on.
    graph_weight: float
    #: Seconds for the calls of the graphs of a training step.
    step_call: float
    #: Seconds for each trainable weight of it, its gradient's assignment among them.
    step_weight: float
    #: Seconds for the call of a kernel that the compiler generated.
    kernel_call: float


@dataclass(frozen=True)
class CalibrationNetwork:
    """A small network that is both predicted and run, to know how well the tables add up."""

    name: str
    #: Networks that are alike, of which all families have one measured first: "convolutional", "transformer".
    family: str
    model: Any
    inputs: ModelInputs
