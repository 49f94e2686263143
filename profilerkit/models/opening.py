"""From a model, as the user gives it, to the model that is profiled, its backend, and the file that holds it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..arguments.structures import is_tensor
from ..backend import BACKEND, Backend
from ..backend_kit.failures import name_backend
from ..error_text import shown
from ..hooks.backend_additions import equip
from ..hooks.backends import backend_named
from ..hooks.infos import PlacementInfo
from ..hooks.manager import list_infos, load_offer
from ..hooks.plugin_info import conflict
from ..process.files import read_stamp
from ..protocols import OpensModels, find_capability
from .recognition import find_backend, suggest_model

__all__ = ["OpenedModel", "SplitArguments", "list_placing_arguments", "open_model", "place_model", "split_arguments"]


@dataclass(frozen=True, eq=False)
class OpenedModel:
    """A model and its backend, with the path that it was read from, if it was.

    Attributes:
        model: The model itself.
        backend: Its backend.
        path: The path of its file or folder; None for a model that was no path.
        stamps: The state of each of its files before the model was read, by which a later change is noticed.
    """

    model: Any
    backend: Backend
    path: Path | None = None
    stamps: Sequence[str] = ()

    def renew(self) -> OpenedModel:
        """Return the model that is in the file now: this one, unless the file has changed.

        A model whose file is gone stays: nothing newer can be read. Raises as `open_model` does.
        """
        if self.path is None or _read_stamps(self.path) in ([], self.stamps):
            return self
        return open_model(os.fspath(self.path), self.backend)


def open_model(model: Any, backend: Backend | str | None = None, kind: type[Backend] | None = None) -> OpenedModel:
    """Return a model, read from its file if it is a path, and its backend.

    Args:
        model: The model, or the path of its file or folder.
        backend: Its backend, or the name of it; None for the one that recognizes it.
        kind: The class of the backend if none is given; None for any.

    Raises `TypeError` if the backend does not accept the model.
    """
    # Its whole path, because the process may change its folder.
    path = Path(os.fsdecode(model)).absolute() if isinstance(model, (str, os.PathLike)) else None
    stamps = [] if path is None else _read_stamps(path)  # before it is read: it may change meanwhile
    resolved = _find_backend(model, backend, kind)
    opener = find_capability(resolved, OpensModels)
    if opener is not None:
        model = opener.open_model(model)
    with name_backend(resolved.name, "accepts"):
        is_accepted = resolved.accepts(model)
    if not is_accepted:
        problem = f"the {resolved.name} backend cannot profile a {type(model).__name__}"
        hint = "; example inputs are given by name, inputs=..." if is_tensor(model) else suggest_model(model)
        raise TypeError(f"{problem}; give it a model of its own, not {shown(model)}{hint}")
    return OpenedModel(model, resolved, path, stamps)


def _find_backend(model: Any, backend: Any, kind: type[Backend] | None) -> Backend:
    requested = BACKEND("backend", backend)
    if isinstance(requested, str):
        return backend_named(requested)
    if requested is not None:
        return equip(requested)
    return find_backend(model) if kind is None else equip(kind())


def _read_stamps(path: Path) -> list[str]:
    """Return each file at a path with its stamp; an empty list if there is no file.

    For a folder these are the files in it and in its folders, like the files of a saved model.
    """
    try:
        files = [path, *sorted(path.glob("*")), *sorted(path.glob("*/*"))] if path.is_dir() else [path]
    except (OSError, ValueError):  # not to be read, or no name of a file
        return []
    return [f"{file} {stamp}" for file in files if (stamp := read_stamp(file))]


# The model of a plugin in place of the user's model, if an argument asks for it ---------------------------------------


def list_placing_arguments() -> list[str]:
    """Return the names of the arguments that place a model."""
    return [name for offer in list_infos(PlacementInfo) for name in offer.item.arguments]


class SplitArguments(NamedTuple):
    """The arguments of a call in two groups: arguments that place a model (None is left out), and all others."""

    placing: dict[str, Any]
    others: dict[str, Any]


def split_arguments(arguments: Mapping[str, Any]) -> SplitArguments:
    """Return the arguments that place a model, and all others."""
    split = SplitArguments({}, {})
    names = list_placing_arguments() if arguments else []
    for name, value in arguments.items():
        if name not in names:
            split.others[name] = value
        elif value is not None:
            split.placing[name] = value
    return split


def place_model(
    model: Any, backend: Backend | str | None, placing: Mapping[str, Any], trust: bool = False
) -> tuple[Any, Backend | str | None]:
    """Return the model that a plugin profiles in place of a model, by its arguments, and its backend.

    Raises the plugin's errors for wrong arguments, and `RegistrationConflictError` for arguments of two plugins.
    """
    asked = [offer for offer in list_infos(PlacementInfo) if not placing.keys().isdisjoint(offer.item.arguments)]
    if len(asked) > 1:
        raise conflict(f"what is profiled for {', '.join(placing)}", asked[0].plugin, asked[1].plugin)
    arguments = {name: value for name, value in placing.items() if name in asked[0].item.arguments}
    placed: tuple[Any, Backend] = load_offer(asked[0])(model, backend, arguments, trust)
    return placed
