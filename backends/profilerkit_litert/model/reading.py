"""Files of LiteRT: graphs, operators and tensors, read from bytes that may come from anybody.

The flatbuffer is read by LiteRT's own schema. All indices and sizes in it are checked here, so that no later step meets
one that leads nowhere.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from profilerkit import ArgumentError, InputError
from profilerkit.process.cached import cached_property
from profilerkit.trace.dtypes import element_bytes

__all__ = ["Graph", "LiteRTModel", "Operator", "Quantization", "Signature", "Tensor", "open_model"]

_IDENTIFIER = b"TFL3"
_OPERATORS = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
_DTYPES = {number: name.lower() for name, number in vars(schema.TensorType).items() if isinstance(number, int)}
#: Dtypes whose elements have no fixed size in the file.
_UNSIZED = ("string", "resource", "variant")
#: The most elements of a constant whose values are read: shapes and indices have fewer.
_LARGEST = 4096

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


class DamagedError(Exception):
    """A file says what cannot be."""


class Quantization(NamedTuple):
    """What the integers of a tensor stand for: ``(integer - zero_point) * scale``.

    There is one scale and one zero point for the whole tensor, or one of each for every index of one dimension.
    """

    scales: Sequence[float] = ()
    zero_points: Sequence[int] = ()


#: Of a tensor whose elements stand for themselves.
UNQUANTIZED = Quantization()


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor as a graph declares it.

    Attributes:
        name: Its name, which tells the layer that made it.
        dtype: The name of its dtype: "int8".
        shape: Its sizes, None for one that is open; None if the number of dimensions is open.
        buffer: The index of its buffer: tensors of one buffer are tied.
        data: The bytes of a constant; None for what is computed.
        quantization: The numbers that its integers stand for; without scales where they stand for themselves.
        is_variable: Whether it keeps a state from one call to the next.
        is_sparse: Whether its zeros are left out of the data.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    buffer: int = 0
    data: Any = None
    quantization: Quantization = UNQUANTIZED
    is_variable: bool = False
    is_sparse: bool = False

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """Its shape where all of it is declared; otherwise None."""
        shape = self.shape
        return None if shape is None or None in shape else tuple(size or 0 for size in shape)

    @property
    def is_weight(self) -> bool:
        """Whether it is a constant of floating-point numbers, or of integers that have scales."""
        return self.data is not None and (self.dtype.startswith(("float", "bfloat")) or bool(self.quantization.scales))

    @cached_property
    def array(self) -> np.ndarray[Any, Any] | None:
        """The values of a small constant of numbers; None for all else."""
        if self.data is None or self.is_sparse or math.prod(self.sizes or ()) > _LARGEST:
            return None
        try:
            return np.frombuffer(self.data.tobytes(), self.dtype).reshape(self.sizes or ())
        except (TypeError, ValueError):  # texts, and dtypes that numpy lacks
            return None


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of a graph.

    Attributes:
        name: Its name in the schema: "CONV_2D"; of a custom one its own name.
        inputs: The indices of the tensors that it reads; -1 for an optional one that is left out.
        outputs: The indices of the tensors that it makes.
        options: Its options, an object of the schema; None where the file has none.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any = None

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option by its name in the schema's Python classes; the default where the file has none."""
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


