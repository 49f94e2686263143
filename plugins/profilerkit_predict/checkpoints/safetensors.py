"""The headers of safetensors files: names, shapes and dtypes of tensors. No values are read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from profilerkit.errors import InputError

from .stored_tensors import StoredTensor, join_tensors, require_whole

#: The names of dtypes in headers, with ours and their bits.
_DTYPES = {
    **{f"F{bits}": (f"float{bits}", bits) for bits in (64, 32, 16)},
    **{f"I{bits}": (f"int{bits}", bits) for bits in (64, 32, 16, 8)},
    **{f"U{bits}": (f"uint{bits}", bits) for bits in (64, 32, 16, 8)},
    **{f"F8_{layout}": ("float8", 8) for layout in ("E4M3", "E5M2", "E8M0", "E4M3FNUZ", "E5M2FNUZ")},
    "F6_E2M3": ("float6", 6),
    "F6_E3M2": ("float6", 6),
    "F4": ("float4", 4),
    "BF16": ("bfloat16", 16),
    "BOOL": ("bool", 8),
    "C64": ("complex64", 64),
}
#: The longest header that the format allows.
_LONGEST_HEADER = 100_000_000
_INDEX, _WHOLE = "model.safetensors.index.json", "model.safetensors"


def read_safetensors(path: Path) -> tuple[StoredTensor, ...]:
    """Return the tensors of one file; raises `InputError` for a file that is damaged or cut off."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(_LONGEST_HEADER, size - 8):
                raise InputError(f"{path} is no safetensors file: its header would have {length:,} bytes of {size:,}")
            header = _parse(path, file.read(length))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    tensors = tuple(_read_entry(path, name, entry) for name, entry in header.items() if name != "__metadata__")
    require_whole(path, tensors, size - 8 - length)
    return tensors


def read_safetensors_folder(folder: Path) -> tuple[StoredTensor, ...]:
    """Return the tensors of a checkpoint: of its only file, or of the files that its index names; () without files.

    A whole file comes first, like in transformers: an index beside it may belong to an earlier checkpoint.
    """
    names = _list_files(folder)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing and len(missing) == len(names):
        return ()  # the index alone was downloaded
    if missing:
        raise InputError(f"{folder} lacks {len(missing)} of {len(names)} files of its index: {', '.join(missing[:3])}")
    return join_tensors((read_safetensors(folder / name) for name in names), f"{folder} has a tensor in two files")


def _list_files(folder: Path) -> list[str]:
    """Return the files of a checkpoint by name; raises `InputError` if its index names one outside of the folder."""
    path = folder / _INDEX
    if (folder / _WHOLE).is_file():
        return [_WHOLE]
    if not path.is_file():
        return []
    try:
        weight_map = _parse(path, path.read_bytes()).get("weight_map")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    names = list(weight_map.values()) if isinstance(weight_map, dict) else []
    if not names or not all(isinstance(name, str) and name == Path(name).name for name in names):
        raise InputError(f"{path} has no weight_map of names of files beside it")
    return list(dict.fromkeys(names))


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    """Return the JSON object of a file; raises `InputError` for anything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} has a header that is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} has a header that is no JSON object")
    return content


def _read_entry(path: Path, name: str, entry: Any) -> StoredTensor:
    """Return one tensor of a header; raises `InputError` if its dtype, shape and bytes do not agree."""
    written = entry.get("dtype") if isinstance(entry, dict) else None
    if isinstance(written, str) and written not in _DTYPES:
        raise InputError(f"{path} has a tensor {name!r} of the dtype {written!r}, which profilerkit does not know")
    try:
        (dtype, bits), shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
        start, end = entry["data_offsets"]
        if not all(type(size) is int and size >= 0 for size in (*shape, start, end)):
            raise ValueError("sizes and offsets are whole numbers from 0")
        elements = math.prod(shape)
        if elements * bits != 8 * (end - start):
            raise ValueError(f"{elements:,} elements of {bits} bits are not {end - start:,} bytes")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: its tensor {name!r} has {type(error).__name__}: {error}") from error
    return StoredTensor(name, shape, dtype, start, end - start)
