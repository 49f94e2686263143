"""The plugin manager: finds what is installed, guards against what is broken, and knows what comes from where."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pluggy

from . import hookspecs
from .backend import Backend, BackendInfo
from .errors import BackendNotFoundError, BackendNotInstalledError, PluginWarning, by_likeness
from .function import ProfilerFunction

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "backend_named",
    "backends",
    "default_functions",
    "find_backend",
    "installed_plugins",
    "manager",
]

GROUP = "profilerkit"


@dataclass(frozen=True)
class PluginInfo:
    """Where a plugin comes from: the entry point's name, its module, and the distribution with its version."""

    name: str
    module: str
    distribution: str


@cache
def manager() -> pluggy.PluginManager:
    """Return the plugin manager, with every installed plugin that can be loaded."""
    plugins = pluggy.PluginManager(GROUP)
    plugins.add_hookspecs(hookspecs)
    for entry_point in _entry_points():
        origin = f"{entry_point.name!r} of {_distribution(entry_point)}"
        try:
            plugin = entry_point.load()
            plugins.register(plugin, name=entry_point.name)
        except Exception as error:  # whatever a plugin does wrong, the others go on
            warnings.warn(
                f"plugin {origin} cannot be loaded ({type(error).__name__}: {error}) and is left out; "
                "update or uninstall that package",
                PluginWarning,
                stacklevel=2,
            )
    _report_misspelt_hooks(plugins)
    return plugins


def _report_misspelt_hooks(plugins: pluggy.PluginManager) -> None:
    known = {name for name in vars(hookspecs) if name.startswith(f"{GROUP}_")}
    for name, plugin in plugins.list_name_plugin():
        for attribute in vars(plugin):
            if attribute not in known and plugins.parse_hookimpl_opts(plugin, attribute) is not None:
                warnings.warn(
                    f"plugin {name!r} has a hook {attribute!r} that does not exist; did you mean "
                    f"{by_likeness(attribute, known)[0]!r}?",
                    PluginWarning,
                    stacklevel=3,
                )


@cache
def installed_plugins() -> tuple[PluginInfo, ...]:
    """Return where each loaded plugin comes from."""
    loaded = {name for name, _ in manager().list_name_plugin()}
    return tuple(
        PluginInfo(entry_point.name, entry_point.value, _distribution(entry_point))
        for entry_point in _entry_points()
        if entry_point.name in loaded
    )


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    return entry_points(group=GROUP)


def _distribution(entry_point: EntryPoint) -> str:
    distribution = entry_point.dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unknown package"


def backends() -> tuple[BackendInfo, ...]:
    """Return the backends of all plugins."""
    return tuple(_offered("profilerkit_backends"))


def default_functions(backend: Backend) -> list[ProfilerFunction]:
    """Return the functions that all plugins offer for a backend, in the order of their registration."""
    return list(_offered("profilerkit_profiler_functions", backend=backend))


def _offered(hook: str, **arguments: Any) -> Iterator[Any]:
    """Yield what each plugin's hook returns, in the order of their registration; one that raises is left out."""
    for implementation in getattr(manager().hook, hook).get_hookimpls():
        try:
            named = {name: arguments[name] for name in implementation.argnames}
            yield from implementation.function(**named)
        except Exception as error:  # whatever a plugin does wrong, the others go on
            warnings.warn(
                f"hook {hook} of plugin {implementation.plugin_name!r} raised {type(error).__name__}: {error}; what it "
                "offers is left out",
                PluginWarning,
                stacklevel=3,
            )


def find_backend(model: Any) -> Backend:
    """Return the backend for a model, recognised by where the classes of its MRO come from.

    The first class that a backend claims decides, so that a Keras model is Keras' also where it runs on torch.
    """
    known = backends()
    for cls in type(model).__mro__:
        root = cls.__module__.partition(".")[0]
        for info in known:
            if root in info.frameworks and info.claims(model):
                return load(info)
    listing = ", ".join(info.name for info in known) or "none: reinstall profilerkit, its entry points are missing"
    raise BackendNotFoundError(
        f"no backend recognises a model of type {type(model).__module__}.{type(model).__qualname__}; "
        f"backends installed: {listing}; pass backend=... to choose one"
    )


def backend_named(name: str) -> Backend:
    """Return a backend by its name."""
    known = {info.name: info for info in backends()}
    if name not in known:
        listing = ", ".join(by_likeness(name, known)) or "none"
        raise BackendNotFoundError(f"no backend {name!r}; installed, nearest first: {listing}")
    return load(known[name])


def load(info: BackendInfo) -> Backend:
    """Import a backend's framework and return the backend."""
    try:
        return info.load()
    except ImportError as error:
        raise BackendNotInstalledError(
            f"the {info.name} backend cannot be used: {error}; install it with: pip install '{info.requirement}'"
        ) from error
