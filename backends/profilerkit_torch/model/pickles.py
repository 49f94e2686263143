"""Files of ``torch.save``: reading tensors without running code, and naming the functions that a file would import."""

from __future__ import annotations

import io
import os
import pickletools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import torch

from profilerkit.process.restoring import for_each, restored

from ..compat.files import PICKLED_NAMES

__all__ = ["join_imported_names", "refuse_code", "require_tensors"]

_FORCED, _FORBIDDEN = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@contextmanager
def refuse_code() -> Iterator[None]:
    """Have torch unpickle nothing but tensors and plain values inside, whatever arguments ``torch.load`` gets.

    Torch reads that from the environment of the process, which is as it was afterwards.
    """
    before = [(name, os.environ.get(name)) for name in (_FORCED, _FORBIDDEN)]
    with restored(partial(for_each, _set_variable, before)):
        for_each(_set_variable, [(_FORCED, "1"), (_FORBIDDEN, None)])
        yield


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def require_tensors(data: bytes) -> None:
    """Raise torch's own error for a file of ``torch.save`` with more than tensors and plain values."""
    with refuse_code():
        torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def join_imported_names(data: bytes) -> str:
    """Return in one text the functions and classes that a file of ``torch.save`` imports, without those of tensors.

    The text is for messages only: torch decides in `require_tensors` whether a file is refused.
    """
    names = [name for pickle in _list_pickles(data) for name in _list_names(pickle)]
    return ", ".join(dict.fromkeys(name for name in names if not name.startswith(PICKLED_NAMES)))


def _list_pickles(data: bytes) -> list[bytes]:
    """Return the pickles in a file of ``torch.save``: an archive since torch 1.6, one pickle before."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return [data]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist() if name.endswith(".pkl")]


def _list_names(pickle: bytes) -> list[str]:
    """Return the dotted names that a pickle imports; if the pickle is cut off, the names before the cut."""
    names: list[str] = []
    strings: list[str] = []  # strings in the pickle itself; strings from its memo are missed
    with suppress(Exception):  # not a pickle, or one that is cut off
        for code, value, _ in pickletools.genops(pickle):
            if code.name in ("GLOBAL", "INST"):
                names.append(str(value).replace(" ", "."))
            elif code.name == "STACK_GLOBAL":  # it takes module and name, the last two strings
                names.append(".".join(strings[-2:]))
            elif isinstance(value, str):
                strings.append(value)
    return names
