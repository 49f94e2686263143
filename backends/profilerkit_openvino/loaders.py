"""Models from ``.xml`` files with their ``.bin`` files: read whole, only by OpenVINO's reader of its own format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from profilerkit import InputError

from .runtime import openvino

__all__ = ["open_model", "shorten"]

#: The beginning of an .xml file of the format, after its declaration.
_MARK = b"<net"
#: The number of first bytes of a file in which `_MARK` must be.
_HEAD_BYTES = 4096


def open_model(model: Any) -> Any:
    """Return the ``openvino.Model`` of a path; anything else as it is.

    The weights are read from the file of the same name with the ending ``.bin``, and from no other. No code is loaded:
    operators of extensions are unknown. Raises `InputError` for a path without an OpenVINO model.
    """
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = Path(model)
    if not path.is_file():
        raise InputError(f"the path {str(path)!r} does not exist or is no file; give the path of an .xml file")
    _require_network(path)
    _require_inside_folder(path)
    try:
        reader = openvino.frontend.FrontEndManager().load_by_framework("ir")
        network = reader.convert(reader.load(str(path), False))  # not mapped: the file may be overwritten
        for named in (network, *network.get_ops()):
            named.get_friendly_name()  # raises UnicodeDecodeError, a ValueError, if it is no text
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"the file {str(path)!r} cannot be read as an OpenVINO model: {shorten(error)}; is the .bin file of the "
            "same name beside it, and whole? if not, convert the model again"
        ) from error
    if not network.get_results():
        raise InputError(f"the file {str(path)!r} holds no network: nothing of it is returned; convert the model again")
    return network


def _require_network(path: Path) -> None:
    """Raise `InputError` for a file of another format."""
    with path.open("rb") as file:
        is_network = _MARK in file.read(_HEAD_BYTES)
    if not is_network:
        raise InputError(f"the file {str(path)!r} is no OpenVINO model: it does not begin with <net>; convert it again")


def _require_inside_folder(path: Path) -> None:
    """Raise `InputError` if the file of a model, or the file of its weights, is a link to another folder.

    A link in a folder from elsewhere could lead to any file of the user's.
    """
    folder = path.parent.resolve()
    # OpenVINO takes the last dot of a name for the beginning of its ending, also in "net.", unlike `Path.with_suffix`.
    stem = path.name[:-1] if path.name.endswith(".") else path.stem
    for file_path in (path, path.with_name(f"{stem}.bin")):
        if not file_path.resolve().is_relative_to(folder):
            raise InputError(
                f"{str(file_path)!r} leads outside of the folder of the model, from where nothing is read; put the "
                "file itself beside the model"
            )


def shorten(error: Exception) -> str:
    """Return OpenVINO's message of an error, without the lines about OpenVINO's source."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return " ".join(told or lines)
