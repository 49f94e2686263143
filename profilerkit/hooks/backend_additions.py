"""What plugins add to a backend: capabilities, and cost formulas, which are added once."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Set
from typing import Any

from ..backend import Backend
from ..costs.evaluation import describe_fault
from ..error_text import shown
from ..errors import RegistrationConflictError
from ..process.containment import contained
from ..process.locks import Lock
from ..protocols import Capability, TakesCosts, find_capability, require_capability
from .manager import list_offers, manager
from .plugin_info import Offer, PluginInfo, conflict, tolerate, warn

__all__ = ["equip", "forget_formulas", "list_capabilities", "op_costs"]

Costs = Mapping[Any, Callable[..., Any]]

_CAPABILITIES, _FORMULAS = "profilerkit_capabilities", "profilerkit_op_costs"
_LOCK = Lock()
#: The formulas of each plugin for each backend; every plugin whose hook was called has an entry. The key is the
#: backend's name if its instances share their formulas, else the instance's id: backends may be equal, or not hashable.
_formulas: dict[str | int, dict[PluginInfo, Costs]] = {}


def equip(backend: Backend) -> Backend:
    """Add the capabilities and the cost formulas that plugins offer for a backend, and return the backend.

    The formulas of each plugin are added once. Backends of one name that share their formulas get them once, other
    backends once for each instance. Raises `RegistrationConflictError` if an operator has a formula already, of another
    plugin or of the backend itself.
    """
    if backend.extensions or manager().find_plugins_with(_CAPABILITIES):
        _add_capabilities(backend)
    plugins = manager().find_plugins_with(_FORMULAS)
    if plugins:
        with _LOCK.block():
            _add_new_formulas(backend, plugins)
    return backend


# Capabilities ---------------------------------------------------------------------------------------------------------


def list_capabilities() -> tuple[Capability, ...]:
    """Return the capabilities that plugins ask backends for, the core's first."""
    return tuple(offer.item for offer in list_offers("profilerkit_protocols", Capability))


def _add_capabilities(backend: Backend) -> None:
    """Give a backend the capabilities that plugins offer for it; warn of an object that has none of them in full."""
    offered = list_offers(_CAPABILITIES, object, backend=backend)
    for offer in offered:
        obstacle = _find_obstacle(offer.item)
        if obstacle:
            warn(f"hook {_CAPABILITIES} of plugin {offer.plugin} offers {obstacle}")
    backend.extensions = tuple(offer.item for offer in offered if not isinstance(offer.item, type))


def _find_obstacle(item: object) -> str:
    """Return the error of an offered capability: a class, or a missing method; empty if it is right."""
    if isinstance(item, type):
        return f"the class {item.__name__}, which is left out; return an object, {item.__name__}()"
    protocols = [capability.protocol for capability in list_capabilities()]
    public = {name for name in dir(item) if not name.startswith("_")}
    for protocol in protocols:
        methods: frozenset[str] = getattr(protocol, "__abstractmethods__", frozenset())
        if methods & public and methods - public:
            return f"{shown(item)}, which has no method {min(methods - public)!r} of {protocol.__name__}"
    if not any(isinstance(item, protocol) for protocol in protocols):
        return f"{shown(item)}, which has the methods of no capability; profilerkit.protocols has them"
    return ""


# Cost formulas --------------------------------------------------------------------------------------------------------


def _add_new_formulas(backend: Backend, plugins: Set[PluginInfo]) -> None:
    """Add to a backend the formulas of the plugins whose formulas it does not have yet."""
    costs_by_plugin = _find_formulas(backend)
    new_plugins = plugins - costs_by_plugin.keys()
    offers = manager().hook.profilerkit_op_costs(backend=backend) if new_plugins else []
    for offer in offers:
        if offer.plugin in new_plugins and offer.item:
            for plugin, costs in costs_by_plugin.items():
                for op in costs.keys() & offer.item.keys():
                    raise conflict(f"a cost formula for {op} to the {backend.name} backend", plugin, offer.plugin)
            if _add_formulas(backend, offer):
                costs_by_plugin[offer.plugin] = {**costs_by_plugin.get(offer.plugin, {}), **offer.item}
    for plugin in new_plugins:
        costs_by_plugin.setdefault(plugin, {})  # one that has no formula too


def _add_formulas(backend: Backend, offer: Offer[Costs]) -> bool:
    """Add the formulas of a plugin to a backend, and return whether it took them; if not, there is a warning.

    Raises `RegistrationConflictError` for an operator that the backend has a formula for.
    """
    plugin = offer.plugin
    failure = f"the cost formulas of plugin {plugin} for the {backend.name} backend are left out: "
    try:
        with tolerate(plugin, "a cost formula", before=failure, passed_on=(RegistrationConflictError,)):
            taking = require_capability(backend, TakesCosts)
            taking.add_costs({op: _contain(plugin, op, formula) for op, formula in offer.item.items()})
            return True
    except RegistrationConflictError as error:
        remedy = f"uninstall that package, or switch the plugin off: {plugin.disable_setting}"
        raise RegistrationConflictError(
            f"plugin {plugin} offers a cost formula that the {backend.name} backend has already: "
            f"{error}; {plugin.repair if plugin.is_by_code else remedy}"
        ) from error
    return False


def _contain(plugin: PluginInfo, op: Any, formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula whose errors name its plugin; a formula of profilerkit's own plugins unchanged."""
    if plugin.is_own:
        return formula

    @functools.wraps(formula)
    def call_formula(*args: Any, **kwargs: Any) -> Any:
        with contained(plugin, f"the cost formula of {op}"):
            cost = formula(*args, **kwargs)
            fault = describe_fault(cost)
            if fault:
                raise TypeError(f"it {fault}")
            return cost

    return call_formula


def _find_formulas(backend: Backend) -> dict[PluginInfo, Costs]:
    """Return the formulas that a backend has from plugins; the dict is the one that they are kept in."""
    # A backend that takes no formulas needs no entry for each instance, and its warning appears once.
    if backend.shares_costs or find_capability(backend, TakesCosts) is None:
        return _formulas.setdefault(backend.name, {})
    with _LOCK.block():
        if id(backend) not in _formulas:
            weakref.finalize(backend, _formulas.pop, id(backend), None).atexit = False
        return _formulas.setdefault(id(backend), {})


def forget_formulas() -> None:
    """Forget the formulas that backends have from plugins: for tests."""
    with _LOCK.block():
        _formulas.clear()


def op_costs(backend: Backend) -> list[tuple[PluginInfo, Costs]]:
    """Return the cost formulas that a backend has from plugins."""
    return [(plugin, costs) for plugin, costs in _find_formulas(backend).items() if costs]
