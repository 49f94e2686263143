"""Models from files: exported programs, TorchScript and pickled models."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from profilerkit import InputError, LoadedModel, ModelInputs
from profilerkit.error_text import error_line
from profilerkit.hooks.infos import make_refusal
from profilerkit.models.loaded_files import find_namespace
from profilerkit.process.files import require_whole

from .model.file_checks import require_harmless_program
from .model.pickles import join_imported_names, refuse_code

__all__ = ["load_file", "read_file"]


def load_file(spec: str, trust: bool = False) -> LoadedModel:
    """Return the model in a file: an exported program (``.pt2``) with its example inputs, or TorchScript.

    Raises `InputError` for a file that holds weights alone, and for a file that may run code when it is read, such as
    TorchScript and a pickled model; with ``trust`` the latter is read.
    """
    path = Path(spec)
    if not path.is_file():
        raise InputError(f"there is no file {spec!r}")
    if path.suffix == ".pt2":
        return _load_program(spec, path, trust)
    if _is_script(path):
        return _load_script(spec, path, trust)
    return _load_pickled_model(spec, path, trust)


def _load_program(spec: str, path: Path, trust: bool) -> LoadedModel:
    """Return an exported program, with the inputs of its export if the file has them."""
    require_whole(path)
    if not trust:
        require_harmless_program(path)
    with nullcontext() if trust else refuse_code():
        program = read_file(spec, lambda: torch.export.load(path))
    examples = program.example_inputs
    return LoadedModel(program, ModelInputs(*examples[0], **examples[1]) if examples else None, name=path.stem)


def _is_script(path: Path) -> bool:
    """Return whether a file is TorchScript, by the member that torch itself checks."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(PurePosixPath(name).name == "constants.pkl" for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def _load_script(spec: str, path: Path, trust: bool) -> LoadedModel:
    """Return a script; torch's warning that scripts are deprecated is ignored, and no error."""
    if not trust:
        raise make_refusal(
            spec,
            "is a TorchScript program: its operators can overwrite any file of yours, also while it is loaded; "
            "torch.export.save(..., 'model.pt2') writes a file that is checked instead",
        )
    require_whole(path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+`")
        return LoadedModel(read_file(spec, lambda: torch.jit.load(str(path), map_location="cpu")), name=path.stem)


def _load_pickled_model(spec: str, path: Path, trust: bool) -> LoadedModel:
    """Return a pickled model; raises `InputError` for a file that holds weights alone."""
    content = _load_pickle(spec, path, trust)
    if trust and isinstance(content, torch.nn.Module):
        return LoadedModel(content, name=path.stem)
    count = len(content) if hasattr(content, "__len__") else 1
    raise InputError(
        f"{spec} holds weights alone ({count} entries), no model; give file.py:name of a function that builds the model"
    )


def _load_pickle(spec: str, path: Path, trust: bool) -> Any:
    """Return the object that ``torch.save`` wrote; a pickled model finds the Python modules beside it."""
    try:
        with find_namespace(path.parent).in_use() if trust else refuse_code():
            return torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        names = join_imported_names(path.read_bytes())
        raise make_refusal(
            spec,
            f"holds a pickled model{f' (it names {names})' if names else ''}: reading it would run whatever code is in "
            "it; file.py:name of a function that builds the model runs no code but that, and "
            "torch.export.save(..., 'model.pt2') writes a file that runs none",
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(f"{spec} is no file of torch's: {type(error).__name__}: {error_line(error)}") from error


def read_file(spec: str, load: Callable[[], Any]) -> Any:
    """Return the result of ``load``; any error becomes an `InputError` about the file."""
    try:
        return load()
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(f"{spec} cannot be read: {type(error).__name__}: {error_line(error)}") from error
