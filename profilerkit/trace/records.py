"""A `ModelTrace`: the facts of one static pass over a model, with the sums and the tables that follow from them.

Every tree, top-k list, plot and total is a view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

from ..process.cached import cached_property
from .bounds import Bounds
from .facts import (
    LayerCall,
    LayerRecord,
    MemoryTimeline,
    OpRecord,
    RankShare,
    TensorInfo,
    TraceFacts,
    WeightRecord,
    describe_calls,
)
from .layer_table import LayerTable
from .layer_weights import count_trainable
from .layer_work import find_bounds
from .rows import list_call_rows, list_layer_rows, list_operator_rows
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


@dataclass(frozen=True)
class ModelTrace(TraceFacts):
    """One static pass over a model.

    Each trace is checked by the rules of `profilerkit.trace.validation`.

    Attributes:
        layers: All layers. The first is the model itself, with the path ``""``.
        operators: All calls of operators, in the order of execution.
        memory: The bytes alive after each operator.
        uncounted: The operators without a known cost, with the number of their calls. If there are any, ``macs`` and
            ``flops`` are lower bounds.
        method: What replaced the weights: "meta tensors".
        notes: Remarks for the reader of the numbers.
        failure: The error of a model that could not be traced; there are then only layers with their weights.
        unmade_weights: A text about weights that only the first call creates, so that ``layers`` do not have them.
        rank: The part of this process, for a model in several processes. All other numbers are for the whole model.
        program: An object of the backend that it needs to run the model.
        choices: Branches of which only one runs, if it is unknown which one. The counts then have two ends.
        operator_macs: The multiply-accumulates of all operators by their own formulas, without formulas of layers and
            ``ignore=``. Runs are compared with this number. None if the backend does not report it.
        peak_spread: How many bytes less and more the peak may have, because of ``choices``. None if the backend does
            not report it; the peak is then unknown if there are ``choices``.
        contradictions: Texts about runs of the model that differ from this trace. If there are any, all values from
            operators and layers are incomplete.
        conditions: The caller's settings that change the numbers, each in a few words.
        left_out: The layers that ``ignore=`` takes away from ``layers``. The memory is the model's memory with them.
        without_gradient: The trainable weights that get no gradient in this training step, by layer and name:
            "encoder.weight". An optimizer that makes its state as it steps has none for them.
    """

    def _bind(self, list_rows: Callable[[ModelTrace], Any]) -> Callable[[], Any]:
        """Return a function that lists the rows of a table: without the program, as the table may outlive the model."""
        return partial(list_rows, copy(self))

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
        """Texts about uncounted work."""
        return describe_calls(self.uncounted)

    def bounds(self, column: str, path: str = "") -> Bounds:
        """Return the two bounds of the "macs" or "flops" of a layer, with the layers inside it, or of the model."""
        return find_bounds(self, column, path)

    @cached_property
    def parameters(self) -> tuple[WeightRecord, ...]:
        """All distinct parameters; tied ones once."""
        return distinct(weight for layer in self.layers for weight in layer.parameters)

    @property
    def parameters_in_memory(self) -> tuple[WeightRecord, ...]:
        """All distinct parameters that are in memory: also the parameters of layers that are left out."""
        return distinct(weight for layer in (*self.layers, *self.left_out) for weight in layer.parameters)

    @property
    def parameters_in_step(self) -> tuple[WeightRecord, ...]:
        """All distinct parameters in memory; those that get no gradient in a training step are not trainable here."""
        updated = []
        for layer in (*self.layers, *self.left_out):
            for weight in layer.parameters:
                name = f"{layer.path}.{weight.name}" if layer.path else weight.name
                updated.append(replace(weight, trainable=False) if name in self.without_gradient else weight)
        return distinct(updated)

    @cached_property
    def buffers(self) -> tuple[WeightRecord, ...]:
        """All distinct buffers that are not also parameters."""
        trained_ids = {weight.identity for weight in self.parameters}
        buffers = (weight for layer in self.layers for weight in layer.buffers)
        return distinct(weight for weight in buffers if weight.identity not in trained_ids)

    @property
    def total_params(self) -> int:
        """Elements of the distinct parameters, frozen ones included."""
        return sum(weight.count for weight in self.parameters)

    @property
    def trainable_params(self) -> int | None:
        """Elements of the distinct parameters that training changes; None if this is unknown for any of them."""
        return count_trainable(self.parameters)

    @property
    def size_bytes(self) -> int:
        """Bytes of the distinct parameters and persistent buffers at their own dtypes."""
        weights = [
            weight for layer in self.layers for weight in (*layer.parameters, *layer.buffers) if weight.persistent
        ]
        return sum([weight.bytes for weight in distinct(weights)])

    @property
    def peak_operator(self) -> OpRecord | None:
        """The operator after which most bytes are alive."""
        index = self.memory.peak_index
        return None if index is None else self.operators[index]

    @property
    def operator_table(self) -> Table:
        """One row for each call of an operator, in order, with the bytes alive after it; created when first read."""
        return Table(self._bind(list_operator_rows))

    @cached_property
    def table(self) -> LayerTable:
        """One row for each layer, with its own work and with the work of the layers inside; created when first read."""
        return LayerTable(self._bind(list_layer_rows))

    @cached_property
    def call_table(self) -> LayerTable:
        """One row for each call of a layer: its tensors, its own work, and its work with the calls that it made.

        It is created when it is first read.
        """
        return LayerTable(self._bind(list_call_rows))

    def layer(self, path: str) -> LayerRecord:
        """Return the record of a layer; an unknown path raises `KeyError` with the nearest ones."""
        return self.layers[self.table.position(path)]


def distinct(weights: Iterable[WeightRecord]) -> tuple[WeightRecord, ...]:
    """Return each weight once; of tied weights the first."""
    first: dict[int, WeightRecord] = {}
    for weight in weights:
        first.setdefault(weight.identity, weight)
    return tuple(first.values())
