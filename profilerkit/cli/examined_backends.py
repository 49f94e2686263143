"""Whether the backend of a plugin can be used here, and in what environment: one line, whatever goes wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import PluginFailedError, ProfilerKitError, RegistrationConflictError
from ..plugging.backends import load, not_installed
from ..process.containment import contained

if TYPE_CHECKING:
    from ..backend import Backend
    from ..plugging.extension import BackendInfo
    from ..plugging.manager import PluginInfo

__all__ = ["ExaminedBackend", "examine_by_loading", "examine_without_import"]


class ExaminedBackend(NamedTuple):
    """What came of looking at a backend.

    Attributes:
        backend: The backend; None where it cannot be used.
        versions: The versions of what it runs on, by name; None where they could not be asked for.
        problem: What is wrong with it, and what to do, in one line; empty where nothing is. A backend that cannot tell
            its versions has a problem, and can be used all the same.
        conflict: The error of two plugins that offer the same for it; None where there is none.
    """

    backend: Backend | None
    versions: Mapping[str, str] | None = None
    problem: str = ""
    conflict: RegistrationConflictError | None = None

    def write(self) -> str:
        """Return the line for a person: "torch 2.13.0, device cpu", or the problem."""
        return self.problem or ", ".join(f"{name} {version}" for name, version in (self.versions or {}).items())


def examine_without_import(info: BackendInfo, plugin: PluginInfo) -> ExaminedBackend:
    """Ask the plugin of a backend which versions are installed; its framework, which takes seconds, is not imported.

    The backend in the result is a stand-in, which loads the backend at the first use of more than its name.
    """
    from ..plugging.unloaded import make_stand_in

    asking = f"installed() of the {info.name} backend"
    try:
        with contained(plugin, asking):
            versions = {} if info.installed is None else _read_versions(info.installed())
            return ExaminedBackend(make_stand_in(info), versions)
    except ImportError as error:
        return ExaminedBackend(None, problem=_put_in_one_line(not_installed(info, error)))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(None, problem=f"{asking} failed: {_explain(error)}; {plugin.workaround}")


def examine_by_loading(info: BackendInfo, plugin: PluginInfo) -> ExaminedBackend:
    """Load a backend, which imports its framework, and ask it for its environment."""
    from ..backend import Backend

    cannot = f"the {info.name} backend cannot be used"
    try:
        backend: object = load(info)
    except RegistrationConflictError as error:
        return ExaminedBackend(None, problem=_put_in_one_line(error), conflict=error)
    except ProfilerKitError as error:
        return ExaminedBackend(None, problem=_put_in_one_line(error))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(None, problem=f"{cannot}: {_explain(error)}; {plugin.workaround}")
    if not isinstance(backend, Backend):
        return ExaminedBackend(None, problem=f"{cannot}: its load returned {backend!r}, which is no Backend")
    return _ask_for_environment(backend, info, plugin)


def _ask_for_environment(backend: Backend, info: BackendInfo, plugin: PluginInfo) -> ExaminedBackend:
    """Return a backend that was loaded, with its environment.

    Without one it can still be used, so that there is no reason to tell how to do without it.
    """
    asking = f"environment() of the {info.name} backend"
    try:
        with contained(plugin, asking):
            return ExaminedBackend(backend, _read_versions(backend.environment()))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        return ExaminedBackend(backend, problem=f"{asking} failed: {_explain(error)}")


def _read_versions(versions: Mapping[str, str]) -> dict[str, str]:
    """Return what a plugin returned as texts of our own: nothing of it can raise any more when it is written."""
    return {str(name): str(version) for name, version in versions.items()}


def _put_in_one_line(error: ProfilerKitError) -> str:
    """Return the message of an error of profilerkit's own: it says itself what is wrong and what to do."""
    return " ".join(str(error).split())


def _explain(error: Exception) -> str:
    """Return the type and the message, if it has one, of an error that a plugin raised, in one line."""
    from ..error_text import error_line

    cause: BaseException = error
    if isinstance(error, PluginFailedError) and error.__cause__ is not None:  # `contained` put it in place of its cause
        cause = error.__cause__
    return ": ".join(filter(None, [type(cause).__name__, error_line(cause)]))
