"""Zip archives that hold models: a check for damaged ones."""

from __future__ import annotations

import os
import zipfile
from os import PathLike

from ..errors import InputError

__all__ = ["require_whole"]


def require_whole(path: str | PathLike[str]) -> None:
    """Raise `InputError` if a zip archive is truncated or changed, by the checksums that it holds.

    The frameworks check few of them when they read a model: a damaged archive could yield wrong weights, or crash the
    process.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            damaged = archive.testzip()
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(
            f"{name} cannot be read: it is damaged, or no archive of a model ({type(error).__name__}: {error}); save "
            "the model again"
        ) from error
    if damaged is not None:
        raise InputError(f"{name} cannot be read: {damaged!r} in it is damaged; save the model again")
