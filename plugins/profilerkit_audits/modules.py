"""Where the file of a module lies, and whether its code is the model's own.

An installed package has a version, which identifies its code. A module's code is the model's own code if no version
identifies it: the module lies in the user's folder, on ``PYTHONPATH``, or in a package that is installed in editable
form, whose code changes under one version.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from .packages import has_version

__all__ = ["Module", "find_module", "find_own_module"]


class Module(NamedTuple):
    """The file of a module, and the folder that it is imported from."""

    file: Path
    folder: Path


#: How the file of a module ends, in the order in which Python looks.
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)


def find_module(name: str, folder: Path) -> Path | None:
    """Return the file of a module in a folder, or of an installed module; None if there is none."""
    local = _find_local(name, folder)
    if local is not None:
        return local
    root = _find_root(name.partition(".")[0])
    return None if root is None else _find_local(name, root)


def find_own_module(name: str, folder: Path) -> Module | None:
    """Return a module in a folder, or an installed module whose code no version identifies; None for others."""
    local = _find_local(name, folder)
    if local is not None:
        return Module(local, folder)
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or has_version(top):
        return None
    root = _find_root(top)
    file = None if root is None else _find_local(name, root)
    return None if root is None or file is None else Module(file, root)


def _find_local(name: str, folder: Path) -> Path | None:
    """Return the file of a module in a folder, the first that Python finds; None if there is none."""
    if not name:
        return None
    path = folder.joinpath(*name.split("."))
    bases = (path / "__init__", path)  # a package comes before a module of its name
    files = (base.with_name(f"{base.name}{suffix}") for base in bases for suffix in _SUFFIXES)
    return next(filter(Path.is_file, files), None)


def _find_root(top: str) -> Path | None:
    """Return the folder that a module is imported from; nothing is imported for a name without a dot."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module that is there already, and does not say from where
        return None
    if spec is None:
        return None
    places = [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    return Path(places[0]).parent if places else None
