"""The capabilities that plugins add to a backend, and the capabilities that they ask backends for."""

from __future__ import annotations

import difflib

from ..backend import Backend
from ..error_text import shown
from ..protocols import Capability
from .manager import list_offers, manager
from .plugin_info import warn

__all__ = ["extend", "list_capabilities"]

_HOOK = "profilerkit_capabilities"


def list_capabilities() -> tuple[Capability, ...]:
    """Return the capabilities that plugins ask backends for, the core's first."""
    return tuple(offer.item for offer in list_offers("profilerkit_protocols", Capability))


def extend(backend: Backend) -> None:
    """Give a backend the capabilities that plugins offer for it; warn of an object that has none of them in full."""
    if not backend.extensions and not manager().find_plugins_with(_HOOK):
        return
    offered = list_offers(_HOOK, object, backend=backend)
    for offer in offered:
        obstacle = _find_obstacle(offer.item)
        if obstacle:
            warn(f"hook {_HOOK} of plugin {offer.plugin} offers {obstacle}")
    backend.extensions = tuple(offer.item for offer in offered if not isinstance(offer.item, type))


def _find_obstacle(item: object) -> str:
    """Return the error of an offered capability: a class, a missing or misspelt method; empty if it is right."""
    if isinstance(item, type):
        return f"the class {item.__name__}, which is left out; return an object, {item.__name__}()"
    protocols = [capability.protocol for capability in list_capabilities()]
    public = {name for name in dir(item) if not name.startswith("_")}
    all_methods: set[str] = set()
    for protocol in protocols:
        methods: frozenset[str] = getattr(protocol, "__abstractmethods__", frozenset())
        all_methods |= methods
        if methods & public and methods - public:
            return f"{shown(item)}, which has no method {min(methods - public)!r} of {protocol.__name__}"
    for name in sorted(public - all_methods):
        for likely in difflib.get_close_matches(name, all_methods - public, n=1, cutoff=0.8):
            return f"{shown(item)} with {name!r}, which no capability has; did you mean {likely!r}?"
    if not any(isinstance(item, protocol) for protocol in protocols):
        return f"{shown(item)}, which has the methods of no capability; profilerkit.protocols has them"
    return ""
