"""Loading plugins: when the first is needed, each guarded against what is wrong with it, with where it comes from."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pluggy

from .. import hookspecs
from ..error_text import shown
from ..errors import PluginWarning, by_likeness
from ..process.containment import contained, said_of
from ..process.locks import Lock, undone_in_child

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = [
    "DISABLE",
    "Offer",
    "PluginInfo",
    "announce",
    "forget_loaded",
    "installed_plugins",
    "manager",
    "offered_by",
    "offers",
    "own_alone",
    "switched_off_plugins",
    "without_others",
]

GROUP = "profilerkit"
_BY_CODE = "no package (registered by code)"
#: The environment variable that switches plugins off: names of entry points or of distributions, with commas between.
DISABLE = "PROFILERKIT_DISABLE_PLUGINS"
T = TypeVar("T")


@dataclass(frozen=True)
class PluginInfo:
    """Where a plugin comes from: the entry point's name, its module, and the distribution with its version."""

    name: str
    module: str
    distribution: str
    #: Whether another plugin that is installed goes by the name, so that only that of its package is clear.
    is_ambiguous: bool = field(default=False, compare=False)

    @property
    def switching_off(self) -> str:
        """The setting that switches it off and, where there is one, no plugin of another package."""
        return f"{DISABLE}={self.package if self.package and self.is_ambiguous else self.name}"

    @property
    def way_out(self) -> str:
        """How to do without it."""
        if self.is_by_code:
            return "to do without it, leave out the code that registers it"
        or_none = "" if self.is_own else ", or run profilerkit --no-plugins"
        return f"to do without it, set {self.switching_off}{or_none}"

    @property
    def package(self) -> str:
        """The name of the distribution, "" where it has none."""
        package, _, version = self.distribution.rpartition(" ")
        return package if version[:1].isdigit() else ""

    @property
    def is_own(self) -> bool:
        """Whether it is one of profilerkit's."""
        return _normal(self.package) == GROUP

    @property
    def is_by_code(self) -> bool:
        """Whether code registered it with the manager, and no package."""
        return self.distribution == _BY_CODE

    def __str__(self) -> str:
        return f"{self.name!r} of {self.distribution}"


@dataclass(frozen=True)
class Offer(Generic[T]):
    """One thing that a hook returned, and the plugin it comes from."""

    plugin: PluginInfo
    item: T


@dataclass
class _Loaded:
    manager: pluggy.PluginManager
    plugins: dict[str, PluginInfo] = field(default_factory=dict)
    switched_off: list[PluginInfo] = field(default_factory=list)


_LOCK = Lock()
#: What is loaded with all plugins (False) and with profilerkit's own alone (True).
_loaded: dict[bool, _Loaded] = {}
#: The blocks of `own_alone` that are open.
_without_others: list[bool] = []


def manager() -> pluggy.PluginManager:
    """Return the plugin manager, with every installed plugin that can be loaded and is not switched off."""
    return _state().manager


def installed_plugins() -> tuple[PluginInfo, ...]:
    """Return where each loaded plugin comes from, profilerkit's own first."""
    return tuple(_state().plugins.values())


def switched_off_plugins() -> tuple[PluginInfo, ...]:
    """Return the plugins that are installed, but switched off."""
    return tuple(_state().switched_off)


@contextmanager
def own_alone() -> Iterator[None]:
    """Do without every plugin that is not profilerkit's own; what was loaded before is there again at the end."""
    _without_others.append(True)
    try:
        with undone_in_child(_without_others.pop):
            yield
    finally:
        _without_others.pop()


def without_others() -> bool:
    """Say whether plugins that are not profilerkit's own are done without right now."""
    return bool(_without_others)


def forget_loaded() -> None:
    """Forget which plugins are loaded, so that the next use looks for them again."""
    with _LOCK:
        _loaded.clear()


def _state() -> _Loaded:
    with _LOCK:
        own = without_others()
        state = _loaded.get(own)
        if state is None:
            # Kept first, for a plugin that asks for the manager while it is loaded.
            state = _loaded[own] = _Loaded(pluggy.PluginManager(GROUP))
            try:
                with undone_in_child(lambda: _loaded.pop(own, None)):
                    state.manager.add_hookspecs(hookspecs)
                    _load_all(state, own)
                    _report_misspelt_hooks(state)
                    _tell(state, "profilerkit_configure", manager=state.manager)
            except BaseException:  # a warning that the user made an error, or Ctrl-C: nothing is loaded by halves
                del _loaded[own]
                raise
        return state


def _load_all(state: _Loaded, own: bool) -> None:
    unwanted = [name for name in map(_normal, os.environ.get(DISABLE, "").split(",")) if name]
    known: dict[str, None] = {}
    # Own ones first and the others by name: the order in which installers wrote them says nothing.
    points = sorted(_entry_points(), key=lambda each: (not _is_own(each), _distribution(each), each.name))
    called = Counter(name for point in points for name in set(_names(point)))
    for point in points:
        names = _names(point)
        info = PluginInfo(point.name, point.value, _distribution(point), called[_normal(point.name)] > 1)
        known.update(dict.fromkeys(names))
        if (own and not _is_own(point)) or not set(names).isdisjoint(unwanted):
            state.switched_off.append(info)
        else:
            _load(state, point, info)
    for name in unwanted:
        if name not in known:
            listing = ", ".join(by_likeness(name, known)) or "none"
            _warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")


