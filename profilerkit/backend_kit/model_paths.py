"""Texts that are paths of files with models, beside texts that name a model in a library or in Python code."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

__all__ = ["is_path_with_suffix"]


def is_path_with_suffix(spec: str, suffixes: Collection[str]) -> bool:
    """Return whether a text is the path of a file with one of these suffixes, in any case; it need not exist.

    ``library:name``, ``module:name`` and ``file.py:name`` are no paths. A file of such a name is ``./library:name``.

    >>> [is_path_with_suffix(spec, (".pt",)) for spec in ("nets/MODEL.PT", "hf:org/net.pt", "./hf:net.pt")]
    [True, False, True]
    """
    source, colon, _ = spec.partition(":")
    is_drive = len(source) == 1  # of Windows
    is_name = bool(colon) and not is_drive and ("/" not in source or source.endswith(".py"))
    return not is_name and Path(spec).suffix.lower() in suffixes
