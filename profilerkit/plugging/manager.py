"""The plugin manager: pluggy's, with guarded implementations, and the loading of installed plugins into it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from .. import hookspecs
from ..error_text import shown
from ..errors import by_likeness
from ..process.locks import Lock
from ..process.restoring import undone_in_child
from .guards import guard
from .sources import DISABLE, GROUP, Offer, PluginInfo, make_code_source, normal_name, tolerate, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pluggy import HookCaller, HookImpl, HookimplOpts

    from ..results.comparison import Comparison
    from ..results.report import Report

__all__ = [
    "Manager",
    "Offer",
    "PluginInfo",
    "announce",
    "call_hook",
    "forget_loaded",
    "list_disabled_plugins",
    "list_plugins",
    "manager",
    "offers",
    "only_own_plugins",
    "own_plugins_only",
]

T = TypeVar("T")
_HOOKS = frozenset(name for name in vars(hookspecs) if name.startswith(f"{GROUP}_"))


class Manager(pluggy.PluginManager):
    """pluggy's plugin manager, with the implementations of profilerkit's hooks guarded when they are registered.

    Each result of such an implementation is an `Offer`, with the plugin that it comes from; an error becomes a warning.
    Hooks that a plugin adds are not guarded. Implementations of profilerkit's own plugins are called before those of
    others, except for others that are marked ``tryfirst``; otherwise pluggy's order holds: the plugin that was
    registered last is called first.
    """

    def __init__(self) -> None:
        super().__init__(GROUP)
        #: The source of each registered plugin, by the plugin's id: plugins need not be hashable.
        self._sources: dict[int, PluginInfo] = {}
        #: What the registered plugins have answered to a question that has no arguments.
        self._answers: dict[str, Any] = {}
        #: Whether all installed plugins are registered; what is registered afterwards comes from code.
        self.is_complete = False
        self.add_hookspecs(hookspecs)

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a plugin from code and return its name; None if the name is blocked."""
        name = name or self.get_canonical_name(plugin)
        registered = self.register_from(make_code_source(name, plugin), plugin, name)
        if registered is not None and self.is_complete:
            self.report_misspelt_hooks(plugin)
        return registered

    def register_from(self, source: PluginInfo, plugin: object, name: str) -> str | None:
        """Register a plugin with its source and return its name; None if the name is blocked.

        If that fails or is interrupted, nothing of the plugin remains in the manager.
        """
        self._answers.clear()
        is_new = plugin is not None and not self.is_registered(plugin)
        registered = None
        if is_new:
            self._sources[id(plugin)] = source
        try:
            registered = super().register(plugin, name)
        finally:
            if is_new and registered is None:
                if self.is_registered(plugin):
                    self.unregister(plugin)
                self._sources.pop(id(plugin), None)
        return registered

    def unregister(self, plugin: object | None = None, name: str | None = None) -> Any | None:
        """Remove a plugin from the manager and return it; None if there is none of that name."""
        self._answers.clear()
        if plugin is None and name is not None:
            plugin = self.get_plugin(name)
        removed = super().unregister(plugin, name)
        if removed is not None:
            self._sources.pop(id(removed), None)
        return removed

    def answer_once(self, question: str, ask: Callable[[], T]) -> T:
        """Return what plugins answer to a question, which they are asked once while the same ones are registered."""
        if question not in self._answers:
            self._answers[question] = ask()
        answer: T = self._answers[question]
        return answer

    def parse_hookimpl_opts(self, plugin: object, name: str) -> HookimplOpts | None:
        """Return the options of an implementation; those of profilerkit's own plugins are marked ``tryfirst``.

        Raises `ValueError` for a wrapper of pluggy's old kind.
        """
        options = super().parse_hookimpl_opts(plugin, name)
        source = self._sources.get(id(plugin))
        if options is not None and options.get("hookwrapper"):
            raise ValueError(f"{name} is marked hookwrapper=True; mark it wrapper=True, and return the results")
        if options is None or source is None or not source.is_own or options.get("trylast"):
            return options
        changed = options.copy()
        changed["tryfirst"] = True
        return changed

    def _verify_hook(self, hook: HookCaller, hookimpl: HookImpl) -> None:
        """Guard an implementation once pluggy has checked it, before its first call."""
        super()._verify_hook(hook, hookimpl)
        if hook.name in _HOOKS:
            object.__setattr__(hookimpl, "function", guard(hook.name, hookimpl, self._sources[id(hookimpl.plugin)]))

    def find_implementations(self, hook: str) -> dict[PluginInfo, list[HookImpl]]:
        """Return the plugins that implement one of profilerkit's hooks, with their implementations of it."""
        by_plugin: dict[PluginInfo, list[HookImpl]] = {}
        for implementation in getattr(self.hook, hook).get_hookimpls():
            by_plugin.setdefault(self._sources[id(implementation.plugin)], []).append(implementation)
        return by_plugin

    def caller_without(self, hook: str, excluded: Collection[PluginInfo]) -> HookCaller:
        """Return a caller of a hook that excludes plugins; plugins with a wrapper are always called."""
        caller: HookCaller = getattr(self.hook, hook)
        if not excluded:
            return caller
        removed = [
            implementations[0].plugin
            for plugin, implementations in self.find_implementations(hook).items()
            if plugin in excluded and not any(implementation.wrapper for implementation in implementations)
        ]
        try:
            return self.subset_hook_caller(hook, removed)
        except TypeError:  # pluggy can exclude no plugin if one of them is not hashable, such as a SimpleNamespace
            return caller

    def report_misspelt_hooks(self, plugin: object) -> None:
        """Warn of marked functions whose hook does not exist, and of unmarked functions with the name of a hook."""
        source = self._sources[id(plugin)]
        marked: set[str] = set()
        for name in dir(plugin):
            options = self.parse_hookimpl_opts(plugin, name)
            if options is None:
                continue
            hook = options.get("specname") or name
            marked.add(hook)
            caller: HookCaller | None = getattr(self.hook, hook, None)
            if not options.get("optionalhook") and (caller is None or not caller.has_spec()):
                nearest = by_likeness(hook, _HOOKS)[0]
                warn(f"plugin {source} has a hook {hook!r} that does not exist; did you mean {nearest!r}?")
        for hook in sorted(_HOOKS.intersection(getattr(plugin, "__dict__", ())) - marked):
            warn(f"plugin {source} has a function {hook!r} that is no hook; mark it @profilerkit.hookimpl")


