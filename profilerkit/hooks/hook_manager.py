"""pluggy's plugin manager, with guarded implementations: each result knows its plugin, and errors become warnings."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from .. import hookspecs
from ..errors import by_likeness
from .plugin_info import GROUP, Offer, PluginInfo, tolerate, warn

if TYPE_CHECKING:
    from pluggy import HookCaller, HookImpl, HookimplOpts

__all__ = ["Manager", "call_guarded"]

T = TypeVar("T")
_HOOKS = frozenset(name for name in vars(hookspecs) if name.startswith(f"{GROUP}_"))
#: The hook that returns formulas by operator; the others return a list.
_FORMULAS = "profilerkit_op_costs"
#: Hooks that notify plugins; the values that they return are not used.
_NOTIFYING = frozenset({"profilerkit_configure", "profilerkit_report_created"})


class Manager(pluggy.PluginManager):
    """pluggy's plugin manager, with the implementations of profilerkit's hooks guarded when they are registered.

    Each result of a guarded implementation is an `Offer` with its plugin; an error becomes a warning. Hooks that a
    plugin adds are not guarded. Implementations of profilerkit's own plugins are called before other plugins, except
    plugins marked ``tryfirst``. Otherwise pluggy's order holds: the plugin that was registered last is called first.
    """

    def __init__(self) -> None:
        super().__init__(GROUP)
        #: The source of each registered plugin, by the plugin's id: plugins need not be hashable.
        self._sources: dict[int, PluginInfo] = {}
        #: The installed plugins that are not registered, because they are disabled.
        self.switched_off: list[PluginInfo] = []
        #: The answers of the registered plugins to questions.
        self._answers: dict[Hashable, Any] = {}
        #: Whether all installed plugins are registered; later ones are registered by code.
        self.is_complete = False
        self.add_hookspecs(hookspecs)

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a plugin from code and return its name; None if the name is blocked."""
        name = name or self.get_canonical_name(plugin)
        source = PluginInfo(name, getattr(plugin, "__name__", type(plugin).__name__), is_by_code=True)
        registered = self.register_from(source, plugin, name)
        if registered is not None and self.is_complete:
            self.report_misspelt_hooks(plugin)
        return registered

    def register_from(self, source: PluginInfo, plugin: object, name: str) -> str | None:
        """Register a plugin with its source and return its name; None if the name is blocked.

        If that fails or is interrupted, nothing of the plugin remains in the manager.
        """
        self._answers.clear()
        if plugin is None or self.is_registered(plugin):
            return super().register(plugin, name)  # which refuses it
        self._sources[id(plugin)] = source
        registered = None
        try:
            registered = super().register(plugin, name)
        finally:
            if registered is None:
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

    def answer_once(self, question: Hashable, ask: Callable[[], T]) -> T:
        """Return the answers of plugins to a question, which is asked again only after a plugin is registered."""
        if question not in self._answers:
            self._answers[question] = ask()
        answer: T = self._answers[question]
        return answer

    def parse_hookimpl_opts(self, plugin: object, name: str) -> HookimplOpts | None:
        """Return the options of an implementation; for profilerkit's own plugins, they are marked ``tryfirst``.

        Raises `ValueError` for a wrapper of one of profilerkit's hooks.
        """
        options = super().parse_hookimpl_opts(plugin, name)
        source = self._sources.get(id(plugin))
        if options is not None and (options.get("wrapper") or options.get("hookwrapper")):
            hook = options.get("specname") or name
            if hook in _HOOKS:
                raise ValueError(f"{name} is marked as a wrapper, and {hook} takes none; return what the plugin offers")
        if options is None or source is None or not source.is_own or options.get("trylast"):
            return options
        changed = options.copy()
        changed["tryfirst"] = True
        return changed

    def _verify_hook(self, hook: HookCaller, hookimpl: HookImpl) -> None:
        """Guard an implementation once pluggy has checked it, before its first call."""
        super()._verify_hook(hook, hookimpl)
        if hook.name in _HOOKS:
            guarded = partial(call_guarded, hook.name, self._sources[id(hookimpl.plugin)], hookimpl.function)
            object.__setattr__(hookimpl, "function", guarded)

    def find_plugins_with(self, hook: str) -> set[PluginInfo]:
        """Return the plugins that implement one of profilerkit's hooks."""
        return {self._sources[id(implementation.plugin)] for implementation in getattr(self.hook, hook).get_hookimpls()}

    def list_sources(self) -> list[PluginInfo]:
        """Return the sources of the registered plugins."""
        return list(self._sources.values())

    def complete(self) -> None:
        """Set the registered plugins up, when all that are installed are registered, and warn of misspelt hooks."""
        self.hook.profilerkit_configure.call_historic(kwargs={"manager": self})
        for _, plugin in self.list_name_plugin():
            if plugin is not None:  # None for a blocked name
                self.report_misspelt_hooks(plugin)
        self.is_complete = True

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


def call_guarded(
    hook: str, plugin: PluginInfo, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Offer[Any] | None:
    """Call a function with which a plugin implements a hook; return its `Offer`, or None if it returns None or raises.

    If it raises, this warns, and the hook call continues without it. An interruption is raised unchanged, with a note
    that names the plugin.
    """
    is_notified = hook in _NOTIFYING
    consequence = "profilerkit goes on without it" if is_notified else "what it offers is left out"
    with tolerate(plugin, f"hook {hook}", f"; {consequence}"):
        result = function(*args, **kwargs)
        return None if result is None else Offer(plugin, result if is_notified else _read(hook, result))
    return None


def _read(hook: str, result: Any) -> Any:
    """Return the offers of a plugin; raises `TypeError` if they are no list, or no mapping to formulas."""
    if hook != _FORMULAS:
        return tuple(result)
    from ..costs.registry import read_formulas  # slow to import, and needed for no command that lists something

    return read_formulas(result)
