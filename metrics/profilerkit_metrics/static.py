"""The metrics of one static pass over a model: parameters, size, arithmetic, memory, layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from profilerkit import ProfilerFunction, StatusKey, Unavailable
from profilerkit.arguments.checks import FLAG, Check
from profilerkit.piping.function import Keys
from profilerkit.piping.outcome import qualify
from profilerkit.render import layer_text
from profilerkit.trace.completeness import TracePart
from profilerkit.trace.records import ModelTrace

from .kinds import Bytes, Count

__all__ = [
    "ComputeComplexity",
    "ComputeFlops",
    "ComputeLayerwiseSummary",
    "ComputeMemoryFootprint",
    "ComputeModelSize",
    "ComputeParams",
    "ComputeSize",
    "Flops",
    "LayerwiseData",
    "LayerwiseSummary",
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

    NAME: str = "macs"
    FRIENDLY_NAME: str = "MACs"
    UNIT: str = "MACs"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    COUNTS: str = "macs"
    FORMULA: str = (
        "sum over operators of the multiply-accumulates: m*k*n for a matrix product, kernel elements times "
        "input channels of a group for each output element of a convolution"
    )
    OMISSIONS: str = (
        "arithmetic other than multiply-accumulates, such as biases and activations; operators without a cost "
        "formula, which make it a lower bound"
    )
    SOURCE: str = (
        "one multiplication and one addition are one multiply-accumulate; fvcore prints the same number as FLOPs"
    )


class Flops(Count):
    """All floating-point operations in one forward pass, two for each multiply-accumulate.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["flops"])["flops"]
    34
    """

    NAME: str = "flops"
    FRIENDLY_NAME: str = "FLOPs"
    UNIT: str = "FLOPs"
    DERIVED_FROM: TracePart | None = TracePart.OPERATORS
    COUNTS: str = "flops"
    FORMULA: str = "2 * macs + the operations of all other floating-point operators, each by its formula below"
    OMISSIONS: str = (
        "operations on integers and booleans; moving data; operators without a cost formula, which make it a "
        "lower bound"
    )
    SOURCE: str = (
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

    NAME: str = "total_params"
    ALIASES: tuple[str, ...] = ("params", "parameters")
    FRIENDLY_NAME: str = "Total Parameters"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "sum of the elements of the distinct parameters"
    OMISSIONS: str = "buffers; parameters that only the first call makes, which make it a lower bound"
    SOURCE: str = "the elements that optimizers and model.parameters() see, shared ones once"


class TrainableParams(Count):
    """Elements of the distinct parameters that training changes.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["trainable_params"])["trainable_params"]
    18
    """

    NAME: str = "trainable_params"
    FRIENDLY_NAME: str = "Trainable Parameters"
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "sum of the elements of the distinct parameters that training changes"
    OMISSIONS: str = "frozen parameters and buffers"
    SOURCE: str = "requires_grad in PyTorch, trainable_weights in Keras"


class ModelSize(Bytes):
    """Bytes of the distinct parameters and persistent buffers at their own dtypes.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["model_size"])["model_size"]
    72
    """

    NAME: str = "model_size"
    ALIASES: tuple[str, ...] = ("size",)
    DERIVED_FROM: TracePart | None = TracePart.WEIGHTS
    FORMULA: str = "sum over distinct parameters and persistent buffers of elements * bytes of the dtype"
    OMISSIONS: str = "the overhead of the file format; buffers that are not saved"
    SOURCE: str = "the bytes of the saved weights"


class MemoryFootprint(Bytes):
    """Peak bytes alive at once in one forward pass without gradients: weights, inputs and activations.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["memory_footprint"])["memory_footprint"]
    112
    """

    NAME: str = "memory_footprint"
    ALIASES: tuple[str, ...] = ("memory",)
    DERIVED_FROM: TracePart | None = TracePart.MEMORY
    FORMULA: str = (
        "maximum over the operators of the bytes alive after each: weights + inputs + activations that are still needed"
    )
    OMISSIONS: str = (
        "scratch memory of kernels; the reserve of the allocator; tensors of unknown size, which make it a lower bound"
    )
    SOURCE: str = (
        "profilerkit's own definition: each storage counts once, from the operator that makes it to the last "
        "that reads it"
    )


class LayerwiseData(StatusKey):
    """The per-layer table as data: a `LayerTable`, with ``top(k, by=...)`` and ``to_pandas()``.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layerwise_data"])["layerwise_data"][0]["macs"]
    16
    """

    NAME: str = "layerwise_data"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "the static counts of each layer, with and without the layers inside it"
    OMISSIONS: str = "nothing: work outside of all layers is in the row of the model itself"
    SOURCE: str = "profilerkit's own definition"


class LayerwiseSummary(StatusKey):
    """The per-layer table as text, written when it is first read.

    >>> from torch import nn
    >>> from profilerkit import profile
    >>> "Linear" in profile(nn.Linear(8, 2), input_shape=(8,), metrics=["layerwise_summary"])["layerwise_summary"]
    True
    """

    NAME: str = "layerwise_summary"
    DERIVED_FROM: TracePart | None = TracePart.LAYERS
    FORMULA: str = "layerwise_data as text"
    OMISSIONS: str = "the other columns of layerwise_data"
    SOURCE: str = "profilerkit's own definition"
    _text: str | None = None

    @property
    def value(self) -> str | None:
        """The table as text; None if there is none."""
        table = self.outcome.value
        if table is not None and self._text is None:
            self._text = table if isinstance(table, str) else layer_text(table)  # a text is one that was loaded
        return self._text


class ComputeParams(ProfilerFunction):
    """Counts parameters; the model need not run for it."""

    KEYS: ClassVar[Keys] = (TotalParams, TrainableParams)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        trainable = trace.trainable_params
        unknown = Unavailable(
            "does not apply to this model: it is not known which of its parameters training changes",
            is_applicable=False,
        )
        return {TotalParams.NAME: trace.total_params, TrainableParams.NAME: unknown if trainable is None else trainable}


class ComputeModelSize(ProfilerFunction):
    """Computes the bytes of the weights."""

    KEYS: ClassVar[Keys] = (ModelSize,)

    def __call__(self, trace: ModelTrace) -> int:
        """Return the bytes."""
        return trace.size_bytes


class ComputeFlops(ProfilerFunction):
    """Counts multiply-accumulates and floating-point operations of one forward pass."""

    KEYS: ClassVar[Keys] = (Macs, Flops)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return both counts."""
        return {Macs.NAME: trace.macs, Flops.NAME: trace.flops}


