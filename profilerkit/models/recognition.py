"""Which of the backends that plugins offer a model is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from ..backend import Backend
from ..error_text import shown
from ..errors import BackendNotFoundError, BackendNotInstalledError, RegistrationConflictError
from ..hooks.backends import backend_named, load
from ..hooks.infos import BackendInfo
from ..hooks.manager import describe_disabled, list_infos
from ..hooks.plugin_info import Offer, conflict, tolerate
from .loaded_files import in_plain_names
from .loaders import describe_unread, list_accepting

__all__ = ["find_backend", "suggest_model"]


class _Loaded(NamedTuple):
    """A backend, and the offer that it was loaded from."""

    offer: Offer[BackendInfo]
    backend: Backend


def find_backend(model: Any) -> Backend:
    """Return the backend for a path, by its suffix, or for a model, by the classes in its MRO.

    The first class that a backend claims decides: a Keras model belongs to the Keras backend, even if it runs on torch.
    If several backends claim a class, the backend with the longest name for it is used, if it accepts the model.

    Raises `BackendNotFoundError` if no backend claims it, `RegistrationConflictError` if two backends claim it with
    names of equal length, and `BackendNotInstalledError` if no backend that claims it can be loaded.
    """
    offered = list_infos(BackendInfo)
    if isinstance(model, (str, os.PathLike)):
        return _find_backend_of_path(model, offered)
    refusing: list[Backend] = []
    groups = [*_rank_backends(type(model), offered)]
    for group in groups:
        loaded = _load_claiming(group, model)
        if loaded and len(groups) == len(group) == 1:
            return loaded[0].backend  # nothing is to be chosen: whoever opens the model asks whether it is accepted
        accepting = [one for one in loaded if _ask(one.offer, "accepts", one.backend.accepts, model)]
        if len(accepting) > 1:
            raise _make_conflict_error(model, accepting[0].offer, accepting[1].offer)
        if accepting:
            return accepting[0].backend
        refusing += [one.backend for one in loaded]
    if refusing:  # its own error message about the model is more helpful
        return refusing[0]
    raise _explain_unrecognized(model, offered)


def _find_backend_of_path(path: str | os.PathLike[str], offered: Sequence[Offer[BackendInfo]]) -> Backend:
    suffix = Path(os.fsdecode(path)).suffix.lower()
    for offer in offered:
        if suffix in map(str.lower, offer.item.suffixes):
            return backend_named(offer.item.name)
    raise _explain_unrecognized_path(path, offered)


def _rank_backends(model_type: type, offered: Sequence[Offer[BackendInfo]]) -> Iterator[list[Offer[BackendInfo]]]:
    """Yield the backends that name a class of the model, or a package that such a class comes from.

    The classes are in the order of the MRO. For each class the longer names come first: "torch.onnx" before "torch".
    Backends whose names have equal length are yielded together, and each backend is yielded once.
    """
    remaining = offered
    for cls in model_type.__mro__:
        path = f"{cls.__module__}.{cls.__qualname__}."
        by_length: dict[int, list[Offer[BackendInfo]]] = {}
        for offer in remaining:
            longest = 0
            for name in offer.item.frameworks:
                if path.startswith(f"{name}."):
                    longest = max(longest, name.count(".") + 1)
            by_length.setdefault(longest, []).append(offer)
        remaining = by_length.pop(0, [])
        for length in sorted(by_length, reverse=True):
            yield by_length[length]


def _load_claiming(offers: Iterable[Offer[BackendInfo]], model: Any) -> list[_Loaded]:
    """Return the backends that claim a model, loaded; raises `BackendNotInstalledError` if none of them can be."""
    loaded: list[_Loaded] = []
    errors: list[BackendNotInstalledError] = []
    for offer in offers:
        claims = offer.item.claims
        if claims is None or _ask(offer, "claims", claims, model):
            try:
                loaded.append(_Loaded(offer, load(offer)))
            except BackendNotInstalledError as error:
                errors.append(error)
    if errors and not loaded:
        raise errors[0]
    return loaded


def _ask(offer: Offer[BackendInfo], question: str, ask: Callable[[Any], bool], model: Any) -> bool:
    """Return the answer of a backend to a question about a model; False, with a warning, if it raises."""
    what = f"{question} of the {offer.item.name} backend"
    with tolerate(offer.plugin, what, "; it is left out", passed_on=(BackendNotFoundError,)):
        return bool(ask(model))
    return False


# The errors, with the advice ------------------------------------------------------------------------------------------


def _name_type(model: Any) -> str:
    return f"{in_plain_names(type(model).__module__)}.{type(model).__qualname__}"


def _make_conflict_error(
    model: Any, first: Offer[BackendInfo], second: Offer[BackendInfo]
) -> RegistrationConflictError:
    """Return the error for a model that two backends claim equally, of one name or of two."""
    if first.item.name == second.item.name:
        return conflict(f"{BackendInfo.WHAT} {first.item.name!r}", first.plugin, second.plugin)
    return RegistrationConflictError(
        f"two backends claim a model of type {_name_type(model)} equally: {first.item.name!r} of plugin "
        f"{first.plugin} and {second.item.name!r} of plugin {second.plugin}; choose one with "
        f"backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
        f"{second.plugin.disable_setting}"
    )


def _explain_unrecognized_path(
    path: str | os.PathLike[str], offered: Iterable[Offer[BackendInfo]]
) -> BackendNotFoundError:
    """Return the error for a path with a suffix that no backend reads, with the advice."""
    unread = describe_unread(path)
    if unread:
        return BackendNotFoundError(unread)
    if isinstance(path, str) and ":" in path and list_accepting(path):  # "hf:bert", and no path
        return BackendNotFoundError(
            f"{path!r} is a text that a model loader takes, as on the command line; load the model first: "
            f"load_model({path!r}) of profilerkit.models.loaders"
        )
    loading = "a path needs"
    if list_accepting(os.fsdecode(path)):
        loading = f"load it first, load_model({os.fspath(path)!r}) of profilerkit.models.loaders, or give"
    return BackendNotFoundError(
        f"the path {os.fspath(path)!r} does not say of which framework the model is; {loading} backend=..., "
        f"such as backend='tensorflow'; backends installed: {_list_installed(offered)}"
    )


def _explain_unrecognized(model: Any, offered: Iterable[Offer[BackendInfo]]) -> BackendNotFoundError:
    """Return the error for an object that no backend accepts as a model, with the advice."""
    if type(model).__module__.startswith("profilerkit.results."):  # no attribute of a user's object is asked for
        return BackendNotFoundError(
            f"model={shown(model)} is a result, and not a model; reports are compared by "
            "Comparison(report, (other_report,))"
        )
    if isinstance(model, type):
        return BackendNotFoundError(
            f"model={shown(model)} is a class, not a model; give an instance of it: {model.__name__}(...)"
        )
    return BackendNotFoundError(
        f"no backend recognizes a model of type {_name_type(model)}{suggest_model(model)}; backends installed: "
        f"{_list_installed(offered)}; in Python, backend=... chooses one"
    )


def suggest_model(model: Any) -> str:
    """Return the end of an error, with the model to give in place of a function; empty for other objects.

    A framework whose models are objects takes no function.
    """
    if isinstance(model, MethodType):
        owner = type(model.__self__).__name__
        return f"; give the {owner} itself, with call=lambda model, *inputs: model.{model.__name__}(*inputs)"
    if isinstance(model, (FunctionType, partial)):
        return "; give the model that the function runs, with call=lambda model, *inputs: ..., or one that calls it"
    return ""


def _list_installed(offered: Iterable[Offer[BackendInfo]]) -> str:
    """Return the names of the backends for an error message, and the plugins that are disabled."""
    names = ", ".join(offer.item.name for offer in offered)
    return f"{names or 'none: reinstall profilerkit, its entry points are missing'}{describe_disabled()}"
