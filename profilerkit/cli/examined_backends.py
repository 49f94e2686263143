"""Whether the backend of a plugin can be used here, and in what environment: one line, whatever goes wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ProfilerKitError, RegistrationConflictError
from ..plugging.backends import load, not_installed
from ..process.containment import contained, plugin_error_text

if TYPE_CHECKING:
    from ..backend import Backend
    from ..plugging.extension import BackendInfo
    from ..plugging.manager import PluginInfo

__all__ = ["ExaminedBackend", "ask_for_versions", "load_backend"]


class ExaminedBackend(NamedTuple):
    """What came of looking at a backend.

    Attributes:
        backend: The backend; None where it cannot be used.
        state: Its environment in words, "torch 2.13.0, cpu"; or why it cannot be used.
        conflict: The error of two plugins that offer the same for it; None where there is none.
    """

    backend: Backend | None
    state: str
    conflict: RegistrationConflictError | None = None


def ask_for_versions(info: BackendInfo, plugin: PluginInfo) -> ExaminedBackend:
    """Do what `load_backend` does without importing the framework: the plugin names the versions installed."""
    from ..plugging.unloaded import make_stand_in

    try:
        with contained(plugin, f"installed() of the {info.name} backend"):
            versions = info.installed() if info.installed is not None else {}
            return ExaminedBackend(make_stand_in(info), _write_versions(versions))
    except ImportError as error:
        return ExaminedBackend(None, _describe_error(not_installed(info, error)))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        message = " ".join(plugin_error_text(error).split())
        return ExaminedBackend(None, f"installed() of the {info.name} backend failed: {message}; {plugin.workaround}")


def load_backend(info: BackendInfo, plugin: PluginInfo) -> ExaminedBackend:
    """Load a backend, which imports its framework, and ask it for its environment."""
    from ..backend import Backend

    cannot = f"the {info.name} backend cannot be used"
    try:
        backend: object = load(info)
    except RegistrationConflictError as error:
        return ExaminedBackend(None, _describe_error(error), error)
    except ProfilerKitError as error:
        return ExaminedBackend(None, _describe_error(error))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(None, f"{cannot}: {_describe_error(error)}; {plugin.workaround}")
    if not isinstance(backend, Backend):
        return ExaminedBackend(None, f"{cannot}: its load returned {backend!r}, which is no Backend")
    try:
        with contained(plugin, f"environment() of the {info.name} backend"):
            return ExaminedBackend(backend, _write_versions(backend.environment()))
    except Exception as error:
        return ExaminedBackend(backend, f"environment() of the {info.name} backend failed: {_describe_error(error)}")


def _write_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items())


def _describe_error(error: BaseException) -> str:
    """Return what an error says in one line; ours say themselves what is wrong, of others the type is needed."""
    from ..error_text import error_line

    if isinstance(error, ProfilerKitError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {error_line(error)}".removesuffix(": ")