@dataclass(frozen=True, eq=False)
class LiteRTModel:
    """A model of a ``.tflite`` file.

    Args:
        content: The bytes of the file.
        name: What reports call it.

    Attributes:
        graphs: Its graphs; the first is the main one.
        signatures: Its entries, by their keys.
        signature: The entry that is profiled: the first, unless `with_signature` has chosen another.

    Raises `InputError` for bytes that are no such file, or damaged.

    >>> LiteRTModel(b"PK")
    Traceback (most recent call last):
    profilerkit.errors.InputError: model.tflite is no file of LiteRT: it does not begin as one; convert the model again
    """

    content: bytes = field(repr=False)
    name: str = "model.tflite"
    graphs: Sequence[Graph] = field(init=False, repr=False)
    signatures: Mapping[str, Signature] = field(init=False, repr=False)
    signature: Signature = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.content[4:8] != _IDENTIFIER:
            raise InputError(f"{self.name} is no file of LiteRT: it does not begin as one; convert the model again")
        try:
            _require_sane(self.content)
            model = schema.ModelT.InitFromPackedBuf(self.content, 0)
            graphs = [_read_graph(model, graph, self.content) for graph in model.subgraphs or ()]
            signatures = [_read_signature(entry, graphs) for entry in model.signatureDefs or ()]
            if not graphs:
                raise DamagedError("it holds no graph")
        except MemoryError:
            raise
        except Exception as error:  # whatever damaged bytes lead to, in the code that the schema generates too
            raise InputError(
                f"{self.name} is damaged: {str(error) or type(error).__name__}; convert the model again"
            ) from error
        first = signatures[0] if signatures else _name_signature(None, 0, graphs[0], {}, {})
        object.__setattr__(self, "graphs", graphs)
        object.__setattr__(self, "signatures", {str(entry.key): entry for entry in signatures})
        object.__setattr__(self, "signature", first)

    def with_signature(self, key: str) -> LiteRTModel:
        """Return the model with another entry; an unknown key raises `ArgumentError` with those that there are."""
        if key not in self.signatures:
            keys = ", ".join(map(repr, self.signatures)) or "none"
            raise ArgumentError(f"key={key!r}: the model has no such signature; its signatures are: {keys}")
        twin = replace(self)
        object.__setattr__(twin, "signature", self.signatures[key])
        return twin


def open_model(model: Any) -> Any:
    """Return the model in a file or in the bytes of one; anything else as it is.

    Raises `InputError` for a path where no file is, and as `LiteRTModel` does.
    """
    if isinstance(model, (bytes, bytearray)):
        return LiteRTModel(bytes(model))
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(os.fsdecode(model))
    if not path.is_file():
        raise InputError(f"the path {str(path)!r} does not exist or is no file; give the path of a .tflite file")
    return LiteRTModel(path.read_bytes(), path.name)


def _require_sane(content: bytes) -> None:
    """Raise `DamagedError` if the vectors of a file claim more entries than it has bytes.

    Entries that several tables share would be read once for each: a small file could keep a reader busy for days.
    """
    model = schema.Model.GetRootAs(content, 0)
    left = len(content) - model.BuffersLength() - model.OperatorCodesLength() - model.MetadataLength()
    for number in range(model.SignatureDefsLength() if left > 0 else 0):
        signature = model.SignatureDefs(number)
        left -= 1 + signature.InputsLength() + signature.OutputsLength()
    for number in range(model.SubgraphsLength() if left > 0 else 0):
        graph = model.Subgraphs(number)
        left -= 1 + graph.TensorsLength() + graph.OperatorsLength()
        for index in range(graph.TensorsLength() if left > 0 else 0):
            tensor = graph.Tensors(index)
            sparsity = tensor.Sparsity()
            left -= tensor.VariantTensorsLength() + (sparsity.DimMetadataLength() if sparsity is not None else 0)
        if left <= 0:
            break
    if left <= 0:
        raise DamagedError("its parts claim more entries than it has bytes")


def _read_graph(model: Any, graph: Any, content: bytes) -> Graph:
    tensors = [_read_tensor(model, tensor, content) for tensor in graph.tensors or ()]
    operators = [_read_operator(model, operator, len(tensors)) for operator in graph.operators or ()]
    inputs, outputs = (_read_indices(indices, len(tensors)) for indices in (graph.inputs, graph.outputs))
    return Graph(_decode(graph.name), tensors, operators, inputs, outputs)


def _read_tensor(model: Any, tensor: Any, content: bytes) -> Tensor:
    name = _decode(tensor.name)
    if tensor.type not in _DTYPES:
        raise DamagedError(f"the tensor {name!r} has the unknown dtype {tensor.type}")
    read = Tensor(
        name=name,
        dtype=_DTYPES[tensor.type],
        shape=_read_shape(tensor, name),
        buffer=tensor.buffer,
        data=_read_data(model, tensor.buffer, content),
        quantization=_read_quantization(tensor.quantization),
        is_variable=bool(tensor.isVariable),
        is_sparse=tensor.sparsity is not None,
    )
    _require_all_values(read)
    return read


