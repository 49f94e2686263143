"""Offers of plugins without a loaded backend: backends by name only, and the functions for any backend."""

from __future__ import annotations

from typing import Any, cast

from ..backend import Backend
from ..piping.registry import Registry
from ..piping.status import Metric
from ..process.cached import cached_property
from .backends import load
from .infos import BackendInfo
from .manager import list_infos
from .offers import list_profiler_functions
from .plugin_info import Offer

__all__ = ["list_default_metrics", "make_stand_in", "names_of_functions", "register_for_any_backend"]


class _Unloaded:
    """Has the name of a backend; any other attribute loads the backend and returns the backend's."""

    def __init__(self, offer: Offer[BackendInfo]) -> None:
        self.name = offer.item.name
        self._offer = offer

    @cached_property
    def _backend(self) -> Backend:
        return load(self._offer)

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:
        """The class of the backend, for ``isinstance``."""
        return type(self._backend)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def make_stand_in(offer: Offer[BackendInfo]) -> Backend:
    """Return a stand-in for a backend, for a hook that may need only its name to return its offers."""
    return cast("Backend", _Unloaded(offer))


def names_of_functions() -> set[str]:
    """Return the status keys that the functions of all plugins compute, for any backend, declared as keys or not."""
    return {
        name
        for backend in list_infos(BackendInfo)
        for offer in list_profiler_functions(make_stand_in(backend))
        for key in offer.item.list_keys()
        for name in (key.NAME, *key.ALIASES)
    }


class _UnknownBackend(Backend):
    """Stands for the backend of a model that is not loaded: offers for it are offers for any backend."""

    name = "unknown"


_UnknownBackend.__abstractmethods__ = frozenset()  # it is made without them, as no plugin calls them


def register_for_any_backend() -> Registry:
    """Return a registry of the functions that plugins offer for every backend."""
    offers = list_profiler_functions(_UnknownBackend())  # type: ignore[abstract]
    return Registry.of_defaults([(offer.item, offer.plugin) for offer in offers], ())


def list_default_metrics(registry: Registry) -> list[str]:
    """Return the metrics that a report has if none are named: all that are not computed on demand only."""
    return [name for name in registry.names() if isinstance(registry[name].key, Metric)]
