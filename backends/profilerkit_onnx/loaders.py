"""Models from ``.onnx`` files, without their weights, and from what torch's exporter returns."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.checker import ValidationError

from profilerkit import InputError, WithoutValuesError

from .model.external_data import LEFT, external_files, list_tensors
from .model.large_tensors import MalformedError, copy_tensor, fill_elements, with_elements, without_elements

__all__ = [
    "find_damage",
    "find_folder",
    "find_weight_folder",
    "is_program",
    "open_model",
    "open_values",
    "read_stamps",
    "whole",
]

#: Under which a model that was read from a file keeps the path of that file, in whose folder its weights may lie, and
#: what tells whether the file is still the same. Messages of protobuf take no attributes, and no weak references. No
#: file can know these names, so none can lead to another folder.
_PATH, _STAMP = (f"profilerkit.{word}.{secrets.token_hex(16)}" for word in ("path", "stamp"))


def find_folder(model: ModelProto) -> Path | None:
    """Return the folder that a model was read from; None for one that was made in memory."""
    path = _entry(model, _PATH)
    return None if path is None else Path(path).parent


def _entry(model: ModelProto, key: str) -> str | None:
    return next((entry.value for entry in model.metadata_props if entry.key == key), None)


def find_weight_folder(model: ModelProto) -> Path | None:
    """Return the folder that holds a model's external data; None for a model that has none.

    Raises `WithoutValuesError` where a file is missing, `InputError` for one that lies outside of the folder.
    """
    names = [name for name in external_files(model) if name != LEFT]
    if not names:
        return None
    folder = find_folder(model)
    if folder is None:
        raise WithoutValuesError(
            f"the weights of the model are in another file, {names[0]!r}, and where that lies is not known; give the "
            "path of the model, or load it with its external data"
        )
    for name in names:
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
    return folder


def is_program(model: Any) -> bool:
    """Say whether something is what ``torch.onnx.export(..., dynamo=True)`` returns; torch need not be imported."""
    kind = type(model)
    return (kind.__module__.partition(".")[0], kind.__qualname__) == ("torch", "ONNXProgram")


def open_model(model: Any) -> Any:
    """Return the ``ModelProto`` of a path or of an exported program; anything else as it is.

    Weights may be larger than memory, and no count needs them: those in other files are not read, and the elements of
    large tensors stay in the file (see `whole`). Raises `InputError` for a path where no ONNX model is.
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
    except (DecodeError, ValueError) as error:
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
        proto.metadata_props.add(key=_PATH, value=str(path.absolute()))
        proto.metadata_props.add(key=_STAMP, value=stamp)
    return proto


def find_damage(model: ModelProto) -> str:
    """Return what of a model that protobuf has read can be nothing but damage; empty if nothing is."""
    dtypes = set(TensorProto.DataType.values())
    names: list[Any] = [text for node in model.graph.node for text in (node.op_type, node.name, *node.input)]
    for tensor in list_tensors(model):
        if tensor.data_type not in dtypes:
            return f"the tensor {tensor.name!r} has the unknown dtype {tensor.data_type}"
        names.append(tensor.name)
    broken = next((name for name in names if not isinstance(name, str)), None)  # bytes that are no UTF-8
    return "" if broken is None else f"the name {broken!r} is no text"


def _read(path: Path) -> tuple[ModelProto, str]:
    """Return the model of a file without the elements of large tensors, and what tells the file from a later one."""
    if path.suffix != ".onnx":  # onnx has other formats, by the endings of their files
        return onnx.load(path, load_external_data=False), ""
    with path.open("rb") as file:
        stamp = _stamp(os.fstat(file.fileno()))
        try:
            content = without_elements(file)
        except MalformedError:
            file.seek(0)
            content = file.read()
    return onnx.load_from_string(content), stamp


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns}"


def read_stamps(model: ModelProto) -> list[tuple[str, str]]:
    """Return what tells each file that holds weights of a model from a later one; an empty text for one that is gone.

    That is its device, inode, size and time of modification. The elements that were left in the file of the model
    itself are among them.
    """
    folder, path = find_folder(model), _entry(model, _PATH)
    files = {name: Path(path or "") if name == LEFT else (folder or Path()) / name for name in external_files(model)}
    return [(name, _read_stamp(file)) for name, file in files.items()]


def _read_stamp(file: Path) -> str:
    try:
        return _stamp(file.stat())
    except (OSError, ValueError):  # gone, or no name of a file
        return ""


def whole(model: ModelProto) -> ModelProto:
    """Return a model with the elements that `open_model` left in its file; the model itself if none were left.

    Data in other files is not read. Raises `InputError` if the file is gone, or has changed since it was opened.
    """
    with _open_file(model) as file:
        if file is None:
            return model
        try:
            return _remove_marks(with_elements(model, file))
        except (OSError, MalformedError):
            raise _explain_change(model) from None


@contextmanager
def open_values(model: ModelProto) -> Iterator[Callable[[TensorProto], Any]]:
    """Yield what returns the values of a tensor of a model, as an array; the model keeps none of them.

    They are read from the message, from the file of the model or from those beside it, one tensor at a time. Raises as
    `whole` and `find_weight_folder` do; the reader raises `InputError` for a tensor that is damaged.
    """
    folder = find_weight_folder(model)
    with _open_file(model) as file:

        def values(tensor: TensorProto) -> Any:
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor = copy_tensor(tensor)  # onnx and `fill_elements` write values into the tensor
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

        yield values


@contextmanager
def _open_file(model: ModelProto) -> Iterator[BinaryIO | None]:
    """Open the file in which `open_model` left elements of a model; None if none were left."""
    if LEFT not in external_files(model):
        yield None
        return
    try:
        file = Path(_entry(model, _PATH) or "").open("rb")  # noqa: SIM115 - its errors are not those of the caller
    except OSError:
        raise _explain_change(model) from None
    with file:
        if _stamp(os.fstat(file.fileno())) != _entry(model, _STAMP):
            raise _explain_change(model)
        yield file


def _explain_change(model: ModelProto) -> InputError:
    return InputError(
        f"the file {_entry(model, _PATH) or ''!r}, where the weights of the model are, has changed or is gone since "
        "the model was opened; give the path again, or a ModelProto that was loaded with its weights"
    )


def _remove_marks(model: ModelProto) -> ModelProto:
    """Take from a model what its file is, unless further weights lie beside it."""
    if not external_files(model):
        kept = [entry for entry in model.metadata_props if entry.key not in (_PATH, _STAMP)]
        del model.metadata_props[:]
        model.metadata_props.extend(kept)
    return model
