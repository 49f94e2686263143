"""The backends that plugins offer, and loading them."""

from __future__ import annotations

from ..backend import Backend
from ..backend_kit.installed import declare_tested, describe_untested
from ..errors import BackendNotFoundError, BackendNotInstalledError, by_likeness
from ..process.containment import contained, plugin_error_text
from .backend_additions import equip
from .infos import API_VERSION, OLDEST_API_VERSION, BackendInfo
from .manager import describe_disabled, find_offer, list_infos, manager
from .plugin_info import Offer

__all__ = ["backend_named", "backends", "load", "not_installed"]


def backends() -> tuple[BackendInfo, ...]:
    """Return the backends of all plugins; two may have the same name."""
    return tuple(offer.item for offer in list_infos(BackendInfo))


def backend_named(name: str) -> Backend:
    """Return a backend by its name."""
    offer = find_offer(BackendInfo, name)
    if offer is None:
        listing = ", ".join(by_likeness(name, [info.name for info in backends()])) or "none"
        raise BackendNotFoundError(f"no backend {name!r}; installed, nearest first: {listing}{describe_disabled()}")
    return load(offer)


def load(offer: Offer[BackendInfo]) -> Backend:
    """Import a backend's framework and return the backend, with the cost formulas that plugins offer for it.

    All profilers share the backend; it is loaded again only after a plugin is registered.

    Raises `BackendNotInstalledError` if the framework or the plugin raises anything, and if the backend is written for
    an unsupported version of the interface.
    """
    # By its identity, because an offer need not be hashable; it is kept, so that no later one has the same.
    _, backend = manager().answer_once(("backend", id(offer.item)), lambda: (offer, _load(offer)))
    return backend


def _load(offer: Offer[BackendInfo]) -> Backend:
    info = offer.item
    if not OLDEST_API_VERSION <= info.api_version <= API_VERSION:
        raise _make_version_error(offer)
    declare_tested(info.name, info.tested)
    try:
        with contained(offer.plugin, f"loading the {info.name} backend"):
            backend = info.load()
    except ImportError as error:
        raise not_installed(info, error) from error
    except MemoryError:
        raise
    except Exception as error:  # a broken shared library, a framework that does not start
        raise _make_unusable_error(offer, plugin_error_text(error)) from error
    if not isinstance(backend, Backend):
        raise _make_unusable_error(offer, f"its load returned {backend!r}, which is no Backend")
    return equip(backend)


# Backends that cannot be used -----------------------------------------------------------------------------------------


def not_installed(info: BackendInfo, error: ImportError) -> BackendNotInstalledError:
    """Return the error for a backend whose framework is missing or too old."""
    mismatch = describe_untested(info.name) if error.name else ""  # without a name it says that a release is too old
    return _make_error(
        f"the {info.name} backend cannot be used: {error}",
        mismatch,
        f"install it with: pip install '{info.requirement}'",
    )


def _make_unusable_error(offer: Offer[BackendInfo], reason: str) -> BackendNotInstalledError:
    """Return the error for a backend whose framework or plugin is broken."""
    info = offer.item
    return _make_error(
        f"the {info.name} backend of plugin {offer.plugin} cannot be used: {reason}",
        describe_untested(info.name),
        f"reinstall or update it with: pip install --upgrade '{info.requirement}'",
        offer.plugin.workaround,
    )


def _make_version_error(offer: Offer[BackendInfo]) -> BackendNotInstalledError:
    """Return the error for a backend that is written for an unsupported version of the interface."""
    from importlib.metadata import version

    info = offer.item
    supported = f"{OLDEST_API_VERSION} to {API_VERSION}" if OLDEST_API_VERSION < API_VERSION else f"{API_VERSION} alone"
    upgrade = "profilerkit: pip install --upgrade profilerkit"
    if info.api_version < OLDEST_API_VERSION:
        upgrade = f"that package: pip install --upgrade '{info.requirement}'"
    return _make_error(
        f"the {info.name} backend of plugin {offer.plugin} is written for version {info.api_version} of the interface "
        f"of backends, and profilerkit {version('profilerkit')} supports {supported}",
        f"upgrade {upgrade}",
        offer.plugin.workaround,
    )


def _make_error(problem: str, *advice: str) -> BackendNotInstalledError:
    """Return the error for a problem, with the advice that is not empty."""
    return BackendNotInstalledError("; ".join(filter(None, (problem, *advice))))
