"""Writes checkpoints without values: headers by the formats' specifications, and holes where the values would be."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["gguf_text", "gguf_value", "write_gguf", "write_safetensors"]

#: A tensor of GGUF: its shape, the fastest size first, the number of its type, elements and bytes of a block.
GgufTensor = tuple[tuple[int, ...], int, int, int]


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], int]]) -> None:
    """Write a file; a tensor is its dtype, its shape and its bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def gguf_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value: Any) -> bytes:
    """Return the type and the bytes of a value of metadata."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_text, value))
    kind, form = (7, "?") if isinstance(value[0], bool) else (5, "i")
    return struct.pack(f"<IIQ{len(value)}{form}", 9, kind, len(value), *value)


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, GgufTensor], cut: int = 0) -> int:
    """Write a file of version 3 without its last ``cut`` bytes, and return the bytes of all tensors."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(gguf_text(key) + gguf_value(value) for key, value in metadata.items())
    end = total = 0
    for name, (shape, kind, elements, block) in tensors.items():
        header += gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, end)
        size = math.prod(shape) // elements * block
        total += size
        end += -(-size // 32) * 32
    start = -(-len(header) // 32) * 32
    with path.open("wb") as file:
        file.write(header)
        file.truncate(start + end - cut)
    return total
