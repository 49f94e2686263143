"""The offers of plugins to a profiler: status keys, and the functions that compute them.

Each offer has the plugin that it comes from (`Offer`). For example, profilerkit's plugin "metrics" offers the key
``macs`` and a function that computes it. A package with a function for ``macs`` of its own conflicts with that one:
`default_functions` raises an error that names both plugins, unless the user leaves the key out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from ..backend import Backend
from ..errors import RegistrationConflictError, UnknownStatusError
from ..piping.function import ProfilerFunction, describe, read_usable
from ..piping.registry import Registry
from ..piping.status import StatusKey
from .backend_additions import forget_formulas
from .manager import forget_loaded, list_offers, manager
from .plugin_info import Offer, PluginInfo, conflict, tolerate, warn

__all__ = [
    "default_functions",
    "forget",
    "list_declared_keys",
    "list_known_names",
    "list_profiler_functions",
    "list_status_keys",
    "name_of_metric",
]


def list_status_keys() -> list[Offer[type[StatusKey]]]:
    """Return the status keys that plugins declare; raises `RegistrationConflictError` for two classes of one name."""
    keys = list_declared_keys()
    for message in _find_declared_twice(keys).values():
        raise RegistrationConflictError(message)
    return keys


def list_declared_keys() -> list[Offer[type[StatusKey]]]:
    """Return the status keys that plugins declare, also two classes of one name."""
    return manager().answer_once("status keys", _read_status_keys)


def _read_status_keys() -> list[Offer[type[StatusKey]]]:
    """Ask the plugins for the keys that they declare; one without a name is left out, with a warning."""
    hook = "profilerkit_status_keys"
    keys: list[Offer[type[StatusKey]]] = []
    for offer in list_offers(hook, type):
        if issubclass(offer.item, StatusKey) and isinstance(offer.item.NAME, str) and offer.item.NAME:
            keys.append(offer)
        else:
            warn(f"hook {hook} of plugin {offer.plugin} offers {offer.item!r}, which is no StatusKey with a NAME")
    return keys


def default_functions(
    backend: Backend, leave_out: Collection[str] = (), computed_already: Collection[str] = ()
) -> Registry:
    """Return the functions that all plugins offer for a backend, each bound to its keys, in the order of the plugins.

    The plugins are asked once for each class of backends: profilers share the functions, and the registry, which is
    not to be changed.

    Raises `RegistrationConflictError` if two plugins offer the same status key, unless it is in ``leave_out`` or
    ``computed_already`` (the keys of the user's own functions). Raises `UnknownStatusError` for a name in ``leave_out``
    that no plugin offers.
    """
    defaults = manager().answer_once(("functions", type(backend)), partial(_read_defaults, backend))
    offered = [*computed_already, *defaults.names]
    for name in leave_out:
        if name not in offered:  # it is misspelt
            raise UnknownStatusError(name, dict.fromkeys(offered), owner="leave_out")
    for name, message in defaults.conflicts.items():
        if name not in leave_out and name not in computed_already:
            raise RegistrationConflictError(message)
    return defaults.registry


class _Defaults(NamedTuple):
    """The offers of plugins for the backends of a class.

    Attributes:
        registry: Each status key with the function that computes it, without keys that two plugins claim.
        names: The names of the keys that are computed or declared, in this order.
        conflicts: The keys that two plugins claim, each with an error message.
    """

    registry: Registry
    names: tuple[str, ...]
    conflicts: Mapping[str, str]


def _read_defaults(backend: Backend) -> _Defaults:
    """Ask the plugins for their offers for a backend."""
    functions = list_profiler_functions(backend)
    declarations = list_declared_keys()
    computed = [key.NAME for offer in functions for key in offer.item.list_keys()]
    names = (*computed, *(declaration.item.NAME for declaration in declarations))
    conflicts = {**_find_computed_twice(functions, declarations, backend), **_find_declared_twice(declarations)}
    registry = Registry.of_defaults([(offer.item, offer.plugin) for offer in functions], conflicts.keys())
    return _Defaults(registry, names, conflicts)


def _find_declared_twice(declarations: Iterable[Offer[type[StatusKey]]]) -> dict[str, str]:
    """Return the status keys that are declared with two classes, each with an error message."""
    conflicts: dict[str, str] = {}
    first_by_name: dict[str, Offer[type[StatusKey]]] = {}
    for offer in declarations:
        name = offer.item.NAME
        first = first_by_name.setdefault(name, offer)
        if first.item is not offer.item:
            is_same = first.plugin == offer.plugin
            where = f" (in {first.item.__module__} and in {offer.item.__module__})" if is_same else ""
            conflicts.setdefault(name, str(conflict(f"status key {name!r}{where}", first.plugin, offer.plugin)))
    return conflicts


def _find_computed_twice(
    functions: Iterable[Offer[ProfilerFunction]], declarations: Iterable[Offer[type[StatusKey]]], backend: Backend
) -> dict[str, str]:
    """Return the status keys that two plugins compute, or that one computes and another declares.

    A plugin may compute a key that another declares if the key is of the declared class: a second implementation.
    """
    conflicts: dict[str, str] = {}
    declaration_by_name = {declaration.item.NAME: declaration for declaration in declarations}
    first_by_name: dict[str, PluginInfo] = {}
    for key, plugin in [(key, offer.plugin) for offer in functions for key in offer.item.list_keys()]:
        rivals = [first_by_name.setdefault(key.NAME, plugin)]
        declaration = declaration_by_name.get(key.NAME)
        if declaration is not None and not isinstance(key, declaration.item):
            rivals.append(declaration.plugin)
        for rival in rivals:
            if rival != plugin:
                what = f"status key {key.NAME!r} to the {backend.name} backend"
                remedy = f"; or leave the key out: register_defaults(leave_out=[{key.NAME!r}])"
                conflicts.setdefault(key.NAME, str(conflict(what, rival, plugin, remedy)))
    return conflicts


def list_profiler_functions(backend: Backend) -> list[Offer[ProfilerFunction]]:
    """Return the functions of all plugins for a backend; one that no profiler can use is left out, with a warning."""
    hook = "profilerkit_profiler_functions"
    usable = []
    for offer in list_offers(hook, ProfilerFunction, backend=backend):
        if offer.plugin.is_own:
            usable.append(offer)
            continue
        failure = f"hook {hook} of plugin {offer.plugin} offers {describe(offer.item)}, which is left out: "
        with tolerate(offer.plugin, f"a function that hook {hook} offers,", before=failure):
            read_usable(offer.item)
            usable.append(offer)
    return usable


def list_known_names() -> list[str] | None:
    """Return every name of a status key, without a backend; None if another plugin may compute undeclared keys.

    Plugins of profilerkit itself declare all keys that they compute.
    """
    if not all(plugin.is_own for plugin in manager().find_plugins_with("profilerkit_profiler_functions")):
        return None
    return [name for offer in list_status_keys() for name in (offer.item.NAME, *offer.item.ALIASES)]


def name_of_metric(name: str) -> str:
    """Return the name of a metric for one of its other names: "execution_time" for "latency"; others as they are."""
    keys = [offer.item for offer in list_declared_keys()]
    if any(name == key.NAME for key in keys):
        return name
    return next((key.NAME for key in keys if name in key.ALIASES), name)


def forget() -> None:
    """Forget the loaded plugins and the formulas that backends have from them: for tests."""
    forget_loaded()
    forget_formulas()
