"""The releases of frameworks that backends are tested with: errors name them if another one is installed."""

from __future__ import annotations

from collections.abc import Mapping

from .installed import find_version, read_numbers

__all__ = ["declare_tested", "describe_untested"]

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
    """Return whether a release is one of those from the oldest to the newest, which stand for all their patches too.

    >>> _is_within((0, 2, 5), (0, 1), (0, 2)), _is_within((0, 3), (0, 1), (0, 2))
    (True, False)
    """
    return oldest <= numbers[: len(oldest)] and numbers[: len(newest)] <= newest
