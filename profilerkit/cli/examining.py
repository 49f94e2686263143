"""Whether the backend of a plugin can be used here: one line, whatever goes wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..error_text import error_line
from ..errors import PluginFailedError, ProfilerKitError, RegistrationConflictError, error_summary
from ..hooks.backends import load, not_installed
from ..process.containment import contained

if TYPE_CHECKING:
    from ..backend import Backend
    from ..hooks.infos import BackendInfo
    from ..hooks.plugin_info import Offer

__all__ = ["ExaminedBackend", "examine_by_loading", "examine_without_import"]


class ExaminedBackend(NamedTuple):
    """The state of a backend on this machine.

    Attributes:
        backend: The backend; None if it cannot be used.
        line: Its description, "torch 2.13.0, device cpu", or what is wrong and what to do. A backend that cannot tell
            its versions is usable nevertheless.
        conflict: The error of two plugins that make the same offer for it; None if there is none.
    """

    backend: Backend | None
    line: str
    conflict: RegistrationConflictError | None = None


def examine_without_import(offer: Offer[BackendInfo]) -> ExaminedBackend:
    """Ask the plugin of a backend which versions are installed; its framework, which takes seconds, is not imported.

    The backend in the result has its name only.
    """
    from ..hooks.any_backend import name_only

    info, plugin = offer.item, offer.plugin
    asking = f"installed() of the {info.name} backend"
    try:
        with contained(plugin, asking):
            line = "" if info.installed is None else _write_versions(info.installed())
            return ExaminedBackend(name_only(info.name), line)
    except ImportError as error:
        return ExaminedBackend(None, error_line(not_installed(info, error)))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(None, f"{asking} failed: {_explain(error)}; {plugin.workaround}")


def examine_by_loading(offer: Offer[BackendInfo]) -> ExaminedBackend:
    """Load a backend, which imports its framework, and ask it for its environment.

    Without an environment it can still be used, so that there is no reason to tell how to do without it.
    """
    try:
        backend = load(offer)
    except ProfilerKitError as error:
        conflict = error if isinstance(error, RegistrationConflictError) else None
        return ExaminedBackend(None, error_line(error), conflict)
    asking = f"environment() of the {offer.item.name} backend"
    try:
        with contained(offer.plugin, asking):
            return ExaminedBackend(backend, _write_versions(backend.environment()))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(backend, f"{asking} failed: {_explain(error)}")


def _write_versions(versions: Mapping[str, str]) -> str:
    """Return the versions from a plugin as a plain text: no code of the plugin can raise when it is written."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _explain(error: Exception) -> str:
    """Return the type and the message, if it has one, of an error that a plugin raised, in one line."""
    is_contained = isinstance(error, PluginFailedError) and error.__cause__ is not None
    return error_summary(error.__cause__ if is_contained else error)
