"""Models from ``.onnx`` files, without their weights, and from the programs that torch's exporter returns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf import json_format, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto
from onnx.parser import ParseError

from profilerkit import InputError
from profilerkit.process.files import stamp_file

from .model.large_tensors import MalformedError, list_tensors, without_elements
from .model.model_file import external_files, remember_file

__all__ = ["find_damage", "is_program", "open_model"]

#: What the readers of the formats raise for a file that they cannot read; a text may also be nested too deep for them.
_UNREADABLE = (DecodeError, text_format.ParseError, json_format.ParseError, ParseError, ValueError, RecursionError)


def is_program(model: Any) -> bool:
    """Return whether an object is a result of ``torch.onnx.export(..., dynamo=True)``; torch need not be imported."""
    kind = type(model)
    return (kind.__module__.partition(".")[0], kind.__qualname__) == ("torch", "ONNXProgram")


def open_model(model: Any) -> Any:
    """Return the ``ModelProto`` of a path or of an exported program; anything else as it is.

    Weights may be larger than memory, and no count needs them: other files with weights are not read, and the elements
    of large tensors stay in the file (see `model_file`). Raises `InputError` for a path without an ONNX model.
    """
    if is_program(model):
        return model.model_proto
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(model)
    if not path.is_file():
        raise InputError(f"the path {str(path)!r} does not exist or is no file; give the path of a .onnx file")
    try:
        proto, stamp = _read(path)
    except _UNREADABLE as error:
        raise InputError(
            f"the file {str(path)!r} is no ONNX model, or is damaged: {error}; export the model again"
        ) from error
    if not proto.HasField("graph") or not proto.opset_import:
        raise InputError(
            f"the file {str(path)!r} holds no graph, or names no operator set: it is no whole ONNX model; export the "
            "model again"
        )
    damage = find_damage(proto)
    if damage:
        raise InputError(f"the file {str(path)!r} is damaged: {damage}; export the model again")
    if external_files(proto):
        remember_file(proto, path, stamp)
    return proto


def _read(path: Path) -> tuple[ModelProto, str]:
    """Return the model of a file without the elements of large tensors, and the stamp of the file (`stamp_file`)."""
    if path.suffix.lower() != ".onnx":  # onnx has other formats, by the endings of their files
        return onnx.load(path, load_external_data=False), ""
    with path.open("rb") as file:
        stamp = stamp_file(os.fstat(file.fileno()))
        try:
            content = without_elements(file)
        except MalformedError:
            file.seek(0)
            content = file.read()
    return onnx.load_from_string(content), stamp


def find_damage(model: ModelProto) -> str:
    """Return a text about damage that protobuf does not notice: a dtype that is none, a name that is no text."""
    dtypes = set(TensorProto.DataType.values())
    for tensor in list_tensors(model):
        if tensor.data_type not in dtypes:
            return f"the tensor {tensor.name!r} has the unknown dtype {tensor.data_type}"
    broken = next((name for name in _list_names(model) if not isinstance(name, str)), None)  # bytes that are no UTF-8
    return "" if broken is None else f"the name {broken!r} is no text"


def _list_names(model: ModelProto) -> Iterator[Any]:
    """Yield every name in the graph of a model, in its functions and operator sets; no doc string, as none is read."""
    messages: list[Message] = [model.graph, *model.functions, *model.opset_import]
    while messages:
        for field, value in messages.pop().ListFields():
            values = [value] if isinstance(value, (str, bytes, Message)) else value
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                messages.extend(values)
            elif field.type == FieldDescriptor.TYPE_STRING and field.name != "doc_string":
                yield from values
