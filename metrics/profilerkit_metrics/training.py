"""The costs of one training step: forward and backward, counted rather than guessed as three forward passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from profilerkit import Metric, ProfilerFunction, Unavailable
from profilerkit.backend import Backend
from profilerkit.backend_kit.optimizers import OptimizerBytes, optimizer_bytes
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.protocols import HoldsOptimizer, ReadsOptimizers, find_capability
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Bytes, Count, LayerRows, write_shares

__all__ = [
    "ComputeTraining",
    "TrainingFlops",
    "TrainingLayers",
    "TrainingMacs",
    "TrainingMemory",
    "TrainingMemoryParts",
    "find_known_bytes",
    "find_optimizer_bytes",
    "find_step_memory",
    "find_step_peak",
]


#: The purposes of the bytes at the peak of a step: see `TrainingMemoryParts`.
_PARTS = ("weights", "gradients", "optimizer_state", "activations", "inputs", "other")


class TrainingMacs(Count):
    """Multiply-accumulates of one training step: the forward pass and the gradients of the trainable weights.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_macs"])["training_macs"]
    32
    """

    NAME: str = "training_macs"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    COUNTS: str = "macs"
    FRIENDLY_NAME: str = "Training MACs"
    UNIT: str = "MACs"
    FORMULA: str = (
        "macs of the forward pass in training mode + those of the gradients with respect to the trainable weights"
    )
    OMISSIONS: str = "the loss and the optimizer's update"
    SOURCE: str = "counted operator by operator, not estimated as three forward passes"


class TrainingFlops(Count):
    """All floating-point operations of one training step, two for each multiply-accumulate.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_flops"])["training_flops"]
    68
    """

    NAME: str = "training_flops"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    COUNTS: str = "flops"
    FRIENDLY_NAME: str = "Training FLOPs"
    UNIT: str = "FLOPs"
    FORMULA: str = (
        "flops of the forward pass in training mode + those of the gradients with respect to the trainable weights"
    )
    OMISSIONS: str = "the loss and the optimizer's update"
    SOURCE: str = "counted operator by operator, as flops is"


class TrainingMemory(Bytes):
    """Peak bytes alive at once in one training step: weights, activations, gradients and the optimizer's state.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_memory"], optimizer="adam")["training_memory"]
    456
    """

    NAME: str = "training_memory"
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    FORMULA: str = "peak over the step of weights + inputs + activations + gradients, and the optimizer's state"
    OMISSIONS: str = (
        "scratch memory of kernels; temporary tensors of an update by Keras or optax; an optimizer that is not known, "
        "which makes it a lower bound"
    )
    SOURCE: str = "profilerkit's own definition"


class TrainingMemoryParts(Metric):
    """The purpose of the bytes at the peak of a training step, and the position of the peak.

    The value has bytes for "weights" (buffers included), "gradients" (of weights), "optimizer_state", "activations" (of
    the forward pass, mostly kept for the backward pass), "inputs" and "other" (gradients of activations, activations
    computed again, temporary tensors). Together they are `TrainingMemory`. "operator", "layer" and "phase" are the
    position; the operator is empty if the peak is before the first operator.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> report = profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_memory_parts"])
    >>> report["training_memory_parts"]["weights"]
    72
    """

    NAME: str = "training_memory_parts"
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    GROWS: bool = True
    FORMULA: str = "training_memory, divided by the purpose of the bytes"
    OMISSIONS: str = "as training_memory"
    SOURCE: str = "profilerkit's own definition"

    def show(self) -> str:
        """Write the shares of the largest parts."""
        return write_shares({name: self.value[name] for name in _PARTS}) if isinstance(self.value, Mapping) else ""


class TrainingLayers(LayerRows):
    """The layer table of a training step, as a `LayerTable`: MACs and FLOPs forward, backward and together.

    The table has the columns of the layer table; if the backend tells the two passes apart, also ``forward_macs``,
    ``forward_flops``, ``backward_macs`` and ``backward_flops``, and each of these with ``own_`` in front; None where
    the work of both passes together is not known exactly.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["training_layers"])["training_layers"][0]["macs"]
    32
    """

    NAME: str = "training_layers"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    FORMULA: str = "training_macs and training_flops of each layer, with and without the layers inside it"
    OMISSIONS: str = "as training_macs"
    SOURCE: str = "profilerkit's own definition"


class ComputeTraining(ProfilerFunction):
    """Counts one training step: the forward pass in training mode, and the gradients of the sum of its outputs.

    The loss and the arithmetic of the optimizer's update are not part of it: they are the user's, and small beside the
    rest. The optimizer's memory is included if the model or the user names the optimizer. Computed only if
    requested by name, because it needs another trace.

    Args:
        optimizer: Whose state the memory holds: a name in `profilerkit.backend_kit.optimizers.OPTIMIZERS` ("adam",
            say), or an optimizer of the framework's or its class, as the backend reads them. Unless given, the one that
            the model was compiled with, which most models have not.
    """

    KEYS: ClassVar[Keys] = (TrainingMacs, TrainingFlops, TrainingMemory, TrainingMemoryParts, TrainingLayers)
    ON_DEMAND: ClassVar[bool] = True
    ONLY_THROUGH_BACKEND: ClassVar[bool] = True

    def __init__(self, optimizer: Any = None) -> None:
        self.optimizer = optimizer

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise `InputError` for the name of an unknown optimizer."""
        optimizer = arguments.get("optimizer")
        optimizer = self.optimizer if optimizer is None else optimizer
        if isinstance(optimizer, str):
            optimizer_bytes(optimizer, ())

    def __call__(
        self, model: Any, backend: Backend, training_trace: ModelTrace, optimizer: Any = None
    ) -> dict[str, Any]:
        """Return the counts.

        Args:
            model: The model.
            backend: Its backend.
            training_trace: The trace of one training step.
            optimizer: The optimizer whose state is part of the training memory: a name such as "adam", an optimizer of
                the framework, or its class. Default: the optimizer that a Keras model was compiled with, otherwise
                none.
        """
        trace = training_trace
        optimizer = self.optimizer if optimizer is None else optimizer
        optimizer_size = find_optimizer_bytes(backend, model, trace, optimizer)
        return {
            TrainingMacs.NAME: trace.macs,
            TrainingFlops.NAME: trace.flops,
            TrainingLayers.NAME: trace.table,
            **find_step_memory(trace, optimizer_size, optimizer, backend),
        }


