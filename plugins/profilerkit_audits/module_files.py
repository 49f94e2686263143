"""The files of modules, and the packages that modules belong to. Nothing is imported.

A package that is installed has a version, which tells its code. The code of a module is its own where no version tells
it: the module lies in the user's folder, on ``PYTHONPATH``, or in a package that is installed in editable form, whose
code changes under one version.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from typing import NamedTuple

__all__ = ["Module", "find_module", "find_own_module", "find_versions"]


class Module(NamedTuple):
    """The file of a module, and the folder that it is imported from."""

    file: Path
    folder: Path


def find_module(name: str, folder: Path) -> Path | None:
    """Return the Python file of a module in a folder, or of an installed one; None if there is none."""
    local = _find_local(name, folder)
    if local is not None:
        return local
    root = _find_root(name.partition(".")[0])
    return None if root is None else _find_local(name, root)


def find_own_module(name: str, folder: Path) -> Module | None:
    """Return a module in a folder, or an installed one whose code no version tells; None for others."""
    local = _find_local(name, folder)
    if local is not None:
        return Module(local, folder)
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or _has_version(top):
        return None
    root = _find_root(top)
    file = None if root is None else _find_local(name, root)
    return None if root is None or file is None else Module(file, root)


def _find_local(name: str, folder: Path) -> Path | None:
    """Return the file of a module in a folder; None if there is none."""
    path = folder.joinpath(*name.split("."))
    for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if name and candidate.is_file():
            return candidate
    return None


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


@lru_cache(maxsize=1000)
def _has_version(top: str) -> bool:
    """Return whether the version of a package tells the code of a module: it is installed, and not in editable form.

    profilerkit itself counts as told: its version is part of every key.
    """
    names = _find_distributions().get(top, [])
    return "profilerkit" in names or (bool(names) and not any(map(_is_editable, names)))


def _is_editable(package: str) -> bool:
    origin = distribution(package).read_text("direct_url.json")
    return origin is not None and bool(json.loads(origin).get("dir_info", {}).get("editable"))


@lru_cache(maxsize=1)
def _find_distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


@lru_cache(maxsize=1000)
def find_versions(modules: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the installed packages that modules belong to, with their versions; sorted by name.

    A module of no installed package is left out: it is in the standard library, or it is not there.
    """
    versions = {}
    for module in modules:
        for name in _find_distributions().get(module, [module]):
            with suppress(PackageNotFoundError):
                versions[name.lower()] = version(name)
    return tuple(sorted(versions.items()))
