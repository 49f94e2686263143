"""The plugins in use: load the installed plugins, call their hooks, and import their offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ..error_text import shown
from ..errors import NotOfferedError
from ..process.containment import contained, plugin_error_text
from ..process.inner_states import keep_random_state
from ..process.locks import Lock
from ..process.restoring import restored
from .hook_manager import Manager
from .infos import HasReports, Named
from .installed_plugins import load_installed, rank
from .plugin_info import Offer, PluginInfo, conflict, warn

__all__ = [
    "announce",
    "describe_disabled",
    "find_offer",
    "forget_loaded",
    "is_limited_to_own_plugins",
    "limit_to_own_plugins",
    "list_disabled_plugins",
    "list_infos",
    "list_offers",
    "list_plugins",
    "load_offer",
    "manager",
]

InfoT = TypeVar("InfoT", bound=Named)

_LOCK = Lock()
#: The loaded plugins: all of them (False), and profilerkit's own only (True).
_loaded: dict[bool, Manager] = {}
#: The open `limit_to_own_plugins` blocks.
_own_only_blocks: list[bool] = []


def manager() -> Manager:
    """Return the plugin manager, with every installed plugin that is not disabled and can be loaded."""
    loaded = _loaded.get(bool(_own_only_blocks))
    if loaded is not None and loaded.is_complete:
        return loaded
    with _LOCK.block():  # which a thread that loads them holds until they are complete
        is_own_only = bool(_own_only_blocks)
        plugins = _loaded.get(is_own_only)
        if plugins is None:
            # Stored before loading, because a plugin may use the manager while it is loaded.
            plugins = _loaded[is_own_only] = Manager()
            try:
                with restored(in_child=lambda: _loaded.pop(is_own_only, None)):
                    load_installed(plugins, is_own_only)
                    plugins.complete()
            except BaseException:  # a warning that a filter turned into an error, or Ctrl-C: discard a partial load
                del _loaded[is_own_only]
                raise
        return plugins


def list_plugins() -> tuple[PluginInfo, ...]:
    """Return the sources of the loaded plugins of packages, profilerkit's own first."""
    return tuple(sorted((info for info in manager().list_sources() if not info.is_by_code), key=rank))


def list_disabled_plugins() -> tuple[PluginInfo, ...]:
    """Return the plugins that are installed and disabled."""
    return tuple(manager().switched_off)


def describe_disabled() -> str:
    """Return the end of a "not found" message: the plugins that are disabled; an empty text if none is."""
    names = ", ".join(
        f"{plugin.name} ({plugin.distribution})" if plugin.is_ambiguous else plugin.name
        for plugin in list_disabled_plugins()
    )
    return f" (plugins switched off: {names})" if names else ""


@contextmanager
def limit_to_own_plugins() -> Iterator[None]:
    """Use profilerkit's own plugins only inside the block; afterwards the other plugins are available again."""
    _own_only_blocks.append(True)
    try:
        with restored(in_child=_own_only_blocks.pop):
            yield
    finally:
        _own_only_blocks.pop()


def is_limited_to_own_plugins() -> bool:
    """Return whether only profilerkit's own plugins are in use."""
    return bool(_own_only_blocks)


def forget_loaded() -> None:
    """Forget which plugins are loaded; the next use loads them again."""
    with _LOCK.block():
        _loaded.clear()


# Asking them ----------------------------------------------------------------------------------------------------------


def list_offers(hook: str, kind: type, **arguments: Any) -> list[Offer[Any]]:
    """Return the items that the plugins offer through a hook, in the order of the calls.

    An implementation that raises, or returns None, offers nothing. An item that is not an instance of ``kind`` is left
    out, with a warning. Through a hook without arguments the plugins are asked once, while the same ones are loaded.
    """
    if arguments:
        return _ask_for_offers(hook, kind, arguments)
    return manager().answer_once(hook, lambda: _ask_for_offers(hook, kind, {}))


def _ask_for_offers(hook: str, kind: type, arguments: Mapping[str, Any]) -> list[Offer[Any]]:
    return [
        Offer(result.plugin, item)
        for result in getattr(manager().hook, hook)(**arguments)
        for item in result.item
        if _is_instance(item, kind, hook, result.plugin)
    ]


def list_infos(kind: type[InfoT]) -> list[Offer[InfoT]]:
    """Return the offers of a kind; two of them may have the same name: see `find_offer`."""
    return list_offers(kind.HOOK, kind)


def find_offer(
    kind: type[InfoT], name: str, is_wanted: Callable[[InfoT], bool] = lambda info: True
) -> Offer[InfoT] | None:
    """Return the wanted offer of a kind by its name; None if there is none.

    Raises `RegistrationConflictError` if two plugins have the offer. For other names this error is not raised.
    """
    offers = [offer for offer in list_infos(kind) if offer.item.name == name and is_wanted(offer.item)]
    if len(offers) > 1:
        raise conflict(f"{kind.WHAT} {name!r}", offers[0].plugin, offers[1].plugin)
    return offers[0] if offers else None


def announce(result: HasReports) -> None:
    """Notify every plugin of a result; an error of a plugin becomes a warning, so that the result is not lost."""
    manager().hook.profilerkit_report_created(report=result)


def _is_instance(item: Any, kind: type, hook: str, plugin: PluginInfo) -> bool:
    """Return whether an item is an instance of a class; warn of one that is not."""
    if isinstance(item, kind):
        return True
    hint = f"; return an instance, {item.__name__}(...)" if isinstance(item, type) and issubclass(item, kind) else ""
    problem = f"offers {shown(item)}, which is no {kind.__name__} and is left out{hint}"
    warn(f"hook {hook} of plugin {plugin} {problem}; {plugin.workaround}")
    return False


def load_offer(
    offer: Offer[Any], is_right: Callable[[object], bool] = callable, problem: str = "cannot be called"
) -> Any:
    """Return the result of an offer's ``load``.

    Raises `NotOfferedError` if ``load`` raises, or its result is not right: ``problem`` says why.
    """
    name, plugin = f"{offer.item.WHAT} {offer.item.name!r}", offer.plugin
    try:
        with keep_random_state(), contained(plugin, f"loading {name}"):
            loaded = offer.item.load()
    except MemoryError:
        raise
    except Exception as error:
        raise NotOfferedError(
            f"{name} of plugin {plugin} cannot be used ({plugin_error_text(error)}); {plugin.workaround}"
        ) from error
    if not is_right(loaded):
        raise NotOfferedError(
            f"{name} of plugin {plugin} cannot be used: its load returned {shown(loaded)}, which {problem}; "
            f"{plugin.workaround}"
        )
    return loaded
