"""The objects that plugins offer: functions, status keys, renderers and loaders; backends are those of `backends`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..backend import Backend
from ..errors import UnknownStatusError
from ..piping.function import ProfilerFunction, describe
from ..piping.registry import require_usable
from ..piping.status import StatusKey
from ..process.containment import record_offering_plugin
from ..protocols import Capability
from .backends import backend_named, backends, find_backend, list_backends, load, not_installed
from .extension import LoaderInfo, RendererInfo
from .manager import (
    Offer,
    PluginInfo,
    announce,
    describe_disabled,
    forget_loaded,
    list_disabled_plugins,
    list_plugins,
    manager,
    offers,
    only_own_plugins,
    own_plugins_only,
)
from .named import list_named
from .offered_formulas import equip, forget_formulas, op_costs
from .sources import conflict, require_unique, tolerate, warn

__all__ = [
    "Offer",
    "PluginInfo",
    "announce",
    "backend_named",
    "backends",
    "default_functions",
    "describe_disabled",
    "equip",
    "find_backend",
    "forget",
    "functions_offered",
    "list_backends",
    "list_disabled_plugins",
    "list_loaders",
    "list_plugins",
    "list_renderers",
    "list_status_keys",
    "load",
    "manager",
    "name_of_metric",
    "not_installed",
    "offered_capabilities",
    "offers",
    "only_own_plugins",
    "op_costs",
    "own_plugins_only",
    "require_unique",
]


def offered_capabilities() -> tuple[Capability, ...]:
    """Return the capabilities that plugins ask backends for, those of the core first."""
    return tuple(offer.item for offer in offers("profilerkit_protocols", Capability))


def list_renderers() -> list[Offer[RendererInfo]]:
    """Return the text renderers of all plugins; raises `RegistrationConflictError` for two of the same name."""
    offered = list_named("renderer", "profilerkit_renderers", RendererInfo)
    return [offer for offer in offered if offer.item.is_text]


def list_loaders() -> list[Offer[LoaderInfo]]:
    """Return the model loaders of all plugins; raises `RegistrationConflictError` for two of the same name."""
    return list_named("model loader", "profilerkit_model_loaders", LoaderInfo)


def list_status_keys(leave_out: Collection[str] = ()) -> list[Offer[type[StatusKey]]]:
    """Return the status keys that plugins declare.

    Raises `RegistrationConflictError` for two classes of the same name, unless the name is in ``leave_out``.
    """
    keys = manager().answer_once("status keys", _read_status_keys)
    claims: dict[str, Offer[type[StatusKey]]] = {}
    for offer in keys:
        name = offer.item.NAME
        first = claims.setdefault(name, offer)
        if first.item is not offer.item and name not in leave_out:
            raise conflict(f"status key {name!r}", first.plugin, offer.plugin)
    return keys


def _read_status_keys() -> list[Offer[type[StatusKey]]]:
    hook = "profilerkit_status_keys"
    keys: list[Offer[type[StatusKey]]] = []
    for offer in offers(hook, type):
        if issubclass(offer.item, StatusKey) and isinstance(offer.item.NAME, str) and offer.item.NAME:
            keys.append(offer)
        else:
            warn(f"hook {hook} of plugin {offer.plugin} offers {offer.item!r}, which is no StatusKey with a NAME")
    return keys


def default_functions(
    backend: Backend, leave_out: Collection[str] = (), computed_already: Collection[str] = ()
) -> list[ProfilerFunction]:
    """Return the functions that all plugins offer for a backend, in the order in which the plugins are called.

    Raises `RegistrationConflictError` if two plugins offer the same status key, unless it is in ``leave_out`` or
    ``computed_already`` (the keys of the user's own functions). Raises it for two renderers or loaders of one name too,
    before anything is measured. Raises `UnknownStatusError` for a name in ``leave_out`` that no plugin offers.
    """
    list_renderers()
    list_loaders()
    offered = functions_offered(backend)
    exempt = {*leave_out, *computed_already}
    declared = list_status_keys(exempt)
    offered_names = [key.NAME for offer in offered for key in offer.item.list_keys()]
    names = [*computed_already, *offered_names, *(offer.item.NAME for offer in declared)]
    for name in leave_out:
        if name not in names:
            raise UnknownStatusError(name, dict.fromkeys(names), owner="leave_out")
    _require_one_plugin(offered, {offer.item.NAME: offer for offer in declared}, exempt, backend)
    return [offer.item for offer in offered]


def _require_one_plugin(
    offered: Sequence[Offer[ProfilerFunction]],
    declared: Mapping[str, Offer[type[StatusKey]]],
    exempt: Collection[str],
    backend: Backend,
) -> None:
    """Raise `RegistrationConflictError` for a status key that two plugins compute, or one computes and one declares."""
    computed: dict[str, PluginInfo] = {}
    for offer in offered:
        for key in offer.item.list_keys():
            if key.NAME in exempt:
                continue
            declaring = declared.get(key.NAME)
            first = computed.setdefault(key.NAME, offer.plugin)
            if first == offer.plugin and declaring is not None and not isinstance(key, declaring.item):
                first = declaring.plugin
            if first != offer.plugin:
                remedy = f"; or leave the key out: register_defaults(leave_out=[{key.NAME!r}])"
                raise conflict(f"status key {key.NAME!r} to the {backend.name} backend", first, offer.plugin, remedy)


def functions_offered(backend: Backend) -> list[Offer[ProfilerFunction]]:
    """Return the functions of all plugins for a backend; one that no profiler can use is left out, with a warning."""
    hook = "profilerkit_profiler_functions"
    usable = []
    for offer in offers(hook, ProfilerFunction, backend=backend):
        if offer.plugin.is_own:
            usable.append(offer)
            continue
        failure = f"hook {hook} of plugin {offer.plugin} offers {describe(offer.item)}, which is left out: "
        with tolerate(offer.plugin, f"a function that hook {hook} offers,", failure):
            require_usable(offer.item)
            record_offering_plugin(offer.item, offer.plugin)
            usable.append(offer)
    return usable


def name_of_metric(name: str) -> str:
    """Return the name of a metric for one of its other names: "execution_time" for "latency"; others as they are."""
    keys = [offer.item for offer in list_status_keys()]
    if any(name == key.NAME for key in keys):
        return name
    return next((key.NAME for key in keys if name in key.ALIASES), name)


def forget() -> None:
    """Forget the loaded plugins and the formulas that backends have from them: for tests."""
    forget_loaded()
    forget_formulas()
