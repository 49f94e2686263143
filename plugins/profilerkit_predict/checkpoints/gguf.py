"""The headers of GGUF files: metadata, and names, shapes and types of tensors. No values are read."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from profilerkit.errors import InputError

from .formats import GGML_TYPES
from .stored_tensors import StoredTensor, join_tensors, require_whole

#: A value of metadata. Of texts in an array only their number is kept: vocabularies are large.
Value = int | float | bool | str | tuple[int | float | bool, ...]
#: The formats of numbers in metadata, by their type; 8 is a text, 9 an array.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
#: The bytes before the metadata: "GGUF", the version, and how many tensors and values there are.
_START = struct.calcsize("<4sIQQ")
#: The most bytes of a name or key, dimensions of a tensor, and tensors and values of a file.
_LONGEST_NAME, _MOST_DIMENSIONS, _MOST_ENTRIES = 65_535, 4, 1_000_000
_SPLIT = re.compile(r"(.*)-\d{5}-of-(\d{5})\.gguf")


@dataclass(frozen=True)
class GgufFile:
    """The header of a GGUF file, or the headers of all files of a split model."""

    #: The file, or the first one.
    path: Path
    #: Values by key: ``{"general.architecture": "llama"}``.
    metadata: Mapping[str, Value]
    #: The tensors of all files.
    tensors: tuple[StoredTensor, ...]


def read_gguf(path: Path) -> GgufFile:
    """Return the metadata and tensors of a file, with all parts of a split model.

    Raises `InputError` for a file that is damaged or cut off, and for parts that are missing.
    """
    first = _read_part(path)
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return first
    parts = [_read_part(part) for part in _list_parts(path, count)]
    tensors = join_tensors((part.tensors for part in parts), f"{path} has a tensor in two parts")
    return GgufFile(path, parts[0].metadata, tensors)


def _list_parts(path: Path, count: int) -> list[Path]:
    """Return the files of a split model; raises `InputError` for another name than such files have, or missing ones."""
    named = _SPLIT.fullmatch(path.name)
    if named is None or int(named[2]) != count:
        raise InputError(f"{path} is one of {count} parts; give the first one, named NAME-00001-of-{count:05}.gguf")
    paths = [path.with_name(f"{named[1]}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]
    missing = [part.name for part in paths if not part.is_file()]
    if missing:
        raise InputError(f"{path} is one of {count} parts, of which {', '.join(missing[:3])} is not beside it")
    return paths


def _read_part(path: Path) -> GgufFile:
    try:
        with path.open("rb") as file:
            return _Header(path, file).read()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


class _Header:
    """Reads a header from its beginning to its end; each length is compared with the bytes that are left."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.size: int = path.stat().st_size
        self.bytes_left: int = self.size

    def read(self) -> GgufFile:
        if self.bytes_left < _START or self._take(4) != b"GGUF":
            raise InputError(f"{self.path} is no GGUF file: it does not begin with GGUF")
        (version,) = self._unpack("I")
        if version not in (2, 3):
            raise InputError(f"{self.path} is GGUF of version {version}; versions 2 and 3 of little endian are read")
        tensor_count, value_count = self._unpack("QQ")
        if max(tensor_count, value_count) > _MOST_ENTRIES:
            raise self._make_error(f"{tensor_count:,} tensors and {value_count:,} values")
        metadata = dict(self._read_pair() for _ in range(value_count))
        tensors = join_tensors([(self._read_tensor() for _ in range(tensor_count))], f"{self.path} has a tensor twice")
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment <= 0:
            raise self._make_error(f"general.alignment {alignment!r}")
        padding = -(self.size - self.bytes_left) % alignment  # the values begin at a multiple of the alignment
        require_whole(self.path, tensors, max(0, self.bytes_left - padding))
        return GgufFile(self.path, metadata, tensors)

    def _make_error(self, what: str) -> InputError:
        return InputError(f"{self.path} is damaged: its header has {what}")

    def _take(self, count: int) -> bytes:
        if count > self.bytes_left:
            raise self._make_error(f"{count:,} bytes where the file has {self.bytes_left:,} more")
        self.bytes_left -= count
        return self.file.read(count)

    def _unpack(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))

    def _read_text(self, is_name: bool) -> str:
        (length,) = self._unpack("Q")
        if is_name and not 0 < length <= _LONGEST_NAME:
            raise self._make_error(f"a name of {length:,} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _read_pair(self) -> tuple[str, Value]:
        key = self._read_text(is_name=True)
        (kind,) = self._unpack("I")
        if kind == _ARRAY:
            return key, self._read_array(key)
        return key, self._read_text(is_name=False) if kind == _TEXT else self._read_numbers(key, kind, 1)[0]

    def _read_numbers(self, key: str, kind: int, count: int) -> tuple[int | float | bool, ...]:
        if kind not in _NUMBERS:
            raise self._make_error(f"{key!r} of an unknown type {kind}")
        if count > self.bytes_left:
            raise self._make_error(f"{key!r} with {count:,} values")
        form = f"<{count}{_NUMBERS[kind]}"
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _read_array(self, key: str) -> Value:
        """Return the numbers of an array, or how many texts there are; arrays of arrays are no metadata of models."""
        kind, count = self._unpack("IQ")
        if kind != _TEXT:
            return self._read_numbers(key, kind, count)
        if 8 * count > self.bytes_left:
            raise self._make_error(f"{key!r} with {count:,} texts")
        for _ in range(count):
            (length,) = self._unpack("Q")
            self._take(length)
        return count

    def _read_tensor(self) -> StoredTensor:
        name = self._read_text(is_name=True)
        (dimensions,) = self._unpack("I")
        if dimensions > _MOST_DIMENSIONS:
            raise self._make_error(f"a tensor {name!r} of {dimensions:,} dimensions")
        shape = self._unpack(f"{dimensions}Q")[::-1]
        kind, start = self._unpack("IQ")
        if kind not in GGML_TYPES:
            raise InputError(f"{self.path} has a tensor {name!r} of a type {kind} whose bytes are not known here")
        block, elements = GGML_TYPES[kind], math.prod(shape)
        if elements % block.elements:
            raise self._make_error(f"a tensor {name!r} of {elements:,} elements, not whole blocks of {block.elements}")
        return StoredTensor(name, shape, block.name, start, elements // block.elements * block.bytes)
