"""Models from files: exported programs, TorchScript and pickled models."""

from __future__ import annotations

import os
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from profilerkit import InputError, LoadedModel, ModelInputs
from profilerkit.error_text import error_line
from profilerkit.hooks.infos import make_refusal
from profilerkit.models.loaded_files import find_namespace
from profilerkit.process.files import require_whole
from profilerkit.process.restoring import for_each, restored

__all__ = ["load_file", "read_file", "refuse_code"]

_FORCED, _FORBIDDEN = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def load_file(spec: str, trust: bool = False) -> LoadedModel:
    """Return the model in a file: an exported program (``.pt2``) with its example inputs, or TorchScript.

    Raises `InputError` for a file that holds weights alone, and without ``trust`` for all others: reading them may run
    code, and no search of their content finds each way to do so.
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
    if not trust:
        raise make_refusal(
            spec,
            "is a program of torch.export: torch unpickles objects in it, and runs Python code that it makes of names "
            "and sizes in it",
        )
    require_whole(path)
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
            "is a TorchScript program: its operators can overwrite any file of yours, also while it is loaded",
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
        names = ", ".join(_list_unsafe_names(path))
        what = f" (it names {names})" if names else ", or a pickle that torch does not read safely"
        raise make_refusal(
            spec,
            f"holds a pickled model{what}: reading it would run whatever code is in it; file.py:name of a function "
            "that builds the model runs no code but that",
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(f"{spec} is no file of torch's: {type(error).__name__}: {error_line(error)}") from error


def _list_unsafe_names(path: Path) -> list[str]:
    """Return the functions and classes beside tensors that a file of ``torch.save`` imports, where torch finds them."""
    try:
        return torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except MemoryError:
        raise
    except Exception:  # for any content: of torch before 1.6, of another protocol, or cut off
        return []


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


def read_file(spec: str, load: Callable[[], Any]) -> Any:
    """Return the result of ``load``; any error becomes an `InputError` about the file."""
    try:
        return load()
    except MemoryError:
        raise
    except Exception as error:  # whatever is in the file
        raise InputError(f"{spec} cannot be read: {type(error).__name__}: {error_line(error)}") from error
