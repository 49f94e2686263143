"""Models from ``.onnx`` files, without their external data, and from what torch's exporter returns."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from profilerkit import InputError

from .model.external_data import external_files

__all__ = ["folder_of", "is_program", "opened"]

#: Under which a model that was read from a file keeps the folder of that file, where its weights may lie. Messages of
#: protobuf take no attributes, and no weak references. No file can know this name, so none can lead to another folder.
_FOLDER = f"profilerkit.folder.{secrets.token_hex(16)}"


def folder_of(model: Any) -> Path | None:
    """Return the folder that a model was read from; None for one that was made in memory."""
    folder = next((entry.value for entry in model.metadata_props if entry.key == _FOLDER), None)
    return None if folder is None else Path(folder)


def is_program(model: Any) -> bool:
    """Say whether something is what ``torch.onnx.export(..., dynamo=True)`` returns; torch need not be imported."""
    kind = type(model)
    return (kind.__module__.partition(".")[0], kind.__qualname__) == ("torch", "ONNXProgram")


def opened(model: Any) -> Any:
    """Return the ``ModelProto`` of a path or of an exported program; anything else as it is.

    External data, which may be larger than memory, is not read: shapes and dtypes stand in the file itself. Raises
    `InputError` for a path where no ONNX model is.
    """
    if is_program(model):
        return model.model_proto
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(model)
    if not path.is_file():
        raise InputError(f"the path {str(path)!r} does not exist or is no file; give the path of a .onnx file")
    try:
        proto = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise InputError(
            f"the file {str(path)!r} is no ONNX model, or is damaged: {error}; export the model again"
        ) from error
    if not proto.HasField("graph") or not proto.opset_import:
        raise InputError(
            f"the file {str(path)!r} holds no graph, or names no operator set: it is no whole ONNX model; export the "
            "model again"
        )
    if external_files(proto):
        proto.metadata_props.add(key=_FOLDER, value=str(path.parent.absolute()))
    return proto