@dataclass
class _Loaded:
    manager: Manager = field(default_factory=Manager)
    plugins: dict[str, PluginInfo] = field(default_factory=dict)
    switched_off: list[PluginInfo] = field(default_factory=list)


_LOCK = Lock()
#: The loaded plugins: all of them (False), and profilerkit's own only (True).
_loaded: dict[bool, _Loaded] = {}
#: The open `own_plugins_only` blocks.
_own_only_blocks: list[bool] = []


def manager() -> Manager:
    """Return the plugin manager, with every installed plugin that is not disabled and can be loaded."""
    return _state().manager


def list_plugins() -> tuple[PluginInfo, ...]:
    """Return the sources of the loaded plugins of packages, profilerkit's own first."""
    state = _state()
    return tuple(plugin for name, plugin in state.plugins.items() if state.manager.has_plugin(name))


def list_disabled_plugins() -> tuple[PluginInfo, ...]:
    """Return the plugins that are installed and disabled."""
    return tuple(_state().switched_off)


@contextmanager
def own_plugins_only() -> Iterator[None]:
    """Use profilerkit's own plugins only inside the block; afterwards the other plugins are available again."""
    _own_only_blocks.append(True)
    try:
        with undone_in_child(_own_only_blocks.pop):
            yield
    finally:
        _own_only_blocks.pop()


def only_own_plugins() -> bool:
    """Return whether only profilerkit's own plugins are in use."""
    return bool(_own_only_blocks)


def forget_loaded() -> None:
    """Forget which plugins are loaded; the next use loads them again."""
    with _LOCK:
        _loaded.clear()


def _state() -> _Loaded:
    loaded = _loaded.get(only_own_plugins())
    if loaded is not None and loaded.manager.is_complete:
        return loaded
    with _LOCK:  # which a thread that loads them holds until they are complete
        is_own_only = only_own_plugins()
        state = _loaded.get(is_own_only)
        if state is None:
            # Stored before loading, since a plugin may use the manager while it is loaded.
            state = _loaded[is_own_only] = _Loaded()
            try:
                with undone_in_child(lambda: _loaded.pop(is_own_only, None)):
                    _load_all(state, is_own_only)
                    state.manager.hook.profilerkit_configure.call_historic(kwargs={"manager": state.manager})
                    for _, plugin in state.manager.list_name_plugin():
                        if plugin is not None:  # None for a blocked name
                            state.manager.report_misspelt_hooks(plugin)
                    state.manager.is_complete = True
            except BaseException:  # a warning that a filter turned into an error, or Ctrl-C: discard a partial load
                del _loaded[is_own_only]
                raise
        return state


