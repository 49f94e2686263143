"""Which metrics run the model: only with them does the machine matter, and who else runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backend import Backend
from ..isolation.child import risk
from ..piping.registry import Registry
from ..piping.status import Metric
from ..plugging.offers import functions_offered

__all__ = ["runs_the_model"]


def runs_the_model(metrics: Sequence[str] | None, leave_out: Sequence[str] = ()) -> bool:
    """Return whether one of the metrics, or of all that are computed by default, runs the model.

    A name that no plugin computes for every backend is taken for one that does.
    """
    registry, defaults = _registry()
    names = defaults if metrics is None else metrics
    return any(name not in registry or risk(name, registry) == 2 for name in names if name not in leave_out)


def _registry() -> tuple[Registry, tuple[str, ...]]:
    """Return a registry of what plugins offer for any backend, and the names that a report has by default."""
    stand_in: Any = type("AnyBackend", (Backend,), {"name": "any"})
    stand_in.__abstractmethods__ = frozenset()
    registry, defaults = Registry(), []
    for offer in functions_offered(stand_in()):
        registry.register(offer.item)
        if not offer.item.ON_DEMAND:
            defaults += [key.NAME for key in offer.item.bounded_keys() if isinstance(key, Metric)]
    return registry, tuple(defaults)
