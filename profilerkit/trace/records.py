"""What one static pass over a model found: operators, layers, and the bytes alive along the way.

Every table, tree, top-k list, plot and total is a view of a `ModelTrace`. All numbers are in base units, for one
forward pass of the batch the model was traced with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..process.cached import cached_property
from .bounds import Bounds, Choice, PeakSpread
from .layer_bounds import bounds_inside
from .layer_table import LayerTable
from .rows import of_calls, of_layers
from .table import Table

__all__ = [
    "LayerCall",
    "LayerRecord",
    "LayerTable",
    "MemoryTimeline",
    "ModelTrace",
    "OpRecord",
    "RankShare",
    "TensorInfo",
    "WeightRecord",
    "distinct",
]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and dtype of a tensor, without its values.

    Attributes:
        shape: Its sizes; -1 for one that is not known before the model runs.
        dtype: The name of its dtype: "float32".
    """

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class WeightRecord:
    """A parameter or buffer of a layer.

    Attributes:
        name: What the layer calls it: "weight".
        identity: Equal for tied weights, and for no others.
        count: Its elements.
        bytes: What they take, as they are stored.
        dtype: The name of its dtype: "float32".
        trainable: Whether training changes it; None where that is not known.
        persistent: Whether it is saved with the model.
        shape: Its sizes; empty for a scalar, and where they are not known.
    """

    name: str
    identity: int
    count: int
    bytes: int
    dtype: str
    trainable: bool | None
    persistent: bool = True
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One call of one operator: its cost, and the layer and the call of that layer it happened in.

    Attributes:
        operator: The framework's name of it: "aten::mm".
        layer: The path of the innermost layer that it ran in.
        call: The index of that layer's call; -1 for work outside every call of the model, in a function that was given
            with ``call=``.
        macs: Multiply-accumulates.
        flops: Floating-point operations, two or more for each multiply-accumulate.
        bytes_read: Bytes of its inputs.
        bytes_written: Bytes of its outputs.
        outputs: The tensors that it returned.
        phase: "forward" or, in a training step, "backward".
        recomputed: Whether it repeats work of the forward pass, as an activation checkpoint does in the backward pass.
        attended_macs: Of attention that is causal, or has a mask whose values are known, the multiply-accumulates of
            the scores that it leaves; ``macs`` counts all of them. None for any other operator.
        is_masked: Whether a tensor masks attention: how many scores it leaves depends on its values.
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


