"""The contents of a LiteRT file: graphs of operators and tensors, and the signatures by which they are called.

All indices are indices of the file, and valid, except for options that name a graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from profilerkit.backend_kit.numpy_data import widen_bfloat16
from profilerkit.process.cached import cached_property

__all__ = ["LARGEST", "Graph", "Operator", "Quantization", "Signature", "Tensor"]

#: The most elements of a tensor whose values are read, or kept by the walk: shapes and indices have fewer.
LARGEST = 4096

#: The options that name the graphs which an operator holds.
_GRAPHS = {
    "CALL": ("subgraph",),
    "CALL_ONCE": ("initSubgraphIndex",),
    "IF": ("thenSubgraphIndex", "elseSubgraphIndex"),
    "STABLEHLO_COMPOSITE": ("decompositionSubgraphIndex",),
    "STABLEHLO_REDUCE_WINDOW": ("bodySubgraphIndex",),
    "STABLEHLO_SCATTER": ("updateComputationSubgraphIndex",),
    "STABLEHLO_WHILE": ("condSubgraphIndex", "bodySubgraphIndex"),
    "WHILE": ("condSubgraphIndex", "bodySubgraphIndex"),
}


class Quantization(NamedTuple):
    """The numbers that the integers of a tensor stand for: ``(integer - zero_point) * scale``.

    There is one scale and one zero point for the whole tensor, or for each index of one dimension; there is none if the
    integers stand for themselves.
    """

    scales: Sequence[float]
    zero_points: Sequence[int]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor as a graph declares it.

    Attributes:
        name: Its name, which tells the layer that made it.
        dtype: The name of its dtype: "int8".
        shape: Its sizes, None for an open size.
        buffer: The index of its buffer: tensors of one buffer are tied.
        data: The bytes of a constant; None for a computed tensor.
        quantization: The numbers that its integers stand for.
        is_variable: Whether it keeps a state from one call to the next.
        is_sparse: Whether its zeros are left out of the data.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    buffer: int
    data: Any
    quantization: Quantization
    is_variable: bool
    is_sparse: bool

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """Its shape if all of it is declared; otherwise None."""
        sizes = tuple(size for size in self.shape if size is not None)
        return sizes if len(sizes) == len(self.shape) else None

    @property
    def is_weight(self) -> bool:
        """Whether it is a constant of floating-point numbers, or of integers that have scales."""
        return self.data is not None and (self.dtype.startswith(("float", "bfloat")) or bool(self.quantization.scales))

    @cached_property
    def array(self) -> np.ndarray[Any, Any] | None:
        """The values of a small constant of numbers, those of bfloat16 in float32; None for all else."""
        if self.data is None or self.is_sparse or math.prod(self.sizes or ()) > LARGEST:
            return None
        try:
            if self.dtype == "bfloat16":  # which numpy lacks, unless a package has added it
                return widen_bfloat16(np.frombuffer(self.data.tobytes(), np.uint16)).reshape(self.sizes or ())
            return np.frombuffer(self.data.tobytes(), self.dtype).reshape(self.sizes or ())
        except (TypeError, ValueError):  # texts, and dtypes that numpy lacks
            return None


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a graph.

    Attributes:
        name: Its name in the schema: "CONV_2D"; of a custom one its own name.
        inputs: The indices of the tensors that it reads; -1 for an optional tensor that is left out.
        outputs: The indices of the tensors that it makes.
        options: Its options, an object of the schema; None if the file has none.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option by its name in the schema's Python classes; the default if the file has none."""
        return getattr(self.options, name, default)

    @cached_property
    def graphs(self) -> tuple[int, ...]:
        """The indices of the graphs that it holds: of an IF both branches, of a WHILE the condition and the body."""
        return tuple(int(self.option(name, -1)) for name in _GRAPHS.get(self.name, ()))


@dataclass(frozen=True, eq=False)
class Graph:
    """A subgraph of a file."""

    name: str
    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True)
class Signature:
    """An entry into a model: its graph, and the names of the graph's inputs and outputs, in the order of the graph."""

    key: str | None
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