class ComputeMemoryFootprint(ProfilerFunction):
    """Computes the peak of the memory while the model runs."""

    KEYS: ClassVar[Keys] = (MemoryFootprint,)
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> Any:
        """Return the bytes.

        Args:
            trace: The model's trace.
            include_weights: If False, the memory does not include the weights.
        """
        return qualify(trace.memory.peak_bytes(include_weights), notes=[trace.memory.note])


class ComputeLayerwiseSummary(ProfilerFunction):
    """Computes the per-layer table."""

    KEYS: ClassVar[Keys] = (LayerwiseSummary, LayerwiseData)

    def __call__(self, trace: ModelTrace) -> dict[str, Any]:
        """Return the table as text and as data."""
        return {LayerwiseSummary.NAME: trace.table, LayerwiseData.NAME: trace.table}


class ComputeSize(ProfilerFunction):
    """Computes the memory of the model: its size, and the peak while it runs."""

    KEYS: ClassVar[Keys] = (ModelSize, MemoryFootprint)
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return both in bytes; for ``include_weights`` see `ComputeMemoryFootprint`."""
        footprint = ComputeMemoryFootprint()(trace, include_weights)
        return {ModelSize.NAME: trace.size_bytes, MemoryFootprint.NAME: footprint}


class ComputeComplexity(ProfilerFunction):
    """Computes all static metrics at once, for a profiler that one function is registered with.

    By default a profiler has the functions above in its place, so that one metric does not compute the others.
    """

    KEYS: ClassVar[Keys] = (
        TotalParams,
        TrainableParams,
        ModelSize,
        Macs,
        Flops,
        MemoryFootprint,
        LayerwiseSummary,
        LayerwiseData,
    )
    CHECKS: ClassVar[Mapping[str, Check]] = {"include_weights": FLAG}

    def __call__(self, trace: ModelTrace, include_weights: bool = True) -> dict[str, Any]:
        """Return every static metric by name; for ``include_weights`` see `ComputeMemoryFootprint`."""
        counts = {**ComputeParams()(trace), **ComputeFlops()(trace), **ComputeLayerwiseSummary()(trace)}
        return {**counts, **ComputeSize()(trace, include_weights)}
