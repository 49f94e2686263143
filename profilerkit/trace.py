"""What one static pass over a model found: operators, layers, and the bytes alive along the way.

Every table, tree, top-k list, plot and total is a view of a `ModelTrace`. All numbers are in base units, for one
forward pass of the batch the model was traced with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .errors import by_likeness
from .status import StatusKey
from .table import Table

__all__ = [
    "LayerCall",
    "LayerRecord",
    "LayerTable",
    "MemoryTimeline",
    "ModelTrace",
    "OpRecord",
    "TensorInfo",
    "Trace",
    "WeightRecord",
]


class Trace(StatusKey):
    """The `ModelTrace` of the model; other functions name ``trace`` to work on it."""

    NAME = "trace"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and dtype of a tensor, without its values."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class WeightRecord:
    """A parameter or buffer of a layer.

    ``identity`` is equal for tied weights and for no others. ``trainable`` and ``persistent`` say whether training
    changes it and whether it is saved with the model.
    """

    name: str
    identity: int
    count: int
    bytes: int
    dtype: str
    trainable: bool
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One call of one operator: its cost, and the layer it happened in.

    ``phase`` is "forward" or, in a training step, "backward".
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


@dataclass(frozen=True, slots=True)
class LayerCall:
    """The tensors that went into one call of a layer, and those that came out."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """A layer: what it owns itself, and how it was called. The root's path is empty."""

    path: str
    type: str
    depth: int
    parameters: tuple[WeightRecord, ...] = ()
    buffers: tuple[WeightRecord, ...] = ()
    calls: tuple[LayerCall, ...] = ()


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes alive after each operator: inputs and activations; the weights stay alive throughout.

    ``live_bytes`` has one value for each operator of the trace, in order. ``input_bytes`` are alive before the first.
    ``note`` says how the model is run for these to be true, where there are several ways. ``unsized`` has the operators
    that make tensors whose size is not known before the model runs, with their calls: such a tensor counts no bytes,
    and where there are any the others are lower bounds.
    """

    weight_bytes: int = 0
    input_bytes: int = 0
    live_bytes: tuple[int, ...] = ()
    note: str = ""
    unsized: Mapping[str, int] = field(default_factory=dict)

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

    ``uncounted`` has the operators whose cost is not known, with their calls; where it is not empty, ``macs`` and
    ``flops`` are lower bounds. ``method`` says what stood in for the weights. ``failure`` is the error that kept the
    model from being run: then there are layers with their weights, and nothing else. ``unmade_weights``
    says, where there are any, which weights exist only after the model's first call, so that ``layers`` lack them.
    ``program`` is what the backend keeps of the pass to run the model by, for as long as the trace is kept.
    """

    layers: tuple[LayerRecord, ...]
    operators: tuple[OpRecord, ...] = ()
    memory: MemoryTimeline = field(default_factory=MemoryTimeline)
    uncounted: Mapping[str, int] = field(default_factory=dict)
    method: str = ""
    notes: tuple[str, ...] = ()
    failure: Exception | None = None
    unmade_weights: str = ""
    program: Any = field(default=None, compare=False, repr=False)

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

    @cached_property
    def parameters(self) -> tuple[WeightRecord, ...]:
        """Every distinct parameter, tied ones once."""
        return distinct(weight for layer in self.layers for weight in layer.parameters)

    @cached_property
    def buffers(self) -> tuple[WeightRecord, ...]:
        """Every distinct buffer that is not a parameter too."""
        known = {weight.identity for weight in self.parameters}
        every = distinct(weight for layer in self.layers for weight in layer.buffers)
        return tuple(weight for weight in every if weight.identity not in known)

    @property
    def total_params(self) -> int:
        """Elements of the distinct parameters, frozen ones included."""
        return sum(weight.count for weight in self.parameters)

    @property
    def trainable_params(self) -> int:
        """Elements of the distinct parameters that training changes."""
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
        """One row for each layer, with the work inside it (inclusive) and its own."""
        return LayerTable(_rows(self))