def _load_all(state: _Loaded, is_own_only: bool) -> None:
    disabled = [name for name in map(normal_name, os.environ.get(DISABLE, "").split(",")) if name]
    names_seen: dict[str, None] = {}
    # Own plugins first, the core before all, then the others by name: the order of installers has no meaning.
    points = sorted(
        _entry_points(),
        key=lambda point: (not _is_own(point), _distribution(point), point.name != "core", point.name),
    )
    name_counts = Counter(name for point in points for name in set(_names(point)))
    loaded: list[tuple[str, PluginInfo, object]] = []
    for point in points:
        names = _names(point)
        info = PluginInfo(point.name, point.value, _distribution(point), name_counts[normal_name(point.name)] > 1)
        names_seen.update(dict.fromkeys(names))
        if (is_own_only and not _is_own(point)) or not set(names).isdisjoint(disabled):
            state.switched_off.append(info)
        else:
            _load(state, point, info, loaded)
    # pluggy calls the plugin first that was registered last, so each group is called in the order of its names. Own
    # plugins are ``tryfirst``: they are called before all others, except for others that are ``tryfirst`` too.
    loaded.reverse()
    for name, info, plugin in sorted(loaded, key=lambda entry: not entry[1].is_own):
        _register(state, name, info, plugin)
    for name in disabled:
        if name not in names_seen:
            listing = ", ".join(by_likeness(name, names_seen)) or "none"
            warn(f"{DISABLE} names {name!r}, which is no plugin; installed, nearest first: {listing}")


def _names(point: EntryPoint) -> list[str]:
    """Return the names that a plugin can be disabled by: its own, and that of its package."""
    return [normal_name(name) for name in (point.name, point.dist.name if point.dist else "") if name]


def _load(state: _Loaded, point: EntryPoint, info: PluginInfo, loaded: list[tuple[str, PluginInfo, object]]) -> None:
    """Import a plugin and append it to ``loaded``, under a unique name."""
    name = info.name if info.name not in state.plugins else f"{info.name} ({info.distribution})"
    with _tolerate(info, "the loading"):
        plugin = point.load()
        for _, other, other_plugin in loaded:
            if other_plugin == plugin:
                raise ValueError(f"it is the same as plugin {other}")
        state.plugins[name] = info
        loaded.append((name, info, plugin))


def _register(state: _Loaded, name: str, info: PluginInfo, plugin: object) -> None:
    with _tolerate(info, "the registration"):
        if state.manager.register_from(info, plugin, name) is not None:
            return
        state.switched_off.append(info)  # the name is blocked by code
    del state.plugins[name]


def _tolerate(info: PluginInfo, doing: str) -> tolerate:
    after = ") and is left out; update or uninstall that package"
    return tolerate(info, doing, f"plugin {info} cannot be loaded (", after)


def call_hook(hook: str, without: Collection[PluginInfo] = (), **arguments: Any) -> list[Offer[Any]]:
    """Call a hook and return its results, except for those of the plugins in ``without``."""
    results = manager().caller_without(hook, without)(**arguments)
    return [result for result in results if result.plugin not in without] if without else list(results)


def offers(hook: str, kind: type, **arguments: Any) -> list[Offer[Any]]:
    """Return the items that the plugins offer through a hook, in the order of the calls.

    An implementation that raises, or returns None, offers nothing. An item that is not an instance of ``kind`` is left
    out, with a warning.
    """
    return [
        Offer(result.plugin, item)
        for result in call_hook(hook, **arguments)
        for item in result.item
        if _is(kind, item, hook, result.plugin)
    ]


def announce(report: Report | Comparison) -> None:
    """Notify every plugin of a result; an error of a plugin becomes a warning, so that the result is not lost."""
    manager().hook.profilerkit_report_created(report=report)


def _is(kind: type, item: Any, hook: str, plugin: PluginInfo) -> bool:
    if isinstance(item, kind):
        return True
    hint = f"; return an instance, {item.__name__}(...)" if isinstance(item, type) and issubclass(item, kind) else ""
    problem = f"offers {shown(item)}, which is no {kind.__name__} and is left out{hint}"
    warn(f"hook {hook} of plugin {plugin} {problem}; {plugin.workaround}")
    return False


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import, and needed only once a plugin is

    return entry_points(group=GROUP)


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _is_own(point: EntryPoint) -> bool:
    return point.dist is not None and normal_name(point.dist.name) == GROUP