def _read_shape(tensor: Any, name: str) -> tuple[int | None, ...]:
    """Return the sizes of a tensor, None for those that are open: the signature of the shape tells which are."""
    sizes, signature = _list(tensor.shape), _list(tensor.shapeSignature)
    if len(signature) == len(sizes):
        sizes = [size if declared != -1 else -1 for size, declared in zip(sizes, signature, strict=True)]
    if any(size < -1 for size in sizes):
        raise DamagedError(f"the tensor {name!r} has a size below zero")
    return tuple(None if size == -1 else size for size in sizes)


def _read_quantization(quantization: Any) -> Quantization:
    if quantization is None:
        return UNQUANTIZED
    scales = () if quantization.scale is None else tuple(map(float, quantization.scale))
    return Quantization(scales, tuple(_list(quantization.zeroPoint)))


def _require_all_values(tensor: Tensor) -> None:
    """Raise `DamagedError` for a constant whose bytes are not those that its shape and dtype take."""
    if tensor.data is None or tensor.is_sparse or tensor.dtype in _UNSIZED:
        return
    is_whole = tensor.sizes is not None and len(tensor.data) == math.ceil(
        math.prod(tensor.sizes) * element_bytes(tensor.dtype)
    )
    if not is_whole:
        shape = tuple(-1 if size is None else size for size in tensor.shape or ())
        raise DamagedError(f"the tensor {tensor.name!r} of shape {shape} has {len(tensor.data)} bytes of values")


def _read_data(model: Any, index: int, content: bytes) -> Any:
    """Return the bytes of a buffer; of one that lies behind the flatbuffer, as in files above 2 GB, those there."""
    buffers = model.buffers or ()
    if not 0 <= index < max(len(buffers), 1):
        raise DamagedError(f"it has no buffer {index}")
    buffer = buffers[index] if buffers else None
    if buffer is None or (buffer.data is None and buffer.offset <= 1):
        return None
    if buffer.offset <= 1:
        return buffer.data if len(buffer.data) else None
    if buffer.offset + buffer.size > len(content):
        raise DamagedError(f"its buffer {index} ends behind the end of the file")
    return np.frombuffer(content, np.uint8, buffer.size, buffer.offset)


def _read_operator(model: Any, operator: Any, tensors: int) -> Operator:
    codes = model.operatorCodes or ()
    if not 0 <= operator.opcodeIndex < len(codes):
        raise DamagedError(f"it has no operator code {operator.opcodeIndex}")
    code = codes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number not in _OPERATORS:
        raise DamagedError(f"its operator {number} is unknown to the installed ai-edge-litert")
    name = _OPERATORS[number]
    inputs, outputs = (_read_indices(indices, tensors, -1) for indices in (operator.inputs, operator.outputs))
    options = operator.builtinOptions if operator.builtinOptions is not None else operator.builtinOptions2
    return Operator(_decode(code.customCode) or name if name == "CUSTOM" else name, inputs, outputs, options)


def _read_indices(indices: Any, tensors: int, least: int = 0) -> tuple[int, ...]:
    read = tuple(_list(indices))
    wrong = [index for index in read if not least <= index < tensors]
    if wrong:
        raise DamagedError(f"it has no tensor {wrong[0]}")
    return read


def _read_signature(entry: Any, graphs: Sequence[Graph]) -> Signature:
    if not 0 <= entry.subgraphIndex < len(graphs):
        raise DamagedError(f"it has no graph {entry.subgraphIndex}")
    inputs, outputs = (
        {item.tensorIndex: _decode(item.name) for item in side or ()} for side in (entry.inputs, entry.outputs)
    )
    return _name_signature(
        _decode(entry.signatureKey), entry.subgraphIndex, graphs[entry.subgraphIndex], inputs, outputs
    )


def _name_signature(
    key: str | None, index: int, graph: Graph, inputs: Mapping[int, str], outputs: Mapping[int, str]
) -> Signature:
    """Return a signature in the order of its graph; tensors that it does not name have their own names."""
    sides = (
        {names.get(tensor) or graph.tensors[tensor].name: tensor for tensor in tensors}
        for names, tensors in ((inputs, graph.inputs), (outputs, graph.outputs))
    )
    return Signature(key, index, *sides)


def _decode(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""


def _list(numbers: Any) -> list[int]:
    return [] if numbers is None else [int(number) for number in numbers]
