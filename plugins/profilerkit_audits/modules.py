"""Where the file of a module lies, whether its code is the model's own, and the versions of installed packages.

An installed package has a version, which identifies its code. A module's code is the model's own code if no version
identifies it: the module lies in the user's folder, on ``PYTHONPATH``, or in a package that is installed in editable
form, whose code changes under one version.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path
from platform import python_version
from typing import NamedTuple

from profilerkit.hooks.manager import list_plugins


class Module(NamedTuple):
    """The file of a module, and the folder that it is imported from."""

    file: Path
    folder: Path


#: The folders that packages are installed in; those of a Linux distribution may have no list of their files.
_INSTALLED = ("site-packages", "dist-packages")
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


# Versions -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def has_version(top: str) -> bool:
    """Return whether a package's version identifies a module's code: the package is installed, not in editable form.

    A folder of sources on the path may have metadata, too: an ``egg-info``, without a list of what was installed. The
    version of profilerkit counts: it is part of every key.
    """
    names = _find_distributions().get(top, [])
    if "profilerkit" in names:
        return True
    return bool(names) and all(map(_is_copied, map(distribution, names)))


def _is_copied(package: Distribution) -> bool:
    """Return whether a package was copied to where packages are installed."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    is_installed = Path(str(package.locate_file(""))).name in _INSTALLED or package.read_text("RECORD") is not None
    return is_installed and not origin.get("dir_info", {}).get("editable")


@lru_cache(maxsize=1)
def _find_distributions() -> dict[str, list[str]]:
    """Return by top-level module the installed packages that it belongs to."""
    return dict(packages_distributions())


@lru_cache(maxsize=1000)
def find_versions(modules: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the installed packages that modules belong to, or that have these names, with their versions; sorted.

    A module of no installed package is left out: it is in the standard library, or it does not exist.
    """
    versions = {}
    for module in modules:
        for name in _find_distributions().get(module, [module]):
            with suppress(PackageNotFoundError):
                versions[name.lower()] = version(name)
    return tuple(sorted(versions.items()))


def find_measuring_packages() -> dict[str, str]:
    """Return the versions of Python and of the packages that count and measure: profilerkit and its plugins."""
    names = {"profilerkit", *(plugin.package for plugin in list_plugins() if plugin.package)}
    return {"python": python_version(), **dict(find_versions(frozenset(names)))}