@dataclass(frozen=True, slots=True)
class LayerCall:
    """The tensors that went into one call of a layer, and those that came out.

    Attributes:
        inputs: The tensors among the arguments.
        outputs: The tensors that were returned.
        caller: The path of the layer that made the call, and the index of its call; None where no layer made it.
        times: How often it was made: a call in the body of a loop is made once for each turn, and recorded once.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    caller: tuple[str, int] | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """A layer: what it owns itself, and how it was called.

    Attributes:
        path: Its name inside the layers around it: "encoder.0.linear"; empty for the model itself, the root.
        type: The name of its class: "Linear".
        depth: How many layers it is inside of: 0 for the root, 3 for "encoder.0.linear".
        parameters: The parameters that it holds itself.
        buffers: What else it holds of values: statistics, masks.
        calls: Its calls, in order; those that had begun before the error where the model raised.
        configuration: How it was made, where the framework tells: "3, 16, kernel_size=(3, 3)".
    """

    path: str
    type: str
    depth: int
    parameters: tuple[WeightRecord, ...] = ()
    buffers: tuple[WeightRecord, ...] = ()
    calls: tuple[LayerCall, ...] = ()
    configuration: str = ""


@dataclass(frozen=True, slots=True)
class RankShare:
    """What one process holds of the weights of a model that runs in several.

    Attributes:
        rank: The number of this process, from 0.
        ranks: How many processes there are.
        params: The elements of parameters that this process holds.
        bytes: The bytes of its parameters and buffers.
    """

    rank: int
    ranks: int
    params: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"rank {self.rank} of {self.ranks} holds {self.params:,} parameters, with the buffers {self.bytes:,} bytes"
        )


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes alive after each operator: inputs and activations; the weights stay alive throughout.

    Attributes:
        weight_bytes: The bytes of the weights, which are alive throughout.
        input_bytes: What is alive before the first operator.
        live_bytes: What is alive after each operator of the trace, in order: as many values as there are operators.
        note: How the model is run for these to be true, where there are several ways.
        unsized: The operators that make tensors whose size is not known before the model runs, with their calls: such a
            tensor counts no bytes, and where there are any the others are lower bounds.
        parts: What the bytes at the peak are for, where the backend tells: "inputs", "activations", "gradients" (of
            weights) and "other"; with ``weight_bytes`` they are all.
        left_bytes: What is alive at the end of a training step, the weights aside; None where it is not known.
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
        """What the bytes leave out, in words."""
        return tuple(
            f"{operator} of unknown size ({_calls(calls)})" for operator, calls in sorted(self.unsized.items())
        )

    @property
    def peak_index(self) -> int | None:
        """The operator after which most is alive; None where that is before the first."""
        if not self.live_bytes or max(self.live_bytes) <= self.input_bytes:
            return None
        return max(range(len(self.live_bytes)), key=self.live_bytes.__getitem__)

    def peak_bytes(self, include_weights: bool = True) -> int:
        """Return the most bytes alive at once."""
        return max((self.input_bytes, *self.live_bytes)) + (self.weight_bytes if include_weights else 0)


@dataclass(frozen=True)
class ModelTrace:
    """One static pass over a model.

    What a backend returns is checked by the rules of `profilerkit.trace.validation`.

    Attributes:
        layers: Every layer, the model itself first, with the path ``""``; every layer around another is one of them.
        operators: Every call of an operator, in the order of execution, in the path of one of the layers.
        memory: The bytes that are alive along the way.
        uncounted: The operators whose cost is not known, with their calls; where there are any, ``macs`` and ``flops``
            are lower bounds.
        method: What stood in for the weights: "meta tensors".
        notes: What a reader of the numbers must know besides.
        failure: The error that kept the model from being run: then there are layers with their weights, nothing else.
        unmade_weights: Which weights exist only after the model's first call, so that ``layers`` lack them, in words.
        rank: What this process holds of a model that is spread over several; the other numbers are the whole model's.
        program: What the backend keeps of the pass to run the model by, for as long as the trace is kept.
        choices: Where the model does one of several things, and which one is not known: the counts have two ends then.
        operator_macs: The multiply-accumulates of all operators, each by its own formula, whatever formulas layers have
            and whichever layers are left out: what a run is compared with. None where a backend does not tell.
        peak_spread: How much less and more may be alive at the peak where a branch decides; None where a backend does
            not tell, so that nothing is known of the peak where there are ``choices``.
        contradictions: What a run of the model did that this pass has otherwise, in words; where there is any, what
            follows from the operators and layers is not complete.
    """

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

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all operators."""
        return sum(op.macs for op in self.operators)

    @cached_property
    def flops(self) -> int:
        """Floating-point operations of all operators, two per multiply-accumulate."""
        return sum(op.flops for op in self.operators)

    @property
    def missing(self) -> tuple[str, ...]:
        """What the counts leave out, in words."""
        return tuple(f"{operator} ({_calls(calls)})" for operator, calls in sorted(self.uncounted.items()))

    def bounds(self, column: str, path: str = "") -> Bounds:
        """Return between which numbers the "macs" or "flops" lie of a layer with those inside it, or of the model."""
        return bounds_inside(self, column, path)

    @cached_property
    def parameters(self) -> tuple[WeightRecord, ...]:
        """Every distinct parameter, tied ones once."""
        return distinct(weight for layer in self.layers for weight in layer.parameters)

    @cached_property
    def buffers(self) -> tuple[WeightRecord, ...]:
        """Every distinct buffer that is not a parameter too."""
        trained_ids = {weight.identity for weight in self.parameters}
        every = distinct(weight for layer in self.layers for weight in layer.buffers)
        return tuple(weight for weight in every if weight.identity not in trained_ids)

    @property
    def total_params(self) -> int:
        """Elements of the distinct parameters, frozen ones included."""
        return sum(weight.count for weight in self.parameters)

    @property
    def trainable_params(self) -> int | None:
        """Elements of the distinct parameters that training changes; None where that is not known of all of them."""
        if any(weight.trainable is None for weight in self.parameters):
            return None
        return sum(weight.count for weight in self.parameters if weight.trainable)

    @property
    def size_bytes(self) -> int:
        """Bytes of the distinct parameters and persistent buffers at their own dtypes."""
        return sum(weight.bytes for weight in (*self.parameters, *self.buffers) if weight.persistent)

    @property
    def peak_operator(self) -> OpRecord | None:
        """The operator after which most bytes are alive."""
        index = self.memory.peak_index
        return None if index is None else self.operators[index]

    @property
    def operator_table(self) -> Table:
        """One row for each call of an operator, in order, with the bytes alive after it; made when it is first read."""
        operators, live = self.operators, self.memory.live_bytes
        return Table(lambda: _operator_rows(operators, live))

    @cached_property
    def table(self) -> LayerTable:
        """One row for each layer, with the work inside it (inclusive) and its own; made when it is first read."""
        return LayerTable(lambda: of_layers(self))

    @cached_property
    def call_table(self) -> LayerTable:
        """One row for each call of a layer: its tensors, its own work, and with that of the calls it made.

        Made when it is first read.
        """
        return LayerTable(lambda: of_calls(self))

    def layer(self, path: str) -> LayerRecord:
        """Return the record of a layer; an unknown path raises `KeyError` with the nearest ones."""
        return self.layers[self.table.position(path)]


def _calls(number: int) -> str:
    return f"{number} call{'s' if number > 1 else ''}"


def distinct(weights: Iterable[WeightRecord]) -> tuple[WeightRecord, ...]:
    """Return each weight once, tied ones as the first that was met."""
    first: dict[int, WeightRecord] = {}
    for weight in weights:
        first.setdefault(weight.identity, weight)
    return tuple(first.values())


def _operator_rows(operators: Iterable[OpRecord], live: tuple[int, ...]) -> Iterator[Mapping[str, Any]]:
    for index, op in enumerate(operators):
        yield {
            **{name: getattr(op, name) for name in _OPERATOR_COLUMNS},
            "live_bytes": live[index] if index < len(live) else None,
        }


_OPERATOR_COLUMNS = ("operator", "layer", "call", "phase", "macs", "flops", "bytes_read", "bytes_written")
