"""Installed packages: the version of a framework without importing it, and libraries that have models by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType

from ..errors import InputError

__all__ = ["declare_tested", "describe_untested", "find_version", "library_for", "read_numbers", "require_version"]

#: Returned for a package whose version cannot be determined.
_UNKNOWN = "of an unknown version"


def find_version(module: str, *distributions: str) -> str:
    """Return the version of a package without importing it, which may be slow.

    ``distributions`` are further names under which it is published. Raises `ImportError` if it is not installed.
    """
    loaded = sys.modules.get(module)
    if loaded is not None:
        return str(getattr(loaded, "__version__", _UNKNOWN))
    is_blocked = module in sys.modules  # None stands there, which keeps others from importing it
    if is_blocked or find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
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
    numbers = read_numbers(current)
    if len(numbers) > 1 and numbers[:2] < minimum:
        raise ImportError(f"{name} {current} is too old, {'.'.join(map(str, minimum))} or newer is needed")


def read_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version starts with: (2, 15, 0) of "2.15.0+cpu"."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


# The releases that backends are tested with ---------------------------------------------------------------------------


#: The oldest and the newest release of each framework that a backend is tested with, by the backend's name.
_tested: dict[str, Mapping[str, tuple[str, str]]] = {}


def declare_tested(backend: str, releases: Mapping[str, tuple[str, str]]) -> None:
    """Declare the oldest and the newest release of each framework that a backend is tested with.

    Errors of the backend name them if another release is installed. `profilerkit.BackendInfo.tested` is declared when
    the backend is loaded.

    >>> declare_tested("my_backend", {"numpy": ("0.1", "0.2")})
    >>> describe_untested("my_backend").partition(", and")[0]
    'the my_backend backend is tested with numpy 0.1 to 0.2'
    """
    _tested[backend] = releases


def describe_untested(backend: str) -> str:
    """Return in words which releases of a framework a backend is tested with, where another one is installed.

    Of several such frameworks the first is named. The text is empty where there is none.
    """
    for framework, (oldest, newest) in _tested.get(backend, {}).items():
        try:
            current = find_version(framework)
        except ImportError:  # a library that is not needed
            continue
        numbers = read_numbers(current)
        if numbers and not _is_within(numbers, read_numbers(oldest), read_numbers(newest)):
            tested = oldest if oldest == newest else f"{oldest} to {newest}"
            return f"the {backend} backend is tested with {framework} {tested}, and {current} is installed"
    return ""


def _is_within(numbers: tuple[int, ...], oldest: tuple[int, ...], newest: tuple[int, ...]) -> bool:
    """Return whether a release is between the oldest and the newest; each stands for all its patch releases.

    >>> _is_within((0, 2, 5), (0, 1), (0, 2)), _is_within((0, 3), (0, 1), (0, 2))
    (True, False)
    """
    return oldest <= numbers[: len(oldest)] and numbers[: len(newest)] <= newest
