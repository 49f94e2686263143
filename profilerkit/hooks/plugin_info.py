"""The source of a plugin's offers: its name and package, and how to run without it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..errors import PluginWarning, RegistrationConflictError
from ..process.containment import contained, plugin_error_text
from ..process.user_lines import find_stack_level

__all__ = [
    "DISABLE",
    "GROUP",
    "Offer",
    "PluginInfo",
    "conflict",
    "normal_name",
    "tolerate",
    "warn",
]

#: The group of entry points, and the project name for pluggy.
GROUP = "profilerkit"
#: The environment variable that disables plugins: comma-separated names of entry points or distributions.
DISABLE = "PROFILERKIT_DISABLE_PLUGINS"
T = TypeVar("T")


@dataclass(frozen=True)
class PluginInfo:
    """The source of a plugin.

    Attributes:
        name: The name of its entry point.
        module: Its module.
        package: The name of its distribution; empty if there is none.
        version: The version of the distribution.
        is_by_code: Whether code registered it with the manager, and not a package.
        is_ambiguous: Whether another installed plugin has the same name, and only the package's name is unique.
        is_own: Whether it is one of profilerkit's own plugins.
    """

    name: str
    module: str
    package: str = ""
    version: str = ""
    is_by_code: bool = False
    is_ambiguous: bool = field(default=False, compare=False)
    is_own: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_own", normal_name(self.package) == GROUP)

    @property
    def distribution(self) -> str:
        """Its package with the version, in words."""
        if self.is_by_code:
            return "no package (registered by code)"
        return f"{self.package} {self.version}".strip() or "an unknown package"

    @property
    def names_to_disable(self) -> frozenset[str]:
        """The names by which it can be disabled: its own name, and the name of its package."""
        return frozenset(normal_name(name) for name in (self.name, self.package) if name)

    @property
    def disable_setting(self) -> str:
        """The setting of the environment variable that disables this plugin and, if possible, no other."""
        return f"{DISABLE}={self.package if self.package and self.is_ambiguous else self.name}"

    @property
    def workaround(self) -> str:
        """How to run without it, for the end of an error message."""
        if self.is_by_code:
            return "to do without it, leave out the code that registers it"
        or_none = "" if self.is_own else ", or run profilerkit --no-plugins"
        return f"to do without it, set {self.disable_setting}{or_none}"

    @property
    def repair(self) -> str:
        """How to fix the plugin, if the fault is in it."""
        if self.is_own:
            return "rename one of them, or reinstall profilerkit"
        return "change the code that registers it" if self.is_by_code else "update or uninstall that package"

    def __str__(self) -> str:
        return f"{self.name!r} of {self.distribution}"


@dataclass(frozen=True)
class Offer(Generic[T]):
    """A result of a hook, or one item of the result, with the plugin that returned it."""

    plugin: PluginInfo
    item: T


def normal_name(name: str) -> str:
    """Return the normalized name of a package or plugin, as installers do: ``My_Pack`` is ``my-pack``."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


@contextmanager
def tolerate(
    plugin: PluginInfo, doing: str, after: str = "", *, before: str = "", passed_on: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn an error of a plugin's code inside a ``with`` block into a warning: it must not stop the others.

    Interrupts are raised as `contained` raises them. A lack of memory is not the plugin's fault, and raised too.

    Args:
        plugin: The plugin.
        doing: The action of its code, for `contained`.
        after: The words of the warning after the text of the error.
        before: The words before the text of the error; empty for "``doing`` of the plugin raised".
        passed_on: The errors that the code may raise on purpose.
    """
    try:
        with contained(plugin, doing):
            yield
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, passed_on):
            raise
        raised = before or f"{doing} of plugin {plugin} raised "
        warn(f"{raised}{plugin_error_text(error)}{after}; {plugin.workaround}")


def warn(message: str) -> None:
    """Warn with a `PluginWarning`, at the line outside of profilerkit and pluggy that led to it."""
    warnings.warn(message, PluginWarning, stacklevel=find_stack_level())


def conflict(what: str, first: PluginInfo, second: PluginInfo, further: str = "") -> RegistrationConflictError:
    """Return the error of two plugins, or one twice, that offer the same, with the remedy."""
    if first == second:
        return RegistrationConflictError(f"plugin {first} offers {what} twice; {first.repair}")
    first, second = sorted((first, second), key=lambda plugin: plugin.is_by_code)
    remedy = f"uninstall one of the packages, or switch one plugin off: {second.disable_setting}"
    if second.is_by_code:
        remedy = f"leave out the code that registers {second.name!r}"
    return RegistrationConflictError(f"two plugins offer {what}: {first} and {second}; {remedy}{further}")
