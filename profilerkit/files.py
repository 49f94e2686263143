"""Writing a file: the whole of it, or nothing."""

from __future__ import annotations

import os
import tempfile
from os import PathLike
from pathlib import Path

__all__ = ["write_text"]


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file as UTF-8: who reads it meanwhile finds the old one, and one that fails half-way leaves it.

    Raises `OSError`, naming the file, where it cannot be written.
    """
    target = Path(path)
    scratch = None
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")
        mask = os.umask(0)
        os.umask(mask)
        Path(scratch).chmod(0o666 & ~mask)  # as any new file: mkstemp's is readable to its owner alone
        Path(scratch).replace(target)
    except BaseException as error:
        if scratch is not None:
            Path(scratch).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise type(error)(error.errno, error.strerror, str(target)) from error
        raise
