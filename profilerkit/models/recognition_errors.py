"""Errors about a model that no backend recognizes, or that two backends claim, with the advice."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from ..error_text import shown
from ..errors import BackendNotFoundError, RegistrationConflictError
from ..hooks.infos import BackendInfo
from ..hooks.manager import describe_disabled
from ..hooks.plugin_info import Offer, conflict
from .loaded_files import in_plain_names
from .loaders import describe_unread, list_accepting

__all__ = ["explain_unrecognized", "explain_unrecognized_path", "make_conflict_error", "suggest_model"]


def _name_type(model: Any) -> str:
    return f"{in_plain_names(type(model).__module__)}.{type(model).__qualname__}"


def make_conflict_error(model: Any, first: Offer[BackendInfo], second: Offer[BackendInfo]) -> RegistrationConflictError:
    """Return the error for a model that two backends claim equally, of one name or of two."""
    if first.item.name == second.item.name:
        return conflict(f"{BackendInfo.WHAT} {first.item.name!r}", first.plugin, second.plugin)
    return RegistrationConflictError(
        f"two backends claim a model of type {_name_type(model)} equally: {first.item.name!r} of plugin "
        f"{first.plugin} and {second.item.name!r} of plugin {second.plugin}; choose one with "
        f"backend={first.item.name!r} or backend={second.item.name!r}, or switch one plugin off: "
        f"{second.plugin.disable_setting}"
    )


def explain_unrecognized_path(
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


def explain_unrecognized(model: Any, offered: Iterable[Offer[BackendInfo]]) -> BackendNotFoundError:
    """Return the error for an object that no backend accepts as a model, with the advice."""
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
