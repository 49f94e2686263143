"""What follows from one static pass over a model: parameters, size, arithmetic, memory, layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from profilerkit import Noted, ProfilerFunction, Unavailable
from profilerkit.arguments.checks import FLAG, Check
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Bytes, Count
from .layerwise import LayerwiseData, LayerwiseSummary, layerwise

__all__ = [
    "ComputeComplexity",
    "ComputeFlops",
    "ComputeParams",
    "ComputeSize",
    "Flops",
    "Macs",
    "MemoryFootprint",
    "ModelSize",
    "TotalParams",
    "TrainableParams",
]


class Macs(Count):
    """Multiply-accumulates of matrix products, convolutions, attention and recurrent gates in one forward pass.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["macs"])["macs"]
    16
    """

    NAME = "macs"
    FRIENDLY_NAME = "MACs"
    UNIT = "MACs"
    DERIVED_FROM = TracePart.OPERATORS
    COUNTS = "macs"
    FORMULA = (
        "sum over operators of the multiply-accumulates: m*k*n for a matrix product, kernel elements times "
        "input channels of a group for each output element of a convolution"
    )
    OMISSIONS = (
        "arithmetic other than multiply-accumulates, such as biases and activations; operators without a cost "
        "formula, which make it a lower bound"
    )
    SOURCE = "one multiplication and one addition are one multiply-accumulate; fvcore prints the same number as FLOPs"


class Flops(Count):
    """All floating-point operations in one forward pass, two for each multiply-accumulate.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["flops"])["flops"]
    34
    """

    NAME = "flops"
    FRIENDLY_NAME = "FLOPs"
    UNIT = "FLOPs"
    DERIVED_FROM = TracePart.OPERATORS
    COUNTS = "flops"
    FORMULA = "2 * macs + the operations of all other floating-point operators, each by its formula below"
    OMISSIONS = (
        "operations on integers and booleans; moving data; operators without a cost formula, which make it a "
        "lower bound"
    )
    SOURCE = (
        "two operations for a multiply-accumulate, as in torch.utils.flop_counter; the elementary "
        "functions as in the table below"
    )


class TotalParams(Count):
    """Elements of the distinct parameters: tied ones once, frozen ones included, buffers left out.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["total_params"])["total_params"]
    18
    """

    NAME = "total_params"
    ALIASES = ("params", "parameters")
    FRIENDLY_NAME = "Total Parameters"
    DERIVED_FROM = TracePart.WEIGHTS
    FORMULA = "sum of the elements of the distinct parameters"
    OMISSIONS = "buffers; parameters that only the first call makes, which make it a lower bound"
    SOURCE = "the elements that optimizers and model.parameters() see, shared ones once"


class TrainableParams(Count):
    """Elements of the distinct parameters that training changes.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["trainable_params"])["trainable_params"]
    18
    """

    NAME = "trainable_params"
    FRIENDLY_NAME = "Trainable Parameters"
    DERIVED_FROM = TracePart.WEIGHTS
    FORMULA = "sum of the elements of the distinct parameters that training changes"
    OMISSIONS = "frozen parameters and buffers"
    SOURCE = "requires_grad in PyTorch, trainable_weights in Keras"


class ModelSize(Bytes):
    """Bytes of the distinct parameters and persistent buffers at their own dtypes.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["model_size"])["model_size"]
    72
    """

    NAME = "model_size"
    ALIASES = ("size",)
    DERIVED_FROM = TracePart.WEIGHTS
    FORMULA = "sum over distinct parameters and persistent buffers of elements * bytes of the dtype"
    OMISSIONS = "the overhead of the file format; buffers that are not saved"
    SOURCE = "the bytes of the saved weights"


class MemoryFootprint(Bytes):
    """Peak bytes alive at once in one forward pass without gradients: weights, inputs and activations.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["memory_footprint"])["memory_footprint"]
    112
    """

    NAME = "memory_footprint"
    ALIASES = ("memory",)
    DERIVED_FROM = TracePart.MEMORY
    FORMULA = (
        "maximum over the operators of the bytes alive after each: weights + inputs + activations that are still needed"
    )
    OMISSIONS = (
        "scratch memory of kernels; the reserve of the allocator; tensors of unknown size, which make it a lower bound"
    )
    SOURCE = (
        "profilerkit's own definition: each storage counts once, from the operator that makes it to the last "
        "that reads it"
    )


class ComputeParams(ProfilerFunction):
    """Counts parameters; the model need not run for it."""

    KEYS = (TotalParams, TrainableParams)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        trainable = trace.trainable_params
        unknown = Unavailable("does not apply to this model: it is not known which of its parameters training changes")
        return {TotalParams.NAME: trace.total_params, TrainableParams.NAME: unknown if trainable is None else trainable}


class ComputeFlops(ProfilerFunction):
    """Counts multiply-accumulates and floating-point operations of one forward pass."""

    KEYS = (Macs, Flops)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        return {Macs.NAME: trace.macs, Flops.NAME: trace.flops}


class ComputeSize(ProfilerFunction):
    """Computes what the model needs in memory: its size, and the peak while it runs."""

    KEYS = (ModelSize, MemoryFootprint)
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return both in bytes; ``include_weights`` is that of `ComputeComplexity`."""
        peak = trace.memory.peak_bytes(include_weights)
        footprint = Noted(peak, trace.memory.note) if trace.memory.note else peak
        return {ModelSize.NAME: trace.size_bytes, MemoryFootprint.NAME: footprint}


class ComputeComplexity(ProfilerFunction):
    """Computes all static metrics at once: parameters, size, MACs, FLOPs, memory footprint, layers."""

    KEYS = (TotalParams, TrainableParams, ModelSize, Macs, Flops, MemoryFootprint, LayerwiseSummary, LayerwiseData)
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return every static metric by name.

        Args:
            trace: The model's trace.
            include_weights: If False, the memory does not include the weights.
        """
        sizes = ComputeSize()(trace, include_weights)
        return {**ComputeParams()(trace), **ComputeFlops()(trace), **sizes, **layerwise(trace)}
