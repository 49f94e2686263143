"""What is in a file of ``torch.export``, looked through before torch reads it: reading it would run code.

``torch.export.load`` unpickles without limits where a safe reading fails, loads machine code, and runs much of the
program as Python: see `program_contents`. So all of it is compared with what an export writes.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from profilerkit import InputError
from profilerkit.hooks.extension import make_refusal

from ..compat.files import FileReader
from .pickles import join_imported_names, require_tensors
from .program_contents import Finding, require_harmless

__all__ = ["require_harmless_program"]

#: The tensors of a program, in files of torch before 2.8.
_TENSOR_MEMBERS = ("serialized_state_dict.json", "serialized_constants.json")


def require_harmless_program(path: Path) -> None:
    """Raise `InputError` for a ``.pt2`` file that holds anything but tensors, and operators that torch knows."""
    try:
        for name, read in _list_members(path):
            _require_harmless_member(name, read)
    except Finding as finding:
        raise make_refusal(path, str(finding)) from finding.__cause__
    except (ValueError, RecursionError, AttributeError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _list_members(path: Path) -> Iterator[tuple[str, Callable[[str], bytes]]]:
    """Yield what is in the file by both of torch's ways to read it, which need not agree; with what reads a member."""
    try:
        reader = FileReader(str(path))
    except RuntimeError:
        pass
    else:
        yield from ((name, reader.get_record) for name in reader.get_all_records())
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:  # files of torch before 2.8
        yield from ((name, archive.read) for name in archive.namelist() if name.lower().startswith("serialized_"))


def _require_harmless_member(name: str, read: Callable[[str], bytes]) -> None:
    """Raise `Finding` for a member of the archive that could run code; torch finds members in capitals too."""
    small = name.lower()
    if small.startswith("data/aotinductor/"):
        raise Finding(f"holds compiled code ({name})")
    if small.endswith(".pt") or small in _TENSOR_MEMBERS:
        _require_harmless_pickle(name, read(name))
    elif small.endswith("_weights_config.json"):
        _require_harmless_payloads("data/weights/", read(name), read)
    elif small.endswith("_constants_config.json"):
        _require_harmless_payloads("data/constants/", read(name), read)
    elif small.startswith("models/") or small == "serialized_exported_program.json":
        require_harmless(json.loads(read(name)))


def _require_harmless_payloads(folder: str, config: bytes, read: Callable[[str], bytes]) -> None:
    """Raise `Finding` where a list of the files in a folder has one with more than tensors."""
    for entry in json.loads(config)["config"].values():
        member = os.path.join(folder, entry["path_name"])  # noqa: PTH118  # as torch
        if entry["path_name"].startswith(("opaque_obj_", "custom_obj_")):
            raise Finding(f"holds an object that is no tensor, {join_imported_names(read(member)) or member}")
        if entry.get("use_pickle"):
            _require_harmless_pickle(member, read(member))


def _require_harmless_pickle(name: str, data: bytes) -> None:
    if not data:
        return
    try:
        require_tensors(data)
    except MemoryError:
        raise
    except Exception as error:  # for any content: torch would go on to read it without limits
        raise Finding(
            f"has more than tensors in {name}: {join_imported_names(data) or type(error).__name__}"
        ) from error
