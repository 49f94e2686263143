"""How a private name of torch is looked for, and what happens in a release that has none of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit import NotOfferedError
from profilerkit.backend_kit.installed import find_version
from profilerkit.backend_kit.private_names import find

VERSION = find_version("torch")
#: What is off in this release of torch although calls go on: each trace has these as notes.
lacking: list[str] = []


def find_first(*paths: str, instead: Any = None, off: str = "") -> Any:
    """Return what the first of these paths leads to that this release has; ``instead`` where it has none of them.

    ``off`` says what is off then; it is empty where ``instead`` is another way.
    """
    for path in paths:
        value = find(path)
        if value is not None:
            return value
    if off:
        lacking.append(f"torch {VERSION} has no {paths[0]}: {off}")
    return instead


def find_all(*paths: str) -> tuple[Any, ...]:
    """Return what those of these paths lead to that this release has."""
    return tuple(value for path in paths if (value := find(path)) is not None)


def refuse(path: str, purpose: str, library: str = "torch") -> Callable[..., Any]:
    """Return a function that raises `NotOfferedError`, for a name without which a capability is off."""

    def raise_not_offered(*_: Any, **__: Any) -> Any:
        raise NotOfferedError(
            f"{library} {find_version(library)} has no {path}, by which profilerkit {purpose}; use a release of "
            f"{library} that profilerkit was tested with, or a newer profilerkit"
        )

    return raise_not_offered


def require(path: str, *, purpose: str) -> Any:
    """Return what a path leads to; without it a capability is off, and its function raises `NotOfferedError`."""
    return find_first(path, instead=refuse(path, purpose))


def require_class(path: str, *, purpose: str) -> Any:
    """Return a class by its path; without it one that cannot be instantiated."""
    return find_first(path, instead=type(path.rpartition(".")[2], (), {"__init__": refuse(path, purpose)}))


def read_attribute(owner: Any, name: str, path: str, purpose: str, library: str = "torch") -> Any:
    """Return an attribute, which messages name by a path; `NotOfferedError` where the owner has none of that name."""
    if not hasattr(owner, name):
        refuse(path, purpose, library)()
    return getattr(owner, name)
