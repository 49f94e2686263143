"""The objects that plugins offer: backends, functions, cost formulas, renderers, loaders and status keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..backend import API_VERSION, OLDEST_API_VERSION, Backend, BackendInfo
from ..backend_kit.tested_releases import declare_tested, describe_untested
from ..error_text import shown
from ..errors import (
    BackendNotFoundError,
    BackendNotInstalledError,
    RegistrationConflictError,
    UnknownStatusError,
    by_likeness,
)
from ..piping.function import ProfilerFunction, describe
from ..piping.registry import require_usable
from ..piping.status import StatusKey
from ..process.containment import contained, plugin_error_text, record_offering_plugin
from ..protocols import Capability
from .extension import LoaderInfo, RendererInfo
from .loaded_files import in_plain_names
from .manager import (
    Offer,
    PluginInfo,
    announce,
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
from .sources import ask_plugin, conflict, require_unique, tolerate, warn
from .unread_formats import describe_unread

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


def list_backends() -> list[Offer[BackendInfo]]:
    """Return the backends of all plugins; raises `RegistrationConflictError` for two of the same name."""
    return list_named("backend", "profilerkit_backends", BackendInfo)


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
    keys = manager().answer_once("status keys", _status_keys)
    claims: dict[str, Offer[type[StatusKey]]] = {}
    for offer in keys:
        name = offer.item.NAME
        first = claims.setdefault(name, offer)
        if first.item is not offer.item and name not in leave_out:
            raise conflict(f"status key {name!r}", first.plugin, offer.plugin)
    return keys


def _status_keys() -> list[Offer[type[StatusKey]]]:
    hook = "profilerkit_status_keys"
    keys: list[Offer[type[StatusKey]]] = []
    for offer in offers(hook, type):
        if issubclass(offer.item, StatusKey) and isinstance(offer.item.NAME, str) and offer.item.NAME:
            keys.append(offer)
        else:
            warn(f"hook {hook} of plugin {offer.plugin} offers {offer.item!r}, which is no StatusKey with a NAME")
    return keys


def backends() -> tuple[BackendInfo, ...]:
    """Return the backends of all plugins."""
    return tuple(offer.item for offer in list_backends())


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
    keys = list_status_keys(exempt)
    for name in leave_out:
        offered_names = [key.NAME for offer in offered for key in offer.item.list_keys()]
        names = [*computed_already, *offered_names, *(key.item.NAME for key in keys)]
        if name not in names:
            raise UnknownStatusError(name, dict.fromkeys(names), owner="leave_out")
    declared: dict[str, Offer[Any]] = {key.item.NAME: key for key in keys if key.item.NAME not in exempt}
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
    return [offer.item for offer in offered]


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


def find_backend(model: Any) -> Backend:
    """Return the backend for a path, by its suffix, or for a model, by the classes in its MRO.

    The first class that a backend claims decides: a Keras model is the Keras backend's, also if it runs on torch. Of
    several backends that claim a class, the one with the longest name for it is used, if it accepts the model.

    Raises `BackendNotFoundError` if no backend does, `RegistrationConflictError` if two do with names of equal length.
    """
    offered = list_backends()
    refusing: Backend | None = None
    if isinstance(model, (str, os.PathLike)):
        suffix = Path(os.fspath(model)).suffix
        for offer in offered:
            if suffix in offer.item.suffixes:
                return load(offer.item, offer.plugin)
    for group in _rank_backends(type(model), offered):
        loaded = _load_all([offer for offer in group if _asks(offer, "claims", offer.item.claims, model)])
        accepting = [(offer, backend) for offer, backend in loaded if _asks(offer, "accepts", backend.accepts, model)]
        if len(accepting) > 1:
            (first, _), (second, _) = accepting[:2]
            raise RegistrationConflictError(
                f"two backends claim a model of type {_name_type(model)} equally: {first.item.name!r} of plugin "
                f"{first.plugin} and {second.item.name!r} of plugin {second.plugin}; choose one with "
                f"backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
                f"{second.plugin.disable_setting}"
            )
        if accepting:
            return accepting[0][1]
        refusing = refusing or next((backend for _, backend in loaded), None)
    if refusing is not None:  # its own error message about the model is more helpful
        return refusing
    raise _not_recognized(model, offered)


def _rank_backends(model_type: type, offered: Sequence[Offer[BackendInfo]]) -> Iterator[list[Offer[BackendInfo]]]:
    """Yield the backends that name a class of the model, or a package that such a class comes from.

    The classes are in the order of the MRO. For each class the longer names come first: "torch.onnx" before "torch".
    Backends whose names have equal length are yielded together, and each backend is yielded once.
    """
    remaining = list(offered)
    for cls in model_type.__mro__:
        path = [*str(cls.__module__).split("."), *cls.__qualname__.split(".")]
        by_length: dict[int, list[Offer[BackendInfo]]] = {}
        for offer in remaining:
            names = (name.split(".") for name in offer.item.frameworks)
            length = max((len(parts) for parts in names if path[: len(parts)] == parts), default=0)
            by_length.setdefault(length, []).append(offer)
        remaining = by_length.pop(0, [])
        yield from (by_length[length] for length in sorted(by_length, reverse=True))


def _asks(offer: Offer[BackendInfo], question: str, ask: Callable[[Any], bool], model: Any) -> bool:
    """Return what a backend answers to a question about a model; False, with a warning, if it raises."""
    what = f"{question} of the {offer.item.name} backend"
    return ask_plugin(offer.plugin, what, lambda: ask(model), BackendNotFoundError)


def _name_type(model: Any) -> str:
    return f"{in_plain_names(type(model).__module__)}.{type(model).__qualname__}"


def _not_recognized(model: Any, offered: Iterable[Offer[BackendInfo]]) -> BackendNotFoundError:
    """Return the error for what no backend takes for a model, with what to give instead."""
    listing = (
        ", ".join(offer.item.name for offer in offered) or "none: reinstall profilerkit, its entry points are missing"
    )
    if isinstance(model, (str, os.PathLike)):
        unread = describe_unread(model)
        if unread:
            return BackendNotFoundError(unread)
        return BackendNotFoundError(
            f"the path {os.fspath(model)!r} does not say of which framework the model is; a path needs backend=..., "
            f"such as backend='tensorflow'; backends installed: {listing}{describe_disabled()}"
        )
    if isinstance(getattr(model, "reports", None), tuple):
        return BackendNotFoundError(
            f"model={shown(model)} is a result, and not a model; reports are compared by "
            "Comparison(report, (other_report,))"
        )
    if isinstance(model, type):
        return BackendNotFoundError(
            f"model={shown(model)} is a class, not a model; give an instance of it: {model.__name__}(...)"
        )
    return BackendNotFoundError(
        f"no backend recognizes a model of type {_name_type(model)}; backends installed: {listing}"
        f"{describe_disabled()}; pass backend=... to choose one"
    )


def _load_all(claiming: list[Offer[BackendInfo]]) -> list[tuple[Offer[BackendInfo], Backend]]:
    """Return the claiming backends, loaded; raises `BackendNotInstalledError` if none of them can be loaded."""
    loaded, errors = [], []
    for offer in claiming:
        try:
            loaded.append((offer, load(offer.item, offer.plugin)))
        except BackendNotInstalledError as error:
            errors.append(error)
    if errors and not loaded:
        raise errors[0]
    return loaded


def backend_named(name: str) -> Backend:
    """Return a backend by its name."""
    by_name = {offer.item.name: offer for offer in list_backends()}
    if name not in by_name:
        listing = ", ".join(by_likeness(name, by_name)) or "none"
        raise BackendNotFoundError(f"no backend {name!r}; installed, nearest first: {listing}{describe_disabled()}")
    return load(by_name[name].item, by_name[name].plugin)


def describe_disabled() -> str:
    """Return the end of a "not found" message: the plugins that are disabled; an empty text if none is."""
    names = ", ".join(
        f"{plugin.name} ({plugin.distribution})" if plugin.is_ambiguous else plugin.name
        for plugin in list_disabled_plugins()
    )
    return f" (plugins switched off: {names})" if names else ""


def load(info: BackendInfo, plugin: PluginInfo | None = None) -> Backend:
    """Import a backend's framework and return the backend, with the cost formulas that plugins offer for it.

    ``plugin`` is the plugin that offers the backend; if it is None, the plugin is looked up.

    Raises `BackendNotInstalledError` if the framework or the plugin raises anything, and if the backend is written for
    an unsupported version of the interface.
    """
    plugin = plugin or _find_plugin(info)
    _require_version(info, plugin)
    declare_tested(info.name, info.tested)
    try:
        with contained(plugin, f"loading the {info.name} backend"):
            backend = info.load()
    except ImportError as error:
        raise not_installed(info, error) from error
    except MemoryError:
        raise
    except Exception as error:  # a broken shared library, a framework that does not start
        raise _unusable(info, plugin, plugin_error_text(error)) from error
    if not isinstance(backend, Backend):
        raise _unusable(info, plugin, f"its load returned {backend!r}, which is no Backend")
    return equip(backend)


def _require_version(info: BackendInfo, plugin: PluginInfo | None) -> None:
    """Raise `BackendNotInstalledError` for a backend that is written for an unsupported version of the interface."""
    from importlib.metadata import version

    if OLDEST_API_VERSION <= info.api_version <= API_VERSION:
        return
    source = "" if plugin is None else f" of plugin {plugin}"
    supported = f"{OLDEST_API_VERSION} to {API_VERSION}" if OLDEST_API_VERSION < API_VERSION else f"{API_VERSION} alone"
    upgrade = "profilerkit: pip install --upgrade profilerkit"
    if info.api_version < OLDEST_API_VERSION:
        upgrade = f"that package: pip install --upgrade '{info.requirement}'"
    remedy = "" if plugin is None else f"; {plugin.workaround}"
    raise BackendNotInstalledError(
        f"the {info.name} backend{source} is written for version {info.api_version} of the interface of backends, and "
        f"profilerkit {version('profilerkit')} supports {supported}; upgrade {upgrade}{remedy}"
    )


def not_installed(info: BackendInfo, error: ImportError) -> BackendNotInstalledError:
    """Return the error for a backend whose framework is missing or too old."""
    mismatch = (
        describe_untested(info.name) if error.name else ""
    )  # an error without a name says that a release is too old
    return BackendNotInstalledError(
        f"the {info.name} backend cannot be used: {error}; {mismatch and f'{mismatch}; '}install it with: "
        f"pip install '{info.requirement}'"
    )


def _unusable(info: BackendInfo, plugin: PluginInfo | None, reason: str) -> BackendNotInstalledError:
    source, remedy = ("", "") if plugin is None else (f" of plugin {plugin}", f"; {plugin.workaround}")
    mismatch = describe_untested(info.name)
    return BackendNotInstalledError(
        f"the {info.name} backend{source} cannot be used: {reason}; {mismatch and f'{mismatch}; '}reinstall or update "
        "it with: "
        f"pip install --upgrade '{info.requirement}'{remedy}"
    )


def _find_plugin(info: BackendInfo) -> PluginInfo | None:
    """Return the plugin that offers a backend; None if no plugin does."""
    # A hook may return new objects at each call, so equal facts count too.
    facts = (info.name, info.frameworks, info.requirement)
    for offer in offers("profilerkit_backends", BackendInfo):
        if offer.item is info or (offer.item.name, offer.item.frameworks, offer.item.requirement) == facts:
            return offer.plugin
    return None


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
