"""From a model, as the user gives it, to the model that is profiled, its backend, and the file that holds it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arguments.structures import is_tensor
from ..backend import BACKEND, Backend
from ..error_text import shown
from ..protocols import OpensModels, implements
from .backends import backend_named
from .offered_formulas import equip
from .recognition import find_backend

__all__ = ["OpenedModel", "open_model"]

Stamps = tuple[tuple[str, int, int, int, int], ...]


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model and its backend, with the path that it was read from, if it was.

    Attributes:
        model: The model itself.
        backend: Its backend.
        path: The path of its file or folder; None for a model that was no path.
        stamps: The size, device, inode and time of modification of each file there, before the model was read.
    """

    model: Any
    backend: Backend
    path: Path | None = None
    stamps: Stamps = ()

    @classmethod
    def of(cls, model: Any, backend: Backend | str | None, kind: type[Backend] | None) -> OpenedModel:
        """Return a model as `open_model` does, with the stamps of its files if it is a path."""
        is_path = isinstance(model, (str, os.PathLike))
        path = Path(os.fsdecode(model)).absolute() if is_path else None  # the process may change its folder
        stamps = () if path is None else _stamps(path)
        return cls(*open_model(model, backend, kind), path, stamps)

    def renew(self) -> OpenedModel:
        """Return the model that is in the file now: this one, unless the file has changed.

        A model whose file is gone stays: nothing newer can be read. Raises as `open_model` does.
        """
        if self.path is None:
            return self
        stamps = _stamps(self.path)
        if not stamps or stamps == self.stamps:
            return self
        model, backend = open_model(os.fspath(self.path), self.backend, None)
        return OpenedModel(model, backend, self.path, stamps)


def _stamps(path: Path) -> Stamps:
    """Return what tells each file at a path from a later one; nothing if there is no file.

    Of a folder these are the files in it and in its folders, as a saved model has them.
    """
    try:
        files = [path, *sorted(path.glob("*")), *sorted(path.glob("*/*"))] if path.is_dir() else [path]
        return tuple(stamp for file in files for stamp in _stamp(file))
    except (OSError, ValueError):  # not to be read, or no name of a file
        return ()


def _stamp(file: Path) -> Iterator[tuple[str, int, int, int, int]]:
    try:
        status = file.stat()
    except OSError:  # gone
        return
    if not stat.S_ISDIR(status.st_mode):  # the time of a folder changes with any file in it, those of others too
        yield str(file), status.st_size, status.st_dev, status.st_ino, status.st_mtime_ns


def open_model(model: Any, backend: Backend | str | None, kind: type[Backend] | None) -> tuple[Any, Backend]:
    """Return the model, read from its file if it is a path, and its backend.

    ``kind`` is the class of the backend if none is given; without it, the backend is found from the model. Raises
    `TypeError` if the backend does not accept the model.
    """
    backend = BACKEND("backend", backend)
    if isinstance(backend, str):
        resolved = backend_named(backend)
    elif backend is not None:
        resolved = equip(backend)
    else:
        resolved = find_backend(model) if kind is None else equip(kind())
    if implements(resolved, OpensModels):
        model = resolved.open_model(model)
    if not resolved.accepts(model):
        problem = f"the {resolved.name} backend cannot profile a {type(model).__name__}"
        hint = "; example inputs are given by name, inputs=..." if is_tensor(model) else ""
        raise TypeError(f"{problem}; give it a model of its own, not {shown(model)}{hint}")
    return model, resolved
