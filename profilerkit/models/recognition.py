"""Which of the backends that plugins offer a model is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..backend import Backend
from ..errors import BackendNotFoundError, BackendNotInstalledError
from ..hooks.backends import backend_named, load
from ..hooks.infos import BackendInfo
from ..hooks.manager import list_infos
from ..hooks.plugin_info import Offer, tolerate
from .recognition_errors import explain_unrecognized, explain_unrecognized_path, make_conflict_error

__all__ = ["find_backend"]


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
    for group in _rank_backends(type(model), offered):
        loaded = _load_claiming(group, model)
        accepting = [one for one in loaded if _ask(one.offer, "accepts", one.backend.accepts, model)]
        if len(accepting) > 1:
            raise make_conflict_error(model, accepting[0].offer, accepting[1].offer)
        if accepting:
            return accepting[0].backend
        refusing += [one.backend for one in loaded]
    if refusing:  # its own error message about the model is more helpful
        return refusing[0]
    raise explain_unrecognized(model, offered)


def _find_backend_of_path(path: str | os.PathLike[str], offered: Sequence[Offer[BackendInfo]]) -> Backend:
    suffix = Path(os.fsdecode(path)).suffix.lower()
    for offer in offered:
        if suffix in map(str.lower, offer.item.suffixes):
            return backend_named(offer.item.name)
    raise explain_unrecognized_path(path, offered)


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
        if _ask(offer, "claims", offer.item.claims, model):
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
