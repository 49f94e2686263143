"""An ONNX file without the elements of its large tensors, which no count needs: they stay in the file until a run.

A file holds one message of protobuf's, messages inside messages, each field with its length before it. So the large
ones are passed over, not read. Source: "Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeAlias

from onnx import ModelProto, TensorProto

from .external_data import LEFT, list_tensors
from .types import LARGEST

__all__ = ["MalformedError", "copy_tensor", "fill", "with_elements", "without_elements"]

#: The fields that hold the elements of a tensor, by the bytes of one of them. Of the others no length is wrong or
#: right by itself; exporters write no large tensor into them.
_ELEMENTS = {"raw_data": 1, "float_data": 4, "double_data": 8}
#: The messages whose tensors are read: nothing of them is used.
_READ = ("training_info",)
#: The longest elements of a tensor whose values are looked at: numbers of 16 bytes.
_LARGE = 16 * LARGEST
#: How many bytes are read at once.
_WINDOW = 1 << 14
#: How many messages protobuf allows inside each other.
_DEPTH = 100
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_DESCRIPTOR: Any = ModelProto.DESCRIPTOR
_TENSOR = TensorProto.DESCRIPTOR.full_name
#: What is kept of the file: bytes of our own, or the part of the file from one place to another.
_Piece: TypeAlias = "bytes | tuple[int, int]"


class MalformedError(Exception):
    """A file is no message of protobuf's, or one that is written in an unusual way."""


def without_elements(file: BinaryIO) -> bytes:
    """Return the bytes of a file without the elements of large tensors.

    Each of these tensors gets external data at the location `LEFT`: the field, the offset and the length of its
    elements. Raises `MalformedError` for what protobuf would refuse, and for encodings that no exporter writes; these
    are to be read as a whole.
    """
    reader = _Reader(file)
    pieces = list(reader.pieces(_DESCRIPTOR, 0, reader.size, 0))
    return b"".join(reader.read(piece) for piece in pieces)


def with_elements(model: ModelProto, file: BinaryIO) -> ModelProto:
    """Return a copy of a model with the elements that were left in its file; `MalformedError` if they are not there."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in list_tensors(copy):
        fill(tensor, file)
    return copy


def copy_tensor(tensor: TensorProto) -> TensorProto:
    """Return a copy of a tensor."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    return copy


def fill(tensor: TensorProto, file: BinaryIO) -> None:
    """Put the elements that were left in the file into a tensor; any other tensor stays as it is.

    Raises `MalformedError` if they are not there.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if entries.get("location") != LEFT:
        return
    start = int(entries["offset"])
    data = _Reader(file).read((start, start + int(entries["length"])))
    if entries["field"] == "raw_data":
        tensor.raw_data = data
    else:
        number = TensorProto.DESCRIPTOR.fields_by_name[entries["field"]].number
        tensor.MergeFromString(_key(number) + _write_number(len(data)) + data)
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")


class _Reader:
    """Reads a file in windows: the fields of messages, without the bodies of large ones."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size = file, os.fstat(file.fileno()).st_size
        self.window, self.start = b"", 0

    def read(self, piece: _Piece) -> bytes:
        """Return the bytes of a piece."""
        if isinstance(piece, bytes):
            return piece
        start, end = piece
        self.file.seek(start)
        data = self.file.read(end - start)
        if len(data) != end - start:
            raise MalformedError("the file is shorter than it was")
        return data

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return the number at an offset, and the offset after it."""
        value = shift = 0
        while at < end and shift < 64:
            index = at - self.start
            if not 0 <= index < len(self.window):
                self.start, index = at, 0
                self.window = self.read((at, min(at + _WINDOW, self.size)))
            byte = self.window[index]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
        raise MalformedError("a number that does not end")

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the fields of a message: number, and the offsets of its key, of its body, and of what comes after."""
        at = start
        while at < end:
            key_at = at
            key, at = self.varint(at, end)
            number, kind = key >> 3, key & 7
            body = at
            if kind == _LENGTH:
                length, body = self.varint(at, end)
                at = body + length
            elif kind == _VARINT:
                _, at = self.varint(at, end)
            elif kind in (_FIXED32, _FIXED64):
                at += 4 if kind == _FIXED32 else 8
            else:
                raise MalformedError("a field of an unknown kind")
            if at > end or not number:
                raise MalformedError("a field that is longer than its message")
            yield number, key_at, body, at

    def pieces(self, descriptor: Any, start: int, end: int, depth: int) -> Iterator[_Piece]:
        """Yield what is kept of a message, in order."""
        if depth > _DEPTH:
            raise MalformedError("messages inside each other without end")
        if descriptor.full_name == _TENSOR:
            yield from self.of_tensor(descriptor, start, end)
            return
        begun = start
        for number, key, body, after in self.fields(start, end):
            if after - body <= _LARGE:
                continue
            field = descriptor.fields_by_number.get(number)
            inner = None if field is None or field.name in _READ else field.message_type
            pieces = [] if inner is None else list(self.pieces(inner, body, after, depth + 1))
            if len(pieces) > 1:
                yield begun, key
                yield _key(number) + _write_number(sum(map(_length, pieces)))
                yield from pieces
                begun = after
        yield begun, end

    def of_tensor(self, descriptor: Any, start: int, end: int) -> Iterator[_Piece]:
        """Yield what is kept of a tensor: all but its elements, and where they are; all of an unusual one."""
        names = {number: field.name for number, field in descriptor.fields_by_number.items()}
        fields = [(names.get(number, ""), *places) for number, *places in self.fields(start, end)]
        large = [field for field in fields if field[0] in _ELEMENTS and field[3] - field[2] > _LARGE]
        if len(large) != 1 or any(name in ("data_location", "external_data") for name, *_ in fields):
            yield start, end
            return
        [(name, key, body, after)] = large
        if (after - body) % _ELEMENTS[name] or sum(field[0].endswith("_data") for field in fields) > 1:
            yield start, end
            return
        yield start, key
        yield after, end
        entry = TensorProto(data_location=TensorProto.EXTERNAL)
        for word, value in {"location": LEFT, "field": name, "offset": body, "length": after - body}.items():
            entry.external_data.add(key=word, value=str(value))
        yield entry.SerializeToString()


def _length(piece: _Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


def _key(number: int) -> bytes:
    return _write_number(number << 3 | _LENGTH)


def _write_number(value: int) -> bytes:
    """Return a number as protobuf writes it: seven bits in each byte, the lowest first."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)
