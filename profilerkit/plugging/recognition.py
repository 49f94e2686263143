"""Whose a model is: which backends name its class, the most exact first, and which of them may have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..backend import API_VERSION, OLDEST_API_VERSION, Backend, BackendInfo
from ..errors import BackendNotFoundError, BackendNotInstalledError, RegistrationConflictError
from ..process.containment import contained, said_of
from .loaded_files import in_plain_names
from .manager import Offer, PluginInfo
from .sources import warn

__all__ = ["accepts", "candidates", "claims", "equal_claims", "require_version"]


def candidates(model_type: type, offered: Sequence[Offer[BackendInfo]]) -> Iterator[list[Offer[BackendInfo]]]:
    """Yield the backends that name a class of the model, or a package that it comes from.

    The classes go from the most special to the most general, as Python looks for methods. For each of them the longer
    name comes first: "torch.onnx" before "torch". Backends that name it by names of equal length come together. Each
    backend comes once.
    """
    left = list(offered)
    for cls in model_type.__mro__:
        matches = {id(offer): _length_of_match(cls, offer.item.frameworks) for offer in left}
        for length in sorted({length for length in matches.values() if length}, reverse=True):
            yield [offer for offer in left if matches[id(offer)] == length]
        left = [offer for offer in left if not matches[id(offer)]]


def _length_of_match(cls: type, names: Sequence[str]) -> int:
    """Return how many parts the longest of the names has that the class or its module begins with; 0 for none."""
    path = [*str(cls.__module__).split("."), *cls.__qualname__.split(".")]
    split = [name.split(".") for name in names]
    return max((len(parts) for parts in split if path[: len(parts)] == parts), default=0)


def equal_claims(model: Any, offers_of: list[Offer[BackendInfo]]) -> RegistrationConflictError:
    """Return the error for two backends that claim and accept a model, and name its class equally exactly."""
    first, second = offers_of[:2]
    return RegistrationConflictError(
        f"two backends claim a model of type {in_plain_names(type(model).__module__)}.{type(model).__qualname__} "
        f"equally: {first.item.name!r} of plugin {first.plugin} and {second.item.name!r} of plugin {second.plugin}; "
        f"choose one with backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
        f"{second.plugin.switching_off}"
    )


def accepts(offer: Offer[BackendInfo], backend: Backend, model: Any) -> bool:
    """Say whether a loaded backend accepts a model; not, with a warning, where it cannot be asked."""
    return _answer(offer, "accepts", lambda: backend.accepts(model))


def claims(offer: Offer[BackendInfo], model: Any) -> bool:
    """Say whether a backend claims a model; not, with a warning, where it cannot be asked."""
    return _answer(offer, "claims", lambda: offer.item.claims(model))


def _answer(offer: Offer[BackendInfo], what: str, ask: Callable[[], Any]) -> bool:
    try:
        with contained(offer.plugin, f"{what} of the {offer.item.name} backend"):
            return bool(ask())
    except BackendNotFoundError:
        raise
    except Exception as error:  # an error of a plugin must not stop the others
        said = f"{said_of(error)}; it is left out; {offer.plugin.way_out}"
        message = f"{what} of the {offer.item.name} backend of plugin {offer.plugin} raised {said}"
        warn(message)
        return False


def require_version(info: BackendInfo, giver: PluginInfo | None) -> None:
    """Raise `BackendNotInstalledError` for a backend whose version of the interface is not among those known here."""
    from importlib.metadata import version

    if OLDEST_API_VERSION <= info.api_version <= API_VERSION:
        return
    plugin = "" if giver is None else f" of plugin {giver}"
    known = f"{OLDEST_API_VERSION} to {API_VERSION}" if OLDEST_API_VERSION < API_VERSION else f"{API_VERSION} alone"
    upgrade = "profilerkit: pip install --upgrade profilerkit"
    if info.api_version < OLDEST_API_VERSION:
        upgrade = f"that package: pip install --upgrade '{info.requirement}'"
    out = "" if giver is None else f"; {giver.way_out}"
    raise BackendNotInstalledError(
        f"the {info.name} backend{plugin} is written for version {info.api_version} of the interface of backends, and "
        f"profilerkit {version('profilerkit')} knows {known}; upgrade {upgrade}{out}"
    )
