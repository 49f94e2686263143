"""Files of LiteRT, read from bytes that may come from anybody.

The flatbuffer is read by LiteRT's own schema. All indices and sizes in it are checked here, so that no later step meets
an invalid index or size.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from profilerkit import ArgumentError, InputError
from profilerkit.backend_kit.graph_work import UNSIZED, count_bytes
from profilerkit.backend_kit.numpy_data import number_names

from .graphs import Graph, Operator, Quantization, Signature, Tensor

__all__ = ["LiteRTModel", "open_model"]

_IDENTIFIER = b"TFL3"
_OPERATORS = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
_DTYPES = {number: name.lower() for name, number in vars(schema.TensorType).items() if isinstance(number, int)}


class _DamagedError(Exception):
    """A file contradicts itself or the format."""


class LiteRTModel:
    """A model of a ``.tflite`` file.

    Args:
        content: The bytes of the file.
        name: Its name in reports.

    Attributes:
        graphs: Its graphs; the first is the main one.
        signatures: Its entries, by their keys.
        signature: The entry that is profiled: the first, unless `with_signature` has chosen another.

    Raises `InputError` for bytes that are no such file, or damaged.

    >>> LiteRTModel(b"PK")
    Traceback (most recent call last):
    profilerkit.errors.InputError: model.tflite is no file of LiteRT: it does not begin as one; convert the model again
    """

    def __init__(self, content: bytes, name: str = "model.tflite") -> None:
        self.content = content
        self.name = name
        if content[4:8] != _IDENTIFIER:
            raise InputError(f"{name} is no file of LiteRT: it does not begin as one; convert the model again")
        try:
            _require_bytes_for_all(content)
            file = schema.ModelT.InitFromPackedBuf(content, 0)
            self.graphs: Sequence[Graph] = _GraphReader(content, file).read_graphs()
            entries = [_read_signature(entry, self.graphs) for entry in file.signatureDefs or ()]
        except MemoryError:
            raise
        except Exception as error:  # whatever damaged bytes lead to, in the code that the schema generates too
            raise InputError(
                f"{name} is damaged: {str(error) or type(error).__name__}; convert the model again"
            ) from error
        self.signatures: Mapping[str, Signature] = {str(entry.key): entry for entry in entries}
        self.signature = entries[0] if entries else _make_signature(None, 0, self.graphs[0])

    def __repr__(self) -> str:
        return f"LiteRTModel(name={self.name!r})"

    def with_signature(self, key: str) -> LiteRTModel:
        """Return the model with another entry; an unknown key raises `ArgumentError` with the known keys."""
        if key not in self.signatures:
            keys = ", ".join(map(repr, self.signatures)) or "none"
            raise ArgumentError(f"key={key!r}: the model has no such signature; its signatures are: {keys}")
        twin = copy(self)
        twin.signature = self.signatures[key]
        return twin


def open_model(model: Any) -> Any:
    """Return the model in a file or in the bytes of a file; anything else as it is.

    Raises `InputError` for a path without a file, and the errors of `LiteRTModel`.
    """
    if isinstance(model, (bytes, bytearray)):
        return LiteRTModel(bytes(model))
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(os.fsdecode(model))
    if not path.is_file():
        raise InputError(f"the path {str(path)!r} does not exist or is no file; give the path of a .tflite file")
    return LiteRTModel(path.read_bytes(), path.name)


def _require_bytes_for_all(content: bytes) -> None:
    """Raise `_DamagedError` if the vectors of a file claim more entries than it has bytes.

    Entries that several tables share would be read once for each: a small file could keep a reader busy for days.
    """
    bytes_left = len(content)
    for entries in _count_entries(schema.Model.GetRootAs(content, 0)):
        bytes_left -= entries
        if bytes_left <= 0:
            raise _DamagedError("its parts claim more entries than it has bytes")


def _count_entries(model: Any) -> Iterator[int]:
    """Yield how many entries each part of a file claims to have, part by part."""
    yield model.BuffersLength() + model.OperatorCodesLength() + model.MetadataLength()
    for index in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(index)
        yield 1 + signature.InputsLength() + signature.OutputsLength()
    for index in range(model.SubgraphsLength()):
        graph = model.Subgraphs(index)
        yield 1 + graph.TensorsLength() + graph.OperatorsLength()
        for number in range(graph.TensorsLength()):
            tensor = graph.Tensors(number)
            yield tensor.VariantTensorsLength()
            yield 0 if tensor.Sparsity() is None else tensor.Sparsity().DimMetadataLength()


@dataclass(frozen=True)
class _GraphReader:
    """Reads the graphs of a file: ``file`` is a ``ModelT`` of the schema, made of the bytes of ``content``."""

    content: bytes
    file: Any

    def read_graphs(self) -> list[Graph]:
        """Return all graphs; raise `_DamagedError` if there is none, or if the file is damaged."""
        graphs = [self._read_graph(graph) for graph in self.file.subgraphs or ()]
        if not graphs:
            raise _DamagedError("it holds no graph")
        return graphs

    def _read_graph(self, graph: Any) -> Graph:
        tensors = [self._read_tensor(tensor) for tensor in graph.tensors or ()]
        operators = [self._read_operator(operator, len(tensors)) for operator in graph.operators or ()]
        inputs, outputs = (_read_indices(indices, len(tensors)) for indices in (graph.inputs, graph.outputs))
        return Graph(_decode(graph.name), tensors, operators, inputs, outputs)

    def _read_tensor(self, packed: Any) -> Tensor:
        name = _decode(packed.name)
        if packed.type not in _DTYPES:
            raise _DamagedError(f"the tensor {name!r} has the unknown dtype {packed.type}")
        tensor = Tensor(
            name=name,
            dtype=_DTYPES[packed.type],
            shape=_read_shape(packed, name),
            buffer=packed.buffer,
            data=self._read_data(packed.buffer),
            quantization=_read_quantization(packed.quantization),
            is_variable=bool(packed.isVariable),
            is_sparse=packed.sparsity is not None,
        )
        _require_all_values(tensor)
        return tensor

    def _read_data(self, index: int) -> Any:
        """Return the bytes of a buffer; None for one without any.

        In files above 2 GB they lie behind the flatbuffer, at an offset; an offset of 0 or 1 means that they do not.
        """
        buffers = self.file.buffers or [None]
        if not 0 <= index < len(buffers):
            raise _DamagedError(f"it has no buffer {index}")
        buffer = buffers[index]
        if buffer is None:
            return None
        if buffer.offset <= 1:
            return None if buffer.data is None or not len(buffer.data) else buffer.data
        if buffer.offset + buffer.size > len(self.content):
            raise _DamagedError(f"its buffer {index} ends behind the end of the file")
        return np.frombuffer(self.content, np.uint8, buffer.size, buffer.offset)

    def _read_operator(self, operator: Any, tensors: int) -> Operator:
        """Return an operator of a graph with so many tensors."""
        inputs = _read_indices(operator.inputs, tensors, may_lack=True)
        outputs = _read_indices(operator.outputs, tensors, may_lack=True)
        options = operator.builtinOptions2 if operator.builtinOptions is None else operator.builtinOptions
        return Operator(self._read_operator_name(operator.opcodeIndex), inputs, outputs, options)

    def _read_operator_name(self, index: int) -> str:
        """Return the name of an operator, which stands in a table of the file."""
        codes = self.file.operatorCodes or ()
        if not 0 <= index < len(codes):
            raise _DamagedError(f"it has no operator code {index}")
        code = codes[index]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)  # the second ends at 127; old files have it alone
        if number not in _OPERATORS:
            raise _DamagedError(f"its operator {number} is unknown to the installed ai-edge-litert")
        name = _OPERATORS[number]
        return (_decode(code.customCode) or name) if name == "CUSTOM" else name


def _read_shape(packed: Any, name: str) -> tuple[int | None, ...]:
    """Return the sizes of a tensor, None for open sizes: the signature of the shape tells which sizes are open."""
    sizes, signature = _list(packed.shape), _list(packed.shapeSignature)
    if len(signature) == len(sizes):
        sizes = [-1 if declared == -1 else size for size, declared in zip(sizes, signature, strict=True)]
    if any(size < -1 for size in sizes):
        raise _DamagedError(f"the tensor {name!r} has a size below zero")
    return tuple(None if size == -1 else size for size in sizes)


def _read_quantization(packed: Any) -> Quantization:
    if packed is None:
        return Quantization((), ())
    scales = () if packed.scale is None else tuple(map(float, packed.scale))
    return Quantization(scales, tuple(_list(packed.zeroPoint)))


def _require_all_values(tensor: Tensor) -> None:
    """Raise `_DamagedError` for a constant with another number of bytes than its shape and dtype take."""
    if tensor.data is None or tensor.is_sparse or tensor.dtype in UNSIZED:
        return
    sizes = tensor.sizes
    if sizes is None or len(tensor.data) != count_bytes(math.prod(sizes), tensor.dtype):
        shape = tuple(-1 if size is None else size for size in tensor.shape)
        raise _DamagedError(f"the tensor {tensor.name!r} of shape {shape} has {len(tensor.data)} bytes of values")


def _read_indices(packed: Any, tensors: int, *, may_lack: bool = False) -> tuple[int, ...]:
    """Return indices into so many tensors; -1, for a missing tensor, may be among them only if ``may_lack``."""
    indices = tuple(_list(packed))
    for index in indices:
        if not (0 <= index < tensors or (may_lack and index == -1)):
            raise _DamagedError(f"it has no tensor {index}")
    return indices


def _read_signature(packed: Any, graphs: Sequence[Graph]) -> Signature:
    index = packed.subgraphIndex
    if not 0 <= index < len(graphs):
        raise _DamagedError(f"it has no graph {index}")
    return _make_signature(_decode(packed.signatureKey), index, graphs[index], packed.inputs, packed.outputs)


def _make_signature(
    key: str | None, index: int, graph: Graph, inputs: Iterable[Any] | None = None, outputs: Iterable[Any] | None = None
) -> Signature:
    """Return the signature of a graph; ``inputs`` and ``outputs`` are the names that the file has for its tensors."""
    return Signature(
        key, index, _name_tensors(graph, graph.inputs, inputs), _name_tensors(graph, graph.outputs, outputs)
    )


def _name_tensors(graph: Graph, tensors: Sequence[int], packed: Iterable[Any] | None) -> dict[str, int]:
    """Return tensors by their names in a signature, or else by their own names, in the order of the graph.

    A further tensor of the same name gets a number behind it.
    """
    names = {item.tensorIndex: _decode(item.name) for item in packed or ()}
    distinct = list(dict.fromkeys(tensors))
    numbered = number_names(names.get(tensor) or graph.tensors[tensor].name for tensor in distinct)
    return dict(zip(numbered, distinct, strict=True))


def _decode(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""


def _list(numbers: Any) -> list[int]:
    return [] if numbers is None else [int(number) for number in numbers]
