"""The search for a private name of torch, and the result in a release that does not have the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilerkit.backend_kit.installed import find_version
from profilerkit.backend_kit.private_names import PrivateNames, find

VERSION = find_version("torch")
_TORCH = PrivateNames("torch")
#: The capabilities that are off in this release of torch while calls still work: each trace has these as notes.
lacking = _TORCH.lacking
find_first = _TORCH.find_first


def find_all(*paths: str) -> tuple[Any, ...]:
    """Return the values of the paths that this release has."""
    return tuple(value for path in paths if (value := find(path)) is not None)


def refuse(path: str, purpose: str) -> Callable[..., Any]:
    """Return a function that raises `NotOfferedError`, for a name without which a capability is off."""

    def raise_not_offered(*_: Any, **__: Any) -> Any:
        raise _TORCH.make_refusal(path, purpose)

    return raise_not_offered


def require(path: str, *, purpose: str) -> Any:
    """Return the value of a path; without it a capability is off, and its function raises `NotOfferedError`."""
    return find_first(path, instead=refuse(path, purpose))


def look_up(path: str, purpose: str) -> Any:
    """Return the value of a path, looked up when it is needed; raise `NotOfferedError` if there is none."""
    value = find(path)
    if value is None:
        raise _TORCH.make_refusal(path, purpose)
    return value


def require_class(path: str, *, purpose: str) -> Any:
    """Return a class by its path; if it is missing, a class that cannot be instantiated."""
    return find_first(path, instead=type(path.rpartition(".")[2], (), {"__init__": refuse(path, purpose)}))


def read_attribute(owner: Any, name: str, path: str, purpose: str) -> Any:
    """Return an attribute, which messages name by a path; raise `NotOfferedError` if the owner does not have it."""
    if not hasattr(owner, name):
        raise _TORCH.make_refusal(path, purpose)
    return getattr(owner, name)
