"""The C library in LiteRT's package, which holds LiteRT's profiler."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from profilerkit import NotOfferedError
from profilerkit.backend_kit.installed import find_version, read_numbers

__all__ = ["find_library"]

#: Its file on Linux, macOS and Windows.
_LIBRARIES = ("libLiteRt.so", "libLiteRt.dylib", "libLiteRt.dll")
#: The oldest release whose functions take the arguments of `native_passes`.
_MINIMUM = (2, 2)


def find_library() -> Path:
    """Return the path of LiteRT's C library.

    Raises `NotOfferedError` without it or if its release is too old: there are then no times of operators and layers.
    """
    folders, release = import_module("ai_edge_litert").__path__, find_version("ai_edge_litert")
    paths = [Path(folder, name) for folder in folders for name in _LIBRARIES]
    library = next(filter(Path.is_file, paths), None)
    if library is None or read_numbers(release)[:2] < _MINIMUM:
        raise NotOfferedError(
            f"LiteRT's profiler is in its C library, which ai-edge-litert {release} "
            f"{'lacks' if library is None else 'has in another form'}; install ai-edge-litert 2.2 or newer"
        )
    return library
