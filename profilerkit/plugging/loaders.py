"""From what a user types to a model: the loaders of plugins, and the two that come with profilerkit."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments.checking import checked
from ..errors import InputError, ModelFailedError, PluginFailedError, ProfilerKitError, by_likeness
from ..process.containment import contained, said_of
from .extension import LoaderInfo
from .loaded_files import in_plain_names, namespace_of, path_kept
from .sources import warn

if TYPE_CHECKING:
    from .manager import Offer

__all__ = ["find_loader", "load_model"]


def load_model(spec: str, trust: bool = False) -> Any:
    """Return the model that a text leads to; ``sys.path`` is afterwards what it was.

    A file that may run code when it is loaded, a Python file aside, is loaded with ``trust`` alone.

    Raises `InputError` for one that no loader takes or that leads nowhere, `ModelFailedError` where the code it leads
    to raises.
    """
    offer = find_loader(checked("spec", spec))
    try:
        with path_kept(), contained(offer.plugin, f"model loader {offer.item.name!r}"):
            return offer.item.load(spec, trust=trust) if _takes_trust(offer.item.load) else offer.item.load(spec)
    except PluginFailedError as error:
        raise ModelFailedError(str(error)) from error.__cause__
    except ProfilerKitError:
        raise
    except Exception as error:
        raise ModelFailedError(
            f"model loader {offer.item.name!r} of plugin {offer.plugin} raised {type(error).__name__} for {spec!r}: "
            f"{error}; {offer.plugin.way_out}"
        ) from error


def find_loader(spec: str) -> Offer[LoaderInfo]:
    """Return the loader that takes a text; those of other packages are asked before profilerkit's own.

    Raises `InputError` where none takes it, or where those of several packages do.
    """
    from .offers import offered_loaders, without_switched_off

    offered = offered_loaders()
    taking = [offer for offer in offered if _accepts(offer, spec)]
    if not taking and spec.rstrip(":").endswith(".py"):
        file = spec.rstrip(":")
        raise InputError(f"{spec!r} is a file, and no model in it; give {file}:name of a model or of what builds one")
    if not taking:
        ways = " or ".join(offer.item.description for offer in offered) or "(no plugin offers a way to load one)"
        raise InputError(f"{spec!r} does not say where the model is; give {ways}{without_switched_off()}")
    special = [offer for offer in taking if offer.item.load not in (load_from_module, load_from_file)]
    if len(special) > 1:
        names = " and ".join(f"{offer.item.name!r} (plugin {offer.plugin})" for offer in special)
        by_code = [offer.plugin.name for offer in special if offer.plugin.is_by_code]
        remedy = f"switch one off: {special[-1].plugin.switching_off}"
        if by_code:
            remedy = f"leave out the code that registers {by_code[-1]!r}"
        raise InputError(f"several model loaders take {spec!r}: {names}; {remedy}")
    return (special or taking)[0]


def _takes_trust(load: Callable[..., Any]) -> bool:
    try:
        return "trust" in inspect.signature(load).parameters
    except (TypeError, ValueError):  # one that is written in C does not say what it takes
        return False


def _accepts(offer: Offer[LoaderInfo], spec: str) -> bool:
    try:
        with contained(offer.plugin, f"model loader {offer.item.name!r}"):
            return bool(offer.item.accepts(spec))
    except Exception as error:  # whatever a plugin does wrong, the others go on
        said = f"model loader {offer.item.name!r} of plugin {offer.plugin} raised {said_of(error)}"
        warn(f"{said}; it is left out; {offer.plugin.way_out}")
        return False


def is_in_module(spec: str) -> bool:
    """Say whether a text is ``package.module:name``."""
    source, _, name = spec.rpartition(":")
    return bool(source and name) and not is_in_file(spec)


def is_in_file(spec: str) -> bool:
    """Say whether a text is ``path/to/file.py:name``."""
    source, _, name = spec.rpartition(":")
    return bool(name) and Path(source).suffix == ".py"


def load_from_module(spec: str) -> Any:
    """Return the model that ``package.module:name`` refers to; the current folder is on the path meanwhile.

    A class, or a function whose parameters all have defaults, is called; anything else is the model itself. A module
    that is not installed is the caller's own no less than one in a file: see `load_from_file`.
    """
    source = spec.rpartition(":")[0]
    namespace = namespace_of(Path.cwd())
    with namespace.in_use():
        if source.startswith(".") or _guarded(source, lambda: _found(source)) is None:
            raise InputError(f"cannot import {source!r}: there is no such module")
        return _model(spec, _guarded(source, lambda: namespace.import_module_of(source, fromlist=("__name__",))))


def _found(module: str) -> Any:
    """Return how a module would be imported, None where it is not there; the packages around it are imported."""
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{in_plain_names(error.name)}."):
            return None
        raise  # one of these packages is there, and imports something that is not


def load_from_file(spec: str) -> Any:
    """Return the model that ``path/to/file.py:name`` refers to; the file's folder is on the path meanwhile.

    A class, or a function whose parameters all have defaults, is called; anything else is the model itself. What the
    file imports from its folder is its own: another file with modules of the same names has others, and so has the
    caller. ``importlib.import_module(type(model).__module__)`` is the module of the model's class.
    """
    source = spec.rpartition(":")[0]
    path = Path(source)
    if not path.is_file():
        raise InputError(f"there is no file {source!r}")
    namespace = namespace_of(path)
    with namespace.in_use():
        return _model(spec, _guarded(source, namespace.load_main))


def _model(spec: str, module: Any) -> Any:
    source, _, name = spec.rpartition(":")
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [known for known, value in vars(module).items() if known[0] != "_" and not inspect.ismodule(value)]
            listing = ", ".join(by_likeness(name, public)[:10]) or "nothing public"
            raise InputError(f"{source!r} has no {name!r}; it has, nearest first: {listing}")
        found = getattr(found, part)
    return _guarded(spec, found) if inspect.isclass(found) or inspect.isroutine(found) else found


def _guarded(source: str, load: Callable[[], Any]) -> Any:
    """Return ``load()``; an error of the user's own code, also one that would leave the process, is said in a line."""
    try:
        return load()
    except (Exception, SystemExit, GeneratorExit) as error:
        raise ModelFailedError(f"{source} raised {type(error).__name__}: {in_plain_names(str(error))}") from error
