"""The file that a model was read from, and the files beside it that hold weights: found, watched, read when needed.

Weights may be larger than memory, and no count needs them. So `loaders.open_model` leaves the elements of large tensors
in the file; the functions here that read them make sure that the file is still the same.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, BinaryIO

from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from profilerkit import InputError, WithoutValuesError
from profilerkit.process.files import read_stamp, stamp_file

from .large_tensors import LEFT, MalformedError, fill_elements, list_tensors, with_elements

__all__ = ["external_files", "find_weight_folder", "open_values", "read_stamps", "read_whole", "remember_file"]

#: The keys in a model's metadata for the path of its file, in whose folder its weights may lie, and for the stamp that
#: tells whether the file is still the same. Messages of protobuf take no attributes and no weak references. The keys
#: are random, so no file can contain them and lead to another folder.
_PATH, _STAMP = (f"profilerkit.{word}.{secrets.token_hex(16)}" for word in ("path", "stamp"))


def remember_file(model: ModelProto, path: Path, stamp: str) -> None:
    """Note in a model the path of its file, and the stamp that tells this file from a later one (`stamp_file`)."""
    model.metadata_props.add(key=_PATH, value=str(path.absolute()))
    model.metadata_props.add(key=_STAMP, value=stamp)


def _find_path(model: ModelProto) -> Path | None:
    """Return the file that a model was read from; None for a model that was made in memory."""
    path = _read_entry(model, _PATH)
    return None if path is None else Path(path)


def _read_entry(model: ModelProto, key: str) -> str | None:
    return next((entry.value for entry in model.metadata_props if entry.key == key), None)


# Files beside the model -----------------------------------------------------------------------------------------------


def external_files(model: ModelProto) -> list[str]:
    """Return the names of the files that hold tensors of a model, in its graph, the graphs inside and its functions.

    If elements were left in the file of the model itself, `LEFT` is among them.
    """
    names = map(_read_location, list_tensors(model))
    return list(dict.fromkeys(name for name in names if name is not None))


def _read_location(tensor: TensorProto) -> str | None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def find_weight_folder(model: ModelProto) -> Path | None:
    """Return the folder that holds a model's external data; None for a model without such data.

    Raises `WithoutValuesError` if a file is missing, `InputError` if a file is outside of the folder.
    """
    names = [name for name in external_files(model) if name != LEFT]
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
    """Return the name and the stamp of each file with weights of a model; an empty stamp for a file that is gone.

    The file of the model itself is among them if elements were left in it.
    """
    path = _find_path(model) or Path()
    return [(name, read_stamp(path if name == LEFT else path.parent / name)) for name in external_files(model)]


# Elements that were left in the file ----------------------------------------------------------------------------------


def read_whole(model: ModelProto) -> ModelProto:
    """Return a model with the elements that were left in its file; the model itself if none were left.

    Data in other files is not read. Raises `InputError` if the file is gone, or has changed since it was opened.
    """
    with _open_file(model) as file:
        if file is None:
            return model
        try:
            return _forget_file(with_elements(model, file))
        except (OSError, MalformedError):
            raise _explain_change(model) from None


@contextmanager
def open_values(model: ModelProto) -> Iterator[Callable[[TensorProto], Any]]:
    """Yield a function that returns the values of a tensor of a model, as an array; the model keeps none of them.

    It reads the message, the file of the model or the files beside it, one tensor at a time. Raises the errors of
    `read_whole` and `find_weight_folder`; the function raises `InputError` for a damaged tensor.
    """
    folder = find_weight_folder(model)
    with _open_file(model) as file:

        def read_values(tensor: TensorProto) -> Any:
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor = deepcopy(tensor)  # onnx and `fill_elements` write values into the tensor
            try:
                if file is not None:
                    fill_elements(tensor, file)
                return numpy_helper.to_array(tensor, str(folder or ""))
            except MalformedError:
                raise _explain_change(model) from None
            except (ValueError, TypeError, KeyError, OSError, ValidationError) as error:
                raise InputError(
                    f"the values of the weight {tensor.name!r} cannot be read: {error}; export the model again"
                ) from error

        yield read_values


@contextmanager
def _open_file(model: ModelProto) -> Iterator[BinaryIO | None]:
    """Open the file in which elements of a model were left; None if none were left."""
    if LEFT not in external_files(model):
        yield None
        return
    try:
        file = (_find_path(model) or Path()).open("rb")
    except OSError:
        raise _explain_change(model) from None
    with file:
        if stamp_file(os.fstat(file.fileno())) != _read_entry(model, _STAMP):
            raise _explain_change(model)
        yield file


def _explain_change(model: ModelProto) -> InputError:
    return InputError(
        f"the file {_read_entry(model, _PATH) or ''!r}, where the weights of the model are, has changed or is gone "
        "since the model was opened; give the path again, or a ModelProto that was loaded with its weights"
    )


def _forget_file(model: ModelProto) -> ModelProto:
    """Remove the path and the stamp of its file from a model, unless further weights lie beside the file."""
    if not external_files(model):
        kept = [entry for entry in model.metadata_props if entry.key not in (_PATH, _STAMP)]
        del model.metadata_props[:]
        model.metadata_props.extend(kept)
    return model