def find_optimizer_bytes(backend: Backend, model: Any, trace: ModelTrace, optimizer: Any) -> OptimizerBytes | str:
    """Return the bytes of an optimizer's state for the weights of a trace, or the reason why they are not known.

    It is the given optimizer, else the optimizer of the model; without either it is 0 bytes.
    """
    holder = find_capability(backend, HoldsOptimizer)
    if optimizer is None:
        state = 0 if holder is None else holder.optimizer_state(model)
        return state if isinstance(state, str) else OptimizerBytes(state)
    if isinstance(optimizer, str):
        return optimizer_bytes(optimizer, trace.parameters_in_step)
    reader = find_capability(backend, ReadsOptimizers)
    if reader is not None:
        return reader.optimizer_bytes(optimizer, trace.parameters_in_step)
    advice = "give the name of one" if holder is None else "give the name of one, or compile the model with it"
    return f"the state of {optimizer!r}: the {backend.name} backend reads no optimizers; {advice}"


def find_step_memory(
    trace: ModelTrace, optimizer_size: OptimizerBytes | str, optimizer: Any, backend: Backend
) -> dict[str, Any]:
    """Return the peak with the bytes of the optimizer, and its parts; lower bounds if a part is not known."""
    counted, missing = find_known_bytes(trace, optimizer_size)
    peak, parts = find_step_peak(trace, counted), _divide_peak(trace, counted)
    if peak > trace.memory.peak_bytes() + counted.state:
        parts = {**_divide_update(trace, counted), "operator": "the optimizer's update", "layer": "", "phase": "update"}
    is_without = optimizer is None and optimizer_size == OptimizerBytes(0)
    hint = "without an optimizer's state; include one with optimizer='adam', for example" if is_without else ""
    unsaid = Unavailable(f"the {backend.name} backend does not tell what the bytes at the peak are for")
    return {
        TrainingMemory.NAME: qualify(peak, missing, [trace.memory.note, hint]),
        TrainingMemoryParts.NAME: qualify(parts, missing) if trace.memory.parts else unsaid,
    }


class KnownBytes(NamedTuple):
    """The known bytes of an optimizer, and the unknown parts of the memory of a step, in words."""

    optimizer: OptimizerBytes
    missing: tuple[str, ...]


def find_known_bytes(trace: ModelTrace, optimizer_size: OptimizerBytes | str) -> KnownBytes:
    """Return the known and unknown bytes of a step's memory; ``optimizer_size`` may be a reason why it is unknown."""
    counted = OptimizerBytes(0, missing=optimizer_size) if isinstance(optimizer_size, str) else optimizer_size
    missing = [counted.missing] if counted.missing else []
    unknown = [weight.name for weight in trace.parameters_in_memory if weight.trainable is None]
    if unknown and trace.memory.left_bytes is None:  # else the trace knows which gradients are left
        missing.append(
            f"the gradients of weights of which it is not known whether they are trained ({', '.join(unknown[:5])})"
        )
    return KnownBytes(counted, tuple(missing))


def find_step_peak(trace: ModelTrace, optimizer_size: OptimizerBytes) -> int:
    """Return the peak of a training step: in one of its passes, or in the update of the weights."""
    in_passes = trace.memory.peak_bytes() + optimizer_size.state
    return max(in_passes, sum(_divide_update(trace, optimizer_size).values()))


def _divide_peak(trace: ModelTrace, optimizer_size: OptimizerBytes) -> dict[str, Any]:
    """Return the parts if the peak is in one of the two passes, and the position of the peak."""
    sizes = {**trace.memory.parts, "weights": trace.memory.weight_bytes, "optimizer_state": optimizer_size.state}
    at = trace.peak_operator
    position = {"operator": "", "layer": "", "phase": "forward"}
    if at is not None:
        position = {"operator": at.operator, "layer": at.layer, "phase": at.phase}
    return {**{name: sizes.get(name, 0) for name in _PARTS}, **position}


def _divide_update(trace: ModelTrace, optimizer_size: OptimizerBytes) -> dict[str, int]:
    """Return the parts of the bytes that are alive in the update: the gradients, and the bytes left by the step."""
    memory = trace.memory
    gradients = sum(weight.bytes for weight in trace.parameters_in_step if weight.trainable)
    left = gradients if memory.left_bytes is None else memory.left_bytes - memory.input_bytes
    return {
        "weights": memory.weight_bytes,
        "gradients": min(left, gradients),
        "optimizer_state": optimizer_size.state,
        "activations": left - min(left, gradients),
        "inputs": memory.input_bytes,
        "other": optimizer_size.update,
    }
