"""An ONNX file without the elements of its large weights, which no count needs: they stay in the file until a run.

A file is one protobuf message with messages inside, and each field has its length in front. So the elements of a weight
are skipped without reading them, and each message around them gets a new length. Protobuf parses the result. Source:
"Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, BinaryIO, NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from .nodes import list_inner_graphs
from .types import LARGEST

__all__ = ["LEFT", "MalformedError", "fill_elements", "list_tensors", "with_elements", "without_elements"]

#: The location of elements that were left in the file of the model itself. No file can know this name.
LEFT = f"profilerkit.left.{secrets.token_hex(16)}"
_DESCRIPTORS: Any = ModelProto.DESCRIPTOR, GraphProto.DESCRIPTOR, TensorProto.DESCRIPTOR
#: The fields that lead from a model to its weights: its graph, and the initializers of this.
_TO_WEIGHTS = (
    _DESCRIPTORS[0].fields_by_name["graph"].number,
    _DESCRIPTORS[1].fields_by_name["initializer"].number,
)
#: The names of the fields of a tensor.
_TENSOR_FIELDS = {number: field.name for number, field in _DESCRIPTORS[2].fields_by_number.items()}
#: The longest elements of a tensor whose values are looked at: numbers of 16 bytes.
_LARGE = 16 * LARGEST
#: How many bytes are read at once to find fields: keys and lengths stand close together, the elements far apart.
_WINDOW = 1 << 14
#: How the body of a field is written: a number of as many bytes as it needs, of 8 or 4 bytes, or a length before it.
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class MalformedError(Exception):
    """A file is no message of protobuf's, or is written in an unusual way."""


def without_elements(file: BinaryIO) -> bytes:
    """Return the bytes of a file without the elements of large weights, as exporters write them: raw data.

    Each of these weights gets external data at the location `LEFT`: the offset and the length of its elements. Raises
    `MalformedError` for a file that protobuf would refuse, and for encodings that no exporter writes; protobuf then has
    to read the whole file.
    """
    reader = _Reader(file)
    shortened = reader.shorten_message(0, reader.size, _TO_WEIGHTS)
    return reader.read(0, reader.size) if shortened is None else shortened


def with_elements(model: ModelProto, file: BinaryIO) -> ModelProto:
    """Return a copy of a model with the elements that were left in its file; `MalformedError` if they are not there."""
    copy = deepcopy(model)
    for tensor in copy.graph.initializer:
        fill_elements(tensor, file)
    return copy


def fill_elements(tensor: TensorProto, file: BinaryIO) -> None:
    """Put the elements that were left in the file into a tensor; any other tensor stays as it is.

    Raises `MalformedError` if they are not there.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if entries.get("location") == LEFT:
        start = int(entries["offset"])
        tensor.raw_data = _Reader(file).read(start, start + int(entries["length"]))
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")


def list_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of a model: of its graph, of the graphs inside, and of its functions."""
    yield from _list_in_graph(model.graph)
    for function in model.functions:
        yield from _list_in_nodes(function.node)


def _list_in_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _list_in_nodes(graph.node)


def _list_in_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            for sparse in attribute.sparse_tensors:
                yield from (sparse.values, sparse.indices)
        for inner in list_inner_graphs(node):
            yield from _list_in_graph(inner)


class _Field(NamedTuple):
    """A field of a message: its number, and the offsets of its key, of its body, and of the first byte after it."""

    number: int
    key: int
    body: int
    end: int

    @property
    def size(self) -> int:
        """The bytes of its body."""
        return self.end - self.body


class _Reader:
    """Reads a file in windows: the fields of messages, without the bodies of large ones."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.window, self.start = b"", 0

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from one offset to another."""
        self.file.seek(start)
        data = self.file.read(end - start)
        if len(data) != end - start:
            raise MalformedError("the file is shorter than it was")
        return data

    def read_byte(self, at: int) -> int:
        """Return the byte at an offset, and read the window that begins there if it is not in the last one."""
        index = at - self.start
        if not 0 <= index < len(self.window):
            self.start, index = at, 0
            self.window = self.read(at, min(at + _WINDOW, self.size))
        return self.window[index]

    def read_number(self, at: int, end: int) -> tuple[int, int]:
        """Return the number at an offset, and the offset after it: the other way round than `_write_number`."""
        value = shift = 0
        while at < end and shift < 64:
            byte = self.read_byte(at)
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
        raise MalformedError("a number that does not end")

    def read_fields(self, start: int, end: int) -> Iterator[_Field]:
        """Yield the fields of the message from one offset to another."""
        at = start
        while at < end:
            key_at = at
            key, at = self.read_number(at, end)
            number, kind = key >> 3, key & 7
            body = at
            if kind == _LENGTH:
                length, body = self.read_number(at, end)
                at = body + length
            elif kind == _VARINT:
                _, at = self.read_number(at, end)
            elif kind in (_FIXED32, _FIXED64):
                at += 4 if kind == _FIXED32 else 8
            else:
                raise MalformedError("a field of an unknown kind")
            if at > end or not number:
                raise MalformedError("a field that is longer than its message")
            yield _Field(number, key_at, body, at)

    def shorten_message(self, start: int, end: int, path: Sequence[int]) -> bytes | None:
        """Return the bytes of a message without the elements of the large tensors to which fields lead; None for none.

        ``path`` has the numbers of these fields, from message to message; without any, the message is a tensor.
        """
        if not path:
            return self.shorten_tensor(start, end)
        parts, kept_from = list[bytes](), start
        for field in self.read_fields(start, end):
            if field.number == path[0] and field.size > _LARGE:
                body = self.shorten_message(field.body, field.end, path[1:])
                if body is not None:
                    parts += [self.read(kept_from, field.key), _write_key(field.number), _write_number(len(body)), body]
                    kept_from = field.end
        return b"".join([*parts, self.read(kept_from, end)]) if parts else None

    def shorten_tensor(self, start: int, end: int) -> bytes | None:
        """Return the bytes of a large tensor without its elements, and with their place; None for any other tensor.

        None too if the elements are in another field than the raw data, in several, or in another file.
        """
        fields = [(_TENSOR_FIELDS.get(field.number, ""), field) for field in self.read_fields(start, end)]
        data = [(name, field) for name, field in fields if name.endswith("_data") or name == "data_location"]
        name, elements = data[0] if len(data) == 1 else ("", None)
        if elements is None or name != "raw_data" or elements.size <= _LARGE:
            return None
        entry = TensorProto(data_location=TensorProto.EXTERNAL)
        for key, value in (("location", LEFT), ("offset", elements.body), ("length", elements.size)):
            entry.external_data.add(key=key, value=str(value))
        return self.read(start, elements.key) + self.read(elements.end, end) + bytes(entry.SerializeToString())


def _write_key(number: int) -> bytes:
    """Return the key of a field whose body has its length before it."""
    return _write_number(number << 3 | _LENGTH)


def _write_number(value: int) -> bytes:
    """Return a number as protobuf writes it: seven bits in each byte, the lowest first."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
