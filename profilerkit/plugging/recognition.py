"""Recognition of a model: which backends name its class, the longest name first, and which of them accept it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..backend import API_VERSION, OLDEST_API_VERSION, Backend, BackendInfo
from ..errors import BackendNotFoundError, BackendNotInstalledError, RegistrationConflictError
from .loaded_files import in_plain_names
from .manager import Offer, PluginInfo
from .sources import ask_plugin

__all__ = ["accepts", "candidates", "claims", "equal_claims", "require_version"]


def candidates(model_type: type, offered: Sequence[Offer[BackendInfo]]) -> Iterator[list[Offer[BackendInfo]]]:
    """Yield the backends that name a class of the model, or a package that such a class comes from.

    The classes are in the order of the MRO. For each class the longer names come first: "torch.onnx" before "torch".
    Backends whose names have equal length are yielded together, and each backend is yielded once.
    """
    remaining = list(offered)
    for cls in model_type.__mro__:
        matches = {id(offer): _length_of_match(cls, offer.item.frameworks) for offer in remaining}
        for length in sorted({length for length in matches.values() if length}, reverse=True):
            yield [offer for offer in remaining if matches[id(offer)] == length]
        remaining = [offer for offer in remaining if not matches[id(offer)]]


def _length_of_match(cls: type, names: Sequence[str]) -> int:
    """Return the number of parts of the longest name that is a prefix of the class's path; 0 if none is."""
    path = [*str(cls.__module__).split("."), *cls.__qualname__.split(".")]
    split_names = [name.split(".") for name in names]
    return max((len(parts) for parts in split_names if path[: len(parts)] == parts), default=0)


def equal_claims(model: Any, accepting: list[Offer[BackendInfo]]) -> RegistrationConflictError:
    """Return the error for two backends that claim a model with names of equal length and accept it."""
    first, second = accepting[:2]
    return RegistrationConflictError(
        f"two backends claim a model of type {in_plain_names(type(model).__module__)}.{type(model).__qualname__} "
        f"equally: {first.item.name!r} of plugin {first.plugin} and {second.item.name!r} of plugin {second.plugin}; "
        f"choose one with backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
        f"{second.plugin.disable_setting}"
    )


def accepts(offer: Offer[BackendInfo], backend: Backend, model: Any) -> bool:
    """Return whether a loaded backend accepts a model; False, with a warning, if it raises."""
    what = f"accepts of the {offer.item.name} backend"
    return ask_plugin(offer.plugin, what, lambda: backend.accepts(model), BackendNotFoundError)


def claims(offer: Offer[BackendInfo], model: Any) -> bool:
    """Return whether a backend claims a model; False, with a warning, if it raises."""
    what = f"claims of the {offer.item.name} backend"
    return ask_plugin(offer.plugin, what, lambda: offer.item.claims(model), BackendNotFoundError)


def require_version(info: BackendInfo, plugin: PluginInfo | None) -> None:
    """Raise `BackendNotInstalledError` for a backend that is written for an unsupported version of the interface."""
    from importlib.metadata import version

    if OLDEST_API_VERSION <= info.api_version <= API_VERSION:
        return
    source = "" if plugin is None else f" of plugin {plugin}"
    supported = f"{OLDEST_API_VERSION} to {API_VERSION}" if OLDEST_API_VERSION < API_VERSION else f"{API_VERSION} alone"
    upgrade = "profilerkit: pip install --upgrade profilerkit"
    if info.api_version < OLDEST_API_VERSION:
        upgrade = f"that package: pip install --upgrade '{info.requirement}'"
    remedy = "" if plugin is None else f"; {plugin.workaround}"
    raise BackendNotInstalledError(
        f"the {info.name} backend{source} is written for version {info.api_version} of the interface of backends, and "
        f"profilerkit {version('profilerkit')} supports {supported}; upgrade {upgrade}{remedy}"
    )
