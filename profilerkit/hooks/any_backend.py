"""Offers of plugins without a loaded backend: backends by name only, and the functions for any backend."""

from __future__ import annotations

from ..backend import Backend
from ..piping.registry import Registry
from ..piping.status import Metric
from .infos import BackendInfo
from .manager import list_infos
from .offers import list_profiler_functions

__all__ = ["list_default_metrics", "name_only", "names_of_functions", "register_for_any_backend"]


def name_only(name: str) -> Backend:
    """Return a backend that has a name and nothing else: hooks of plugins need no more to return their offers.

    Its class is of this name alone, because the offers for a class of backends are remembered.
    """
    kind = type("NamedBackend", (Backend,), {"name": name})
    kind.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # as no plugin calls them
    named: Backend = kind()
    return named


def names_of_functions() -> set[str]:
    """Return the status keys that the functions of all plugins compute, for any backend, declared as keys or not."""
    return {
        name
        for backend in list_infos(BackendInfo)
        for offer in list_profiler_functions(name_only(backend.item.name))
        for key in offer.item.list_keys()
        for name in (key.NAME, *key.ALIASES)
    }


def register_for_any_backend() -> Registry:
    """Return a registry of the functions that plugins offer for every backend, of whatever name."""
    offers = list_profiler_functions(name_only("unknown"))
    return Registry.of_defaults([(offer.item, offer.plugin) for offer in offers], ())


def list_default_metrics(registry: Registry) -> list[str]:
    """Return the metrics that a report has if none are named: all that are not computed on demand only."""
    return [name for name in registry.names() if isinstance(registry[name].key, Metric)]