def _names(point: EntryPoint) -> list[str]:
    """Return what a plugin can be called: its own name, and that of its package."""
    return [_normal(name) for name in (point.name, point.dist.name if point.dist else "") if name]


def _load(state: _Loaded, point: EntryPoint, info: PluginInfo) -> None:
    name = info.name if info.name not in state.plugins else f"{info.name} ({info.distribution})"
    try:
        with contained(info, "the loading"):
            plugin = point.load()
        already = state.manager.get_name(plugin)
        if already is not None:
            raise ValueError(f"it is the same as plugin {state.plugins[already]}")
        try:
            with contained(info, "the registration"):
                state.manager.register(plugin, name=name)
        except BaseException:
            state.manager.unregister(name=name)
            raise
    except Exception as error:
        why = f"cannot be loaded ({said_of(error)}) and is left out"
        _warn(f"plugin {info} {why}; update or uninstall that package; {info.way_out}")
    else:
        state.plugins[name] = info


def _report_misspelt_hooks(state: _Loaded) -> None:
    known = {name for name in vars(hookspecs) if name.startswith(f"{GROUP}_")}
    for name, plugin in state.manager.list_name_plugin():
        options = {each: state.manager.parse_hookimpl_opts(plugin, each) for each in dir(plugin)}
        marked = {given.get("specname") or each for each, given in options.items() if given is not None}
        for hook in sorted(marked - known):
            meant = by_likeness(hook, known)[0]
            _warn(f"plugin {_info(state, name)} has a hook {hook!r} that does not exist; did you mean {meant!r}?")
        for hook in sorted(known.intersection(getattr(plugin, "__dict__", ())) - marked):
            _warn(f"plugin {_info(state, name)} has a function {hook!r} that is no hook; mark it @profilerkit.hookimpl")


def offers(hook: str, kind: type, **arguments: Any) -> list[Offer[Any]]:
    """Return what each plugin's hook offers, in the order of their registration; one that raises is left out.

    A hook that returns None offers nothing. What is no ``kind`` is left out, with a warning.
    """
    return [
        Offer(plugin, item)
        for plugin, returned in offered_by(hook, lambda items: list(items or ()), **arguments)
        for item in returned
        if _is(kind, item, hook, plugin)
    ]


def offered_by(
    hook: str, read: Callable[[Any], T], asked: Callable[[PluginInfo], bool] = lambda plugin: True, **arguments: Any
) -> Iterator[tuple[PluginInfo, T]]:
    """Yield each ``asked`` plugin with what ``read`` makes of its hook's result; one that raises is left out."""
    state = _state()
    for implementation in getattr(state.manager.hook, hook).get_hookimpls():
        plugin = _info(state, implementation.plugin_name)
        if not asked(plugin):
            continue
        try:
            with contained(plugin, f"hook {hook}"):
                found = read(implementation.function(**{name: arguments[name] for name in implementation.argnames}))
        except Exception as error:
            left = f"what it offers is left out; {plugin.way_out}"
            _warn(f"hook {hook} of plugin {plugin} raised {said_of(error)}; {left}")
        else:
            yield plugin, found


def announce(report: Report | Comparison) -> None:
    """Tell every plugin of a result; what one raises is a warning, for the result must not be lost."""
    _tell(_state(), "profilerkit_report_created", report=report)


def _tell(state: _Loaded, hook: str, **arguments: Any) -> None:
    for implementation in getattr(state.manager.hook, hook).get_hookimpls():
        plugin = _info(state, implementation.plugin_name)
        try:
            with contained(plugin, f"hook {hook}"):
                implementation.function(**{name: arguments[name] for name in implementation.argnames})
        except Exception as error:
            goes_on = f"profilerkit goes on without it; {plugin.way_out}"
            _warn(f"hook {hook} of plugin {plugin} raised {said_of(error)}; {goes_on}")


def _is(kind: type, item: Any, hook: str, plugin: PluginInfo) -> bool:
    if isinstance(item, kind):
        return True
    hint = f"; return an instance, {item.__name__}(...)" if isinstance(item, type) and issubclass(item, kind) else ""
    offered = f"offers {shown(item)}, which is no {kind.__name__} and is left out{hint}"
    _warn(f"hook {hook} of plugin {plugin} {offered}; {plugin.way_out}")
    return False


def _info(state: _Loaded, name: str) -> PluginInfo:
    """Return where a plugin comes from, also one that code registered with the manager itself."""
    if name in state.plugins:
        return state.plugins[name]
    plugin = state.manager.get_plugin(name)
    module = getattr(plugin, "__name__", type(plugin).__name__)
    return PluginInfo(name, module, _BY_CODE)


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    return entry_points(group=GROUP)


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _is_own(point: EntryPoint) -> bool:
    return point.dist is not None and _normal(point.dist.name) == GROUP


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _warn(message: str) -> None:
    warnings.warn(message, PluginWarning, stacklevel=4)
