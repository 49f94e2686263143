"""The facts of one static pass over a model: its operators, its layers, and the bytes alive after each operator.

`profilerkit.trace.records` adds the sums and the tables of them. All numbers are in base units, for one forward pass of
the batch the model was traced with.

The records of single operators, layers and tensors are `msgspec.Struct`, which is created 20 times as fast as a
dataclass; `msgspec.structs.replace` returns a changed copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from ..count_text import format_count
from .bounds import Choice, PeakSpread

__all__ = [
    "LayerCall",
    "LayerRecord",
    "MemoryTimeline",
    "OpRecord",
    "RankShare",
    "TensorInfo",
    "TraceFacts",
    "WeightRecord",
    "describe_calls",
]


class TensorInfo(Struct, frozen=True, gc=False):
    """Shape and dtype of a tensor, without its values.

    Attributes:
        shape: Its sizes; -1 for a size that is unknown before the model runs.
        dtype: The name of its dtype: "float32".
    """

    shape: tuple[int, ...]
    dtype: str


class WeightRecord(Struct, frozen=True, gc=False):
    """A parameter or buffer of a layer.

    Attributes:
        name: Its name in the layer: "weight".
        identity: A value that is equal for tied weights only.
        count: The number of its elements.
        bytes: The bytes of the elements as they are stored.
        dtype: The name of its dtype: "float32".
        trainable: Whether training changes it; None if unknown.
        persistent: Whether it is saved with the model.
        shape: Its sizes; empty for a scalar, and if they are unknown.
    """

    name: str
    identity: int
    count: int
    bytes: int
    dtype: str
    trainable: bool | None
    persistent: bool = True
    shape: tuple[int, ...] = ()


class OpRecord(Struct, frozen=True, gc=False):
    """One call of one operator, or all its runs in a loop together: its cost, its layer, and the call of that layer.

    Attributes:
        operator: The name in the framework: "aten::mm".
        layer: The path of the innermost layer that it ran in.
        call: The index of the call of that layer; -1 for work of a ``call=`` function outside the model's calls.
        macs: Multiply-accumulates of all these runs.
        flops: Floating-point operations of all these runs, two or more for each multiply-accumulate.
        bytes_read: Bytes of its inputs.
        bytes_written: Bytes of its outputs.
        outputs: The tensors that it returned.
        phase: "forward" or, in a training step, "backward".
        recomputed: Whether it repeats work of the forward pass, as an activation checkpoint does in the backward pass.
        attended_macs: For causal attention, and attention with a known mask, the multiply-accumulates without the
            masked scores. ``macs`` counts all scores. None for any other operator.
        is_masked: Whether a tensor masks the attention, so that the number of scores depends on its values.
        product_dtype: The dtype that a product multiplies, if it is narrower than the dtype of its output, such as
            8-bit floats that are summed in bfloat16. None if it is the dtype of the first output.
        node: The graph in the model's file and the id of the node there that it is part of, as Model Explorer names
            them: ("main", "3"). None if the model does not come from a file with a graph.
        reads: The operators whose results it reads, by their places among those of the trace; -1 for an input of the
            model. They are in order, each once, and all before this one. Empty if it reads only weights and constants,
            and if the backend does not know.
        missing: The part of it that is not counted, as a key of ``ModelTrace.uncounted``. Empty if all is counted.
    """

    operator: str
    layer: str
    call: int
    macs: int
    flops: int
    bytes_read: int
    bytes_written: int
    outputs: tuple[TensorInfo, ...]
    phase: str = "forward"
    recomputed: bool = False
    attended_macs: int | None = None
    is_masked: bool = False
    product_dtype: str | None = None
    node: tuple[str, str] | None = None
    reads: tuple[int, ...] = ()
    missing: str = ""


class LayerCall(Struct, frozen=True, gc=False):
    """The inputs and outputs of one call of a layer.

    Attributes:
        inputs: The tensors among the arguments.
        outputs: The tensors that were returned.
        caller: The path of the layer that made the call, and the index of its call; None if no layer made it.
        times: How often the call was made. A call in a loop is recorded once, with the number of iterations.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    caller: tuple[str, int] | None = None
    times: int = 1


