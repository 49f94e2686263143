"""Models from ``.onnx`` files, without their external data, and from what torch's exporter returns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from profilerkit import InputError

__all__ = ["is_program", "opened"]


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
    return proto
