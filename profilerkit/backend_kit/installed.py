"""What is installed: a framework's version, without importing it, and libraries that have models by name."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType

from ..errors import InputError

__all__ = ["installed_version", "library_for", "require_version"]

#: Returned for a package whose version cannot be determined.
_UNKNOWN = "of an unknown version"


def installed_version(module: str, *distributions: str) -> str:
    """Return the version of a package without importing it, which may be slow.

    ``distributions`` are further names under which it is published. Raises `ImportError` if it is not installed.
    """
    if module in sys.modules:
        loaded = sys.modules[module]
        is_installed = loaded is not None  # None blocks the import
    else:
        loaded, is_installed = None, find_spec(module) is not None
    if not is_installed:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    if loaded is not None:
        return str(getattr(loaded, "__version__", _UNKNOWN))
    for distribution in (module, *distributions):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return _UNKNOWN


def library_for(asked: str, package: str, module: str = "") -> ModuleType:
    """Return a package, or a module of it, that has the requested model.

    Raises `InputError` if it cannot be imported.
    """
    try:
        library = import_module(package)
        return import_module(module) if module else library
    except ImportError as error:
        raise InputError(
            f"{asked}: needs the package {package!r}, which cannot be imported ({error}); install it"
        ) from error


def require_version(name: str, current: str, minimum: tuple[int, int]) -> None:
    """Raise `ImportError` if a framework is too old; a version that does not start with numbers is accepted."""
    numbers = re.match(r"(\d+)\.(\d+)", current)
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < minimum:
        raise ImportError(f"{name} {current} is too old, {'.'.join(map(str, minimum))} or newer is needed")
