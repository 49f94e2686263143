"""The plugins of installed packages: found by their entry points, imported, and registered with a manager."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..errors import by_likeness
from .hook_manager import Manager
from .sources import DISABLE, GROUP, PluginInfo, normal_name, tolerate, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["InstalledPlugins"]


class _Imported(NamedTuple):
    """A plugin that is imported, and the name by which no other is registered."""

    name: str
    info: PluginInfo
    plugin: object


@dataclass
class InstalledPlugins:
    """The installed plugins: those that are loaded, by the name in the manager, and those that are switched off."""

    manager: Manager = field(default_factory=Manager)
    loaded: dict[str, PluginInfo] = field(default_factory=dict)
    switched_off: list[PluginInfo] = field(default_factory=list)

    def load_all(self, is_own_only: bool) -> None:
        """Load all plugins that are not disabled, or profilerkit's own alone; a broken one is left out, with a warning.

        Own plugins come first, the core before all, then the others by name: the order of installers has no meaning.
        """
        points = sorted(
            _list_entry_points(),
            key=lambda point: (not _is_own(point), _name_distribution(point), point.name != "core", point.name),
        )
        disabled = [name for name in map(normal_name, os.environ.get(DISABLE, "").split(",")) if name]
        counts = Counter(name for point in points for name in set(_list_names(point)))
        imported: list[_Imported] = []
        for point in points:
            is_ambiguous = counts[normal_name(point.name)] > 1
            info = PluginInfo(point.name, point.value, _name_distribution(point), is_ambiguous)
            if (is_own_only and not _is_own(point)) or not set(_list_names(point)).isdisjoint(disabled):
                self.switched_off.append(info)
            else:
                self._import(point, info, imported)
        # pluggy calls the plugin first that was registered last, so each group is called in the order of its names. Own
        # plugins are ``tryfirst``: they are called before all others, except for others that are ``tryfirst`` too.
        imported.reverse()
        for plugin in sorted(imported, key=lambda plugin: not plugin.info.is_own):
            self._register(plugin)
        _warn_of_unknown(disabled, dict.fromkeys(name for point in points for name in _list_names(point)))

    def _import(self, point: EntryPoint, info: PluginInfo, imported: list[_Imported]) -> None:
        """Import a plugin and append it to ``imported``, under a name of its own."""
        name = info.name if info.name not in self.loaded else f"{info.name} ({info.distribution})"
        with _tolerate(info, "the loading"):
            plugin = point.load()
            for other in imported:
                if other.plugin == plugin:
                    raise ValueError(f"it is the same as plugin {other.info}")
            self.loaded[name] = info
            imported.append(_Imported(name, info, plugin))

    def _register(self, imported: _Imported) -> None:
        name, info, plugin = imported
        with _tolerate(info, "the registration"):
            if self.manager.register_from(info, plugin, name) is not None:
                return
            self.switched_off.append(info)  # the name is blocked by code
        del self.loaded[name]


def _tolerate(info: PluginInfo, doing: str) -> tolerate:
    after = ") and is left out; update or uninstall that package"
    return tolerate(info, doing, f"plugin {info} cannot be loaded (", after)


def _warn_of_unknown(disabled: Iterable[str], names: Collection[str]) -> None:
    """Warn of names in the environment variable that disable no plugin."""
    for name in disabled:
        if name not in names:
            listing = ", ".join(by_likeness(name, names)) or "none"
            warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")


# Entry points ---------------------------------------------------------------------------------------------------------


def _list_entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    return entry_points(group=GROUP)


def _name_distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _is_own(point: EntryPoint) -> bool:
    return point.dist is not None and normal_name(point.dist.name) == GROUP


def _list_names(point: EntryPoint) -> list[str]:
    """Return the names that a plugin can be disabled by: its own, and that of its package."""
    return [normal_name(name) for name in (point.name, point.dist.name if point.dist else "") if name]
