"""The files beside a model that hold its weights: found, watched, read when needed.

Weights may be larger than memory, and no count needs them. So `loaders.open_model` does not read these files.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from profilerkit import InputError, WithoutValuesError
from profilerkit.process.files import read_stamp

from .tensors import external_files

__all__ = ["find_weight_folder", "open_values", "read_stamps", "remember_file"]

#: The key in a model's metadata for the path of its file, in whose folder its weights lie. Messages of protobuf take no
#: attributes and no weak references. The key is random, so no file can contain it and lead to another folder.
_PATH = f"profilerkit.path.{secrets.token_hex(16)}"


def remember_file(model: ModelProto, path: Path) -> None:
    """Note in a model the path of its file."""
    model.metadata_props.add(key=_PATH, value=str(path.absolute()))


def _find_path(model: ModelProto) -> Path | None:
    """Return the file that a model was read from; None for a model that was made in memory."""
    return next((Path(entry.value) for entry in model.metadata_props if entry.key == _PATH), None)


def find_weight_folder(model: ModelProto) -> Path | None:
    """Return the folder that holds a model's external data; None for a model without such data.

    Raises `WithoutValuesError` if a file is missing, `InputError` if a file is outside of the folder.
    """
    names = external_files(model)
    if not names:
        return None
    path = _find_path(model)
    if path is None:
        raise WithoutValuesError(
            f"the weights of the model are in another file, {names[0]!r}, and where that lies is not known; give the "
            "path of the model, or load it with its external data"
        )
    for name in names:
        _check_weight_file(path.parent, name)
    return path.parent


def _check_weight_file(folder: Path, name: str) -> None:
    """Raise an error for a file with weights that is missing, or lies outside of the folder of its model.

    A model from elsewhere could name any file of the user's there.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(
            f"the model has its weights in {name!r}, outside of its own folder, from where nothing is read; put "
            "the file beside the model"
        )
    if not path.is_file():
        raise WithoutValuesError(
            f"the file {name!r} with the weights of the model is missing in its folder, so that it can be counted "
            "but not run; put it beside the model"
        )


def read_stamps(model: ModelProto) -> list[tuple[str, str]]:
    """Return the name and the stamp of each file with weights of a model; an empty stamp for a file that is gone."""
    folder = (_find_path(model) or Path()).parent
    return [(name, read_stamp(folder / name)) for name in external_files(model)]


@contextmanager
def open_values(model: ModelProto) -> Iterator[Callable[[TensorProto], Any]]:
    """Yield a function that returns the values of a tensor of a model, as an array; the model keeps none of them.

    It reads the message or the files beside the model, one tensor at a time. Raises the errors of `find_weight_folder`;
    the function raises `InputError` for a damaged tensor.
    """
    folder = find_weight_folder(model)

    def read_values(tensor: TensorProto) -> Any:
        try:
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor = deepcopy(tensor)  # onnx writes the values into it
            return numpy_helper.to_array(tensor, str(folder or ""))
        except (ValueError, TypeError, KeyError, OSError, ValidationError) as error:
            raise InputError(
                f"the values of the weight {tensor.name!r} cannot be read: {error}; export the model again"
            ) from error

    yield read_values
