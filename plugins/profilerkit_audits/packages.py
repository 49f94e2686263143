"""The installed packages that a row depends on, with their versions."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from platform import python_version

from profilerkit.hooks.manager import list_plugins

__all__ = ["find_measuring_packages", "find_versions", "has_version"]


def find_measuring_packages() -> dict[str, str]:
    """Return the versions of Python and of the packages that count and measure: profilerkit and its plugins."""
    names = {"profilerkit", *(plugin.package for plugin in list_plugins() if plugin.package)}
    return {"python": python_version(), **dict(find_versions(frozenset(names)))}


@lru_cache(maxsize=1000)
def has_version(top: str) -> bool:
    """Return whether a package's version identifies a module's code: the package is installed, not in editable form.

    The version of profilerkit counts, too: it is part of every key.
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
    """Return the installed packages that modules belong to, or that have these names, with their versions; sorted.

    A module of no installed package is left out: it is in the standard library, or it does not exist.
    """
    versions = {}
    for module in modules:
        for name in _find_distributions().get(module, [module]):
            with suppress(PackageNotFoundError):
                versions[name.lower()] = version(name)
    return tuple(sorted(versions.items()))
