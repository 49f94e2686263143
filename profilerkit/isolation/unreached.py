"""A report without values, of the metrics that plugins offer, for a process that ended before it named its metrics."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ..backend import Backend
from ..hooks.offers import list_profiler_functions, list_status_keys
from ..piping.function import Need
from ..piping.outcome import Completeness, Outcome
from ..piping.registry import Registry
from ..piping.status import Metric
from ..process.environment import machine
from ..results.report import Report, StatusRecord

__all__ = ["list_default_metrics", "make_unreached_report", "register_for_any_backend"]


class _UnknownBackend(Backend):
    """Stands for the backend of a model that was not loaded: what plugins offer for it, they offer for any backend."""

    name = "unknown"


_UnknownBackend.__abstractmethods__ = frozenset()  # it is made without them, as no plugin calls them


class _UndeclaredMetric(Metric):
    """A metric that no plugin declares: it has a name alone."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.NAME = name

    def description(self) -> str:
        return ""


def make_unreached_report(name: str, metrics: Iterable[str] | None, static: bool = False) -> Report:
    """Return a report on the model ``name`` that says of each metric that it was not reached.

    Without ``metrics``, it has those that a report has by default: if ``static``, those for which nothing runs.
    """
    if metrics is None:
        registry = register_for_any_backend()
        defaults = list_default_metrics(registry)
        metrics = [key for key in defaults if not (static and registry.find_need(key) is Need.RUN)]
    declared = {offer.item.NAME: offer.item for offer in list_status_keys() if issubclass(offer.item, Metric)}
    unreached = Outcome(None, Completeness.UNAVAILABLE, ("not reached",))
    records = {key: StatusRecord.of(_make_metric(key, declared.get(key)).with_outcome(unreached)) for key in metrics}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Report(name, "unknown", "unknown", records, environment=machine(), created=now)


def _make_metric(name: str, declared: type[Metric] | None) -> Metric:
    """Return a metric of the declared class; one that has a name alone if there is none, or if it cannot be made."""
    if declared is not None:
        try:
            return declared()
        except MemoryError:
            raise
        except Exception:  # its constructor may need arguments
            pass
    return _UndeclaredMetric(name)


def register_for_any_backend() -> Registry:
    """Return a registry of the functions that plugins offer for every backend."""
    offers = list_profiler_functions(_UnknownBackend())  # type: ignore[abstract]
    return Registry.of_defaults([(offer.item, offer.plugin) for offer in offers], ())


def list_default_metrics(registry: Registry) -> list[str]:
    """Return the metrics that a report has if none are named: all that are not computed on demand only."""
    return [name for name in registry.names() if isinstance(registry[name].key, Metric)]
