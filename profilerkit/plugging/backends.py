"""The backends that plugins offer: which of them a model is for, and loading it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..backend import Backend
from ..backend_kit.tested_releases import declare_tested, describe_untested
from ..error_text import shown
from ..errors import BackendNotFoundError, BackendNotInstalledError, RegistrationConflictError, by_likeness
from ..process.containment import contained, plugin_error_text
from .extension import API_VERSION, OLDEST_API_VERSION, BackendInfo, LoaderInfo
from .loaded_files import in_plain_names
from .manager import Offer, PluginInfo, describe_disabled, list_offers
from .offered_formulas import equip
from .sources import ask_plugin, require_unique
from .unread_formats import describe_unread

__all__ = ["backend_named", "backends", "find_backend", "list_backends", "load", "not_installed"]


def list_backends() -> list[Offer[BackendInfo]]:
    """Return the backends of all plugins; raises `RegistrationConflictError` for two of the same name."""
    return require_unique("backend", list_offers("profilerkit_backends", BackendInfo))


def backends() -> tuple[BackendInfo, ...]:
    """Return the backends of all plugins."""
    return tuple(offer.item for offer in list_backends())


def backend_named(name: str) -> Backend:
    """Return a backend by its name."""
    by_name = {offer.item.name: offer for offer in list_backends()}
    if name not in by_name:
        listing = ", ".join(by_likeness(name, by_name)) or "none"
        raise BackendNotFoundError(f"no backend {name!r}; installed, nearest first: {listing}{describe_disabled()}")
    return load(by_name[name].item, by_name[name].plugin)


# Of a model -----------------------------------------------------------------------------------------------------------


def find_backend(model: Any) -> Backend:
    """Return the backend for a path, by its suffix, or for a model, by the classes in its MRO.

    The first class that a backend claims decides: a Keras model is the Keras backend's, also if it runs on torch. Of
    several backends that claim a class, the one with the longest name for it is used, if it accepts the model.

    Raises `BackendNotFoundError` if no backend does, `RegistrationConflictError` if two do with names of equal length.
    """
    offered = list_backends()
    if isinstance(model, (str, os.PathLike)):
        suffix = Path(os.fspath(model)).suffix
        for offer in offered:
            if suffix in offer.item.suffixes:
                return load(offer.item, offer.plugin)
    refusing: Backend | None = None
    for group in _rank_backends(type(model), offered):
        claiming = [offer for offer in group if _ask(offer, "claims", offer.item.claims, model)]
        loaded = _load_all(claiming)
        accepting = [(offer, backend) for offer, backend in loaded if _ask(offer, "accepts", backend.accepts, model)]
        if len(accepting) > 1:
            (first, _), (second, _) = accepting[:2]
            raise _make_conflict_error(model, first, second)
        if accepting:
            (_, backend), *_ = accepting
            return backend
        refusing = refusing or next((backend for _, backend in loaded), None)
    if refusing is not None:  # its own error message about the model is more helpful
        return refusing
    raise _explain_unrecognized(model, offered)


def _rank_backends(model_type: type, offered: Sequence[Offer[BackendInfo]]) -> Iterator[list[Offer[BackendInfo]]]:
    """Yield the backends that name a class of the model, or a package that such a class comes from.

    The classes are in the order of the MRO. For each class the longer names come first: "torch.onnx" before "torch".
    Backends whose names have equal length are yielded together, and each backend is yielded once.
    """
    remaining = list(offered)
    for cls in model_type.__mro__:
        path = f"{cls.__module__}.{cls.__qualname__}."
        by_length: dict[int, list[Offer[BackendInfo]]] = {}
        for offer in remaining:
            named = [name for name in offer.item.frameworks if path.startswith(f"{name}.")]
            by_length.setdefault(max((name.count(".") + 1 for name in named), default=0), []).append(offer)
        remaining = by_length.pop(0, [])
        yield from (by_length[length] for length in sorted(by_length, reverse=True))


def _ask(offer: Offer[BackendInfo], question: str, ask: Callable[[Any], bool], model: Any) -> bool:
    """Return what a backend answers to a question about a model; False, with a warning, if it raises."""
    what = f"{question} of the {offer.item.name} backend"
    return ask_plugin(offer.plugin, what, lambda: ask(model), BackendNotFoundError)


def _load_all(claiming: Sequence[Offer[BackendInfo]]) -> list[tuple[Offer[BackendInfo], Backend]]:
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


def _name_type(model: Any) -> str:
    return f"{in_plain_names(type(model).__module__)}.{type(model).__qualname__}"


def _make_conflict_error(
    model: Any, first: Offer[BackendInfo], second: Offer[BackendInfo]
) -> RegistrationConflictError:
    return RegistrationConflictError(
        f"two backends claim a model of type {_name_type(model)} equally: {first.item.name!r} of plugin "
        f"{first.plugin} and {second.item.name!r} of plugin {second.plugin}; choose one with "
        f"backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
        f"{second.plugin.disable_setting}"
    )


def _explain_unrecognized(model: Any, offered: Iterable[Offer[BackendInfo]]) -> BackendNotFoundError:
    """Return the error for what no backend takes for a model, with what to give instead."""
    listing = (
        ", ".join(offer.item.name for offer in offered) or "none: reinstall profilerkit, its entry points are missing"
    )
    if isinstance(model, (str, os.PathLike)):
        unread = describe_unread(model)
        if unread:
            return BackendNotFoundError(unread)
        if isinstance(model, str) and ":" in model and _is_loadable(model):  # "hf:bert", and no path
            return BackendNotFoundError(
                f"{model!r} is a text that a model loader takes, as on the command line; load the model first: "
                f"load_model({model!r}) of profilerkit.plugging.loaders"
            )
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


def _is_loadable(text: str) -> bool:
    """Return whether a model loader takes a text."""
    offered = list_offers("profilerkit_model_loaders", LoaderInfo)
    return any(
        ask_plugin(offer.plugin, f"model loader {offer.item.name!r}", partial(offer.item.accepts, text))
        for offer in offered
    )


# Loading --------------------------------------------------------------------------------------------------------------


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
        raise _make_unusable_error(info, plugin, plugin_error_text(error)) from error
    if not isinstance(backend, Backend):
        raise _make_unusable_error(info, plugin, f"its load returned {backend!r}, which is no Backend")
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
    mismatch = describe_untested(info.name) if error.name else ""  # without a name it says that a release is too old
    return BackendNotInstalledError(
        f"the {info.name} backend cannot be used: {error}; {mismatch}{'; ' if mismatch else ''}install it with: "
        f"pip install '{info.requirement}'"
    )


def _make_unusable_error(info: BackendInfo, plugin: PluginInfo | None, reason: str) -> BackendNotInstalledError:
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
    for offer in list_offers("profilerkit_backends", BackendInfo):
        if offer.item is info or (offer.item.name, offer.item.frameworks, offer.item.requirement) == facts:
            return offer.plugin
    return None
