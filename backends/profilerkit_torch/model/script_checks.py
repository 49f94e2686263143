"""What the code of a TorchScript file may do, looked through before it is read: some of it runs at once.

TorchScript is a language of its own, without Python. But it has operators that write files (``torch.save``,
``torch.from_file``), and the methods ``__setstate__`` of a file's classes run while it is loaded.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from profilerkit.plugging.trust import refused

__all__ = ["is_script", "require_harmless_script"]

#: An attribute of such a name, with anything between it and its point: blanks, comments, line breaks.
_REACHING_OUT = re.compile(r"\.(?:\s|\\\n|#[^\n]*\n)*(save|from_file|load_tensor|rpc_\w+|PythonOp)\b")


def _code(path: Path) -> dict[str, str]:
    """Return the code in a file of TorchScript, by its name there; empty for another file."""
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":  # what torch takes for another format may still look like a zip file
            return {}
    try:
        reader = torch._C.PyTorchFileReader(str(path))
    except RuntimeError:
        return {}
    names = [name for name in reader.get_all_records() if name.startswith("code/") and name.endswith(".py")]
    return {name: reader.get_record(name).decode("utf-8", "replace") for name in names}


def is_script(path: Path) -> bool:
    """Return whether a file is TorchScript."""
    return bool(_code(path))


def require_harmless_script(path: Path) -> None:
    """Raise `InputError` for a file of TorchScript whose code reaches beyond tensors: to files, to other processes."""
    for name, text in _code(path).items():
        match = _REACHING_OUT.search(text)
        if match:
            raise refused(path, f"calls {match[1]!r} ({name}, line {text.count(chr(10), 0, match.start()) + 1})")