class LayerTable(Table):
    """The per-layer table: rows with equal keys, in the order of the model; one is also had by its ``path``.

    ``macs``, ``flops`` and ``params`` include the layers inside; ``own_macs`` and ``own_flops`` do not.
    """

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, str):
            return super().__getitem__(index)
        found = next((row for row in self if row["path"] == index), None)
        if found is None:
            nearest = ", ".join(by_likeness(index, [row["path"] for row in self])[:5])
            raise KeyError(f"no layer {index!r}; the nearest are: {nearest}")
        return found

    def top(self, k: int = 5, by: str = "macs", depth: int | None = None) -> LayerTable:
        """Return the ``k`` rows with the most of a column, at one depth or (None) among the innermost layers.

        Rows without a value there are left out.
        """
        if self._rows and by not in self._rows[0]:
            raise ValueError(f"no column {by!r} in the layer table; it has {', '.join(self._rows[0])}")
        held = [row for row in self._rows if row[by] is not None]
        if any(not isinstance(row[by], (int, float)) for row in held):
            raise ValueError(f"column {by!r} of the layer table holds no numbers to rank by")
        return LayerTable(sorted((row for row in held if _is_at(row, depth)), key=lambda row: -row[by])[:k])

    def by_type(self, depth: int | None = None) -> LayerTable:
        """Return one row for each type of layer: how many there are, and what they do together.

        Without a depth these are sums of what each layer does itself, so that all types together are the whole model.
        At a depth they are sums over the layers there, with all that is inside them. The sums are those of the columns
        that the table has both ways, ``macs`` and ``own_macs`` for one. Weights that layers share count for each type.
        """
        first = self._rows[0] if self._rows else {}
        columns = [name for name in first if f"own_{name}" in first]
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for row in self._rows:
            if depth is None or row["depth"] == depth:
                groups.setdefault(row["type"], []).append(row)
        return LayerTable(
            {
                "type": kind,
                "layers": len(rows),
                "calls": sum(row.get("calls", 1) for row in rows),
                **{name: _total(rows, name if depth is not None else f"own_{name}") for name in columns},
            }
            for kind, rows in groups.items()
        )

    def __repr__(self) -> str:
        return f"LayerTable({len(self)} layers)"


def _is_at(row: Mapping[str, Any], depth: int | None) -> bool:
    if depth is None:
        return bool(row.get("is_leaf", True))
    return "depth" not in row or bool(row["depth"] == depth)


def _total(rows: Iterable[Mapping[str, Any]], column: str) -> Any:
    """Return the sum of a column; None where no row has a value there."""
    values = [row[column] for row in rows if row[column] is not None]
    return sum(values) if values else None


def _calls(number: int) -> str:
    return f"{number} call{'s' if number > 1 else ''}"


def distinct(weights: Iterable[WeightRecord]) -> tuple[WeightRecord, ...]:
    """Return each weight once, tied ones as the first that was met."""
    first: dict[int, WeightRecord] = {}
    for weight in weights:
        first.setdefault(weight.identity, weight)
    return tuple(first.values())


def parent_path(path: str) -> str | None:
    """Return the path of the layer around a layer, or None for the root."""
    return path.rpartition(".")[0] if path else None


def _operator_rows(operators: Iterable[OpRecord], live: tuple[int, ...]) -> Iterator[Mapping[str, Any]]:
    for place, op in enumerate(operators):
        yield {
            **{name: getattr(op, name) for name in _OPERATOR_COLUMNS},
            "live_bytes": live[place] if place < len(live) else None,
        }


_OPERATOR_COLUMNS = ("operator", "layer", "call", "phase", "macs", "flops", "bytes_read", "bytes_written")


def _rows(trace: ModelTrace) -> Iterator[Mapping[str, Any]]:
    own: dict[str, list[int]] = {layer.path: [0, 0] for layer in trace.layers}
    for op in trace.operators:
        own[op.layer][0] += op.macs
        own[op.layer][1] += op.flops
    whole = {path: list(work) for path, work in own.items()}
    weights = {layer.path: {w.identity: w.count for w in layer.parameters} for layer in trace.layers}
    parents: set[str] = set()
    for layer in sorted(trace.layers, key=lambda layer: -layer.depth):
        parent = parent_path(layer.path)
        if parent is None:
            continue
        parents.add(parent)
        whole[parent] = [mine + theirs for mine, theirs in zip(whole[parent], whole[layer.path], strict=True)]
        weights[parent].update(weights[layer.path])
    for layer in trace.layers:
        yield {
            "path": layer.path,
            "type": layer.type,
            "depth": layer.depth,
            "is_leaf": layer.path not in parents,
            "calls": len(layer.calls),
            "params": sum(weights[layer.path].values()),
            "macs": whole[layer.path][0],
            "flops": whole[layer.path][1],
            "own_macs": own[layer.path][0],
            "own_flops": own[layer.path][1],
            "input_shapes": tuple(info.shape for info in layer.calls[0].inputs) if layer.calls else (),
            "output_shapes": tuple(info.shape for info in layer.calls[0].outputs) if layer.calls else (),
        }