class LayerRecord(Struct, frozen=True, gc=False):
    """A layer: its own weights, and its calls.

    Attributes:
        path: The path from the model: "encoder.0.linear"; empty for the model itself, the root.
        type: The name of its class: "Linear".
        depth: The number of layers around it: 0 for the root, 3 for "encoder.0.linear".
        parameters: Its own parameters, without the parameters of the layers inside.
        buffers: Its other values: statistics, masks.
        calls: Its calls, in order. If the model raised an error, the calls that had started before.
        configuration: The arguments that it was created with, if known: "3, 16, kernel_size=(3, 3)".
    """

    path: str
    type: str
    depth: int
    parameters: tuple[WeightRecord, ...] = ()
    buffers: tuple[WeightRecord, ...] = ()
    calls: tuple[LayerCall, ...] = ()
    configuration: str = ""

    @property
    def call_count(self) -> int:
        """How often it was called, each turn of a loop included."""
        return sum(call.times for call in self.calls)


@dataclass(frozen=True, slots=True)
class RankShare:
    """The part of the weights that one process has, for a model that runs in several processes.

    Attributes:
        rank: The number of this process, from 0.
        ranks: The number of processes.
        params: The number of elements of its parameters.
        bytes: The bytes of its parameters and buffers.
        work_shared_by: How many processes share the work of one pass: 1 if each runs the whole model on its own
            samples, even if it gathers the weights for the pass.
    """

    rank: int
    ranks: int
    params: int
    bytes: int
    work_shared_by: int = 1

    def __str__(self) -> str:
        return (
            f"rank {self.rank} of {self.ranks} holds {self.params:,} parameters, with the buffers {self.bytes:,} bytes"
        )


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes alive after each operator: inputs and activations, and the weights, which are always alive.

    Attributes:
        weight_bytes: The bytes of the weights.
        input_bytes: The bytes alive before the first operator, without the weights.
        live_bytes: The bytes alive after each operator of the trace, without the weights: one value for each operator.
        note: The way of running the model that these bytes are for, if there are several.
        unsized: Operators whose outputs have an unknown size, with the number of their calls. Their outputs count no
            bytes, so the numbers are lower bounds.
        parts: The purposes of the bytes at the peak, if known: "inputs", "activations", "gradients" (of weights) and
            "other". Together with ``weight_bytes`` they are all bytes.
        left_bytes: The bytes alive at the end of a training step, without the weights; None if unknown.
    """

    weight_bytes: int = 0
    input_bytes: int = 0
    live_bytes: tuple[int, ...] = ()
    note: str = ""
    unsized: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    left_bytes: int | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """A text about the bytes that are not counted."""
        return describe_calls(self.unsized, " of unknown size")

    @property
    def peak_index(self) -> int | None:
        """The index of the operator after which most bytes are alive; None if the peak is before the first operator."""
        if not self.live_bytes or max(self.live_bytes) <= self.input_bytes:
            return None
        return max(range(len(self.live_bytes)), key=self.live_bytes.__getitem__)

    def peak_bytes(self, include_weights: bool = True) -> int:
        """Return the largest number of bytes alive at the same time."""
        return max((self.input_bytes, *self.live_bytes)) + (self.weight_bytes if include_weights else 0)


@dataclass(frozen=True)
class TraceFacts:
    """The facts of a trace, which `profilerkit.trace.records.ModelTrace` describes."""

    layers: tuple[LayerRecord, ...]
    operators: tuple[OpRecord, ...] = ()
    memory: MemoryTimeline = field(default_factory=MemoryTimeline)
    uncounted: Mapping[str, int] = field(default_factory=dict)
    method: str = ""
    notes: tuple[str, ...] = ()
    failure: Exception | None = None
    unmade_weights: str = ""
    rank: RankShare | None = None
    program: Any = field(default=None, compare=False, repr=False)
    choices: tuple[Choice, ...] = ()
    operator_macs: int | None = None
    peak_spread: PeakSpread | None = None
    contradictions: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    left_out: tuple[LayerRecord, ...] = ()
    without_gradient: frozenset[str] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle it without the program, which belongs to this process, and holds the model."""
        return {**vars(self), "program": None}


def describe_calls(calls: Mapping[str, int], of: str = "") -> tuple[str, ...]:
    """Return operators in words, each with the number of its calls."""
    return tuple(f"{operator}{of} ({format_count(number, 'call')})" for operator, number in sorted(calls.items()))
