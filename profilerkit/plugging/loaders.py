"""Loading a model that a text names: the loaders of plugins, and the two of profilerkit."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments.checks import text
from ..errors import (
    BackendNotInstalledError,
    InputError,
    ModelFailedError,
    PluginFailedError,
    ProfilerKitError,
    by_likeness,
)
from ..process.containment import contained
from .extension import LoaderInfo
from .loaded_files import find_namespace, in_plain_names, path_restored
from .sources import ask_plugin
from .unread_formats import describe_unread

if TYPE_CHECKING:
    from .manager import Offer

__all__ = ["find_loader", "load_function", "load_model"]

#: Where Python's own modules are, and those of profilerkit.
_OURS = (Path(ast.__file__).parent, Path(__file__).parents[1])


def load_model(spec: str, trust: bool = False) -> Any:
    """Return the model that a text names; ``sys.path`` is restored afterwards.

    A file that may run code when it is loaded is loaded with ``trust`` only; Python files need no trust.

    Raises `InputError` for a text that no loader accepts or that names no model, and `ModelFailedError` if the code
    that is loaded raises, `BackendNotInstalledError` if it imports a framework that is not installed.
    """
    offer = find_loader(text("a text that says where a model is, such as 'package.module:name'")("spec", spec))
    try:
        with path_restored(), contained(offer.plugin, f"model loader {offer.item.name!r}"):
            return offer.item.load(spec, trust=trust) if _takes_trust(offer.item.load) else offer.item.load(spec)
    except MemoryError:
        raise
    except Exception as error:
        cause = error.__cause__ if isinstance(error, (ModelFailedError, PluginFailedError)) else error
        missing = _framework_missing(cause)
        if missing is not None:
            raise missing from cause
        if isinstance(error, PluginFailedError):
            raise ModelFailedError(str(error)) from cause
        if isinstance(error, ProfilerKitError):  # the loader has said what is wrong and what to do
            raise
        raise ModelFailedError(
            f"model loader {offer.item.name!r} of plugin {offer.plugin} raised {type(error).__name__} for {spec!r}: "
            f"{error}; {offer.plugin.workaround}"
        ) from error


def _framework_missing(error: BaseException | None) -> BackendNotInstalledError | None:
    """Return the error of a backend whose framework could not be imported; None for any other error."""
    from .offers import backends, not_installed

    if not isinstance(error, ModuleNotFoundError):
        return None
    for info in backends():
        if error.name in info.frameworks:
            return not_installed(info, error)
    return None


def find_loader(spec: str) -> Offer[LoaderInfo]:
    """Return the loader that accepts a text; loaders of other packages take precedence over profilerkit's own.

    Raises `InputError` if no loader accepts the text, or if the loaders of several packages do.
    """
    from .offers import describe_disabled, list_loaders

    offered = list_loaders()
    accepting = [offer for offer in offered if _accepts(offer, spec)]
    if not accepting and spec.rstrip(":").endswith(".py"):
        file = spec.rstrip(":")
        names = ", ".join(f"{file}:{name}" for name in _read_names(Path(file)))
        listing = f"; its classes and functions are: {names}" if names else ""
        raise InputError(
            f"{spec!r} is a file, and no model in it; give {file}:name of a model or of what builds one{listing}"
        )
    if not accepting and describe_unread(spec):
        raise InputError(describe_unread(spec))
    if not accepting:
        ways = " or ".join(offer.item.description for offer in offered) or "(no plugin offers a way to load one)"
        raise InputError(f"{spec!r} does not say where the model is; give {ways}{describe_disabled()}")
    external = [offer for offer in accepting if offer.item.load not in (load_from_module, load_from_file)]
    if len(external) > 1:
        names = " and ".join(f"{offer.item.name!r} (plugin {offer.plugin})" for offer in external)
        by_code = [offer.plugin.name for offer in external if offer.plugin.is_by_code]
        remedy = f"switch one off: {external[-1].plugin.disable_setting}"
        if by_code:
            remedy = f"leave out the code that registers {by_code[-1]!r}"
        raise InputError(f"several model loaders take {spec!r}: {names}; {remedy}")
    return (external or accepting)[0]


def _read_names(path: Path) -> list[str]:
    """Return the public classes and functions at the top of a Python file, which is read and not run."""
    try:
        statements = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    definitions = [item for item in statements if isinstance(item, (ast.ClassDef, ast.FunctionDef))]
    return [item.name for item in definitions if not item.name.startswith("_")]


def _takes_trust(load: Callable[..., Any]) -> bool:
    try:
        return "trust" in inspect.signature(load).parameters
    except (TypeError, ValueError):  # a function written in C may have no signature
        return False


def _accepts(offer: Offer[LoaderInfo], spec: str) -> bool:
    return ask_plugin(offer.plugin, f"model loader {offer.item.name!r}", lambda: offer.item.accepts(spec))


def is_in_module(spec: str) -> bool:
    """Return whether a text has the form ``package.module:name``."""
    source, _, name = spec.rpartition(":")
    return bool(source and name) and not is_in_file(spec)


def is_in_file(spec: str) -> bool:
    """Return whether a text has the form ``path/to/file.py:name``."""
    source, _, name = spec.rpartition(":")
    return bool(name) and Path(source).suffix == ".py"


def load_from_module(spec: str, take: Callable[[str, Any], Any] | None = None) -> Any:
    """Return the model that ``package.module:name`` names; the current folder is on ``sys.path`` while it is loaded.

    A class or a function is called without arguments; any other object is the model itself. A module that is not
    installed is imported like one in a file: see `load_from_file`.
    """
    source = spec.rpartition(":")[0]
    namespace = find_namespace(Path.cwd())
    with namespace.in_use():
        if source.startswith(".") or _guard(source, lambda: _module_spec(source)) is None:
            raise InputError(f"cannot import {source!r}: there is no such module")
        module = _guard(source, lambda: namespace.import_for_code(source, fromlist=("__name__",)))
        return (take or _model)(spec, module)


def _module_spec(module: str) -> Any:
    """Return the spec of a module, None if there is no such module; its parent packages are imported."""
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{in_plain_names(error.name)}."):
            return None
        raise  # a parent package exists, and imports a module that does not


def load_from_file(spec: str, take: Callable[[str, Any], Any] | None = None) -> Any:
    """Return the model that ``path/to/file.py:name`` names; the file's folder is on ``sys.path`` while it is loaded.

    A class or a function is called without arguments; any other object is the model itself. The modules that the file
    imports from its folder are separate from modules of the same names of another file, and of the caller.
    ``importlib.import_module(type(model).__module__)`` is the module of the model's class.
    """
    source = spec.rpartition(":")[0]
    path = Path(source)
    if not path.is_file():
        raise InputError(f"there is no file {source!r}")
    namespace = find_namespace(path)
    with namespace.in_use():
        return (take or _model)(spec, _guard(source, namespace.load_main))


def load_function(spec: str) -> Callable[..., Any]:
    """Return the function that ``package.module:name`` or ``path/to/file.py:name`` names, and do not call it.

    Raises `InputError` for what there is not, and what cannot be called.
    """
    load = load_from_file if is_in_file(spec) else load_from_module
    with path_restored():
        function = load(spec, _find_member)
    if not callable(function):
        raise InputError(f"{spec!r} is a {type(function).__name__}, and cannot be called; name a function")
    named: Callable[..., Any] = function
    return named


def _model(spec: str, module: Any) -> Any:
    member = _find_member(spec, module)
    return _guard(spec, member) if inspect.isclass(member) or inspect.isroutine(member) else member


def _find_member(spec: str, module: Any) -> Any:
    source, _, name = spec.rpartition(":")
    member = module
    for part in name.split("."):
        if not hasattr(member, part):
            public = [key for key, value in vars(module).items() if key[0] != "_" and not inspect.ismodule(value)]
            listing = ", ".join(by_likeness(name, public)[:10]) or "nothing public"
            raise InputError(f"{source!r} has no {name!r}; it has, nearest first: {listing}")
        member = getattr(member, part)
    return member


def _guard(source: str, load: Callable[[], Any]) -> Any:
    """Return ``load()``; an error of the user's code, `SystemExit` among them, becomes a `ModelFailedError`."""
    try:
        return load()
    except MemoryError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        message = f"{source} raised {type(error).__name__}: {in_plain_names(str(error))}"
        raise ModelFailedError(f"{message}{_find_line(error)}") from error


def _find_line(error: BaseException) -> str:
    """Return where an error arose in the user's own files: the last line of a call that is in no installed package."""
    calls = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    lines = [(path, line) for path, line in calls if path.is_file() and not _is_installed(path)]
    return f" ({lines[-1][0].name}, line {lines[-1][1]})" if lines else ""


def _is_installed(path: Path) -> bool:
    return "site-packages" in path.parts or any(path.is_relative_to(folder) for folder in _OURS)
