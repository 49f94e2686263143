"""Archives that models are kept in: whether all that is in one is what was put there."""

from __future__ import annotations

import os
import zipfile
from os import PathLike

from ..errors import InputError

__all__ = ["require_whole"]


def require_whole(path: str | PathLike[str]) -> None:
    """Raise `InputError` where a zip archive was cut off or changed, by the checksums in it.

    What reads a model from it looks at few of them: a damaged one could have other weights, or end the process.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as archive:
            damaged = archive.testzip()
    except Exception as error:  # whatever is in the file
        raise InputError(
            f"{name} cannot be read: it is damaged, or no archive of a model ({type(error).__name__}: {error}); save "
            "the model again"
        ) from error
    if damaged is not None:
        raise InputError(f"{name} cannot be read: {damaged!r} in it is damaged; save the model again")
