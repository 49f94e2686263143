"""Loading a model that a text names, by the loader that accepts the text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from os import PathLike, fsdecode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..arguments.checks import text
from ..errors import (
    BackendNotInstalledError,
    InputError,
    ModelFailedError,
    PluginFailedError,
    ProfilerKitError,
)
from ..hooks.infos import LoaderInfo
from ..hooks.manager import describe_disabled, list_infos
from ..hooks.plugin_info import tolerate
from ..process.containment import contained
from .python_loaders import list_definitions, load_from_python
from .search_path import path_restored

if TYPE_CHECKING:
    from ..hooks.plugin_info import Offer

__all__ = ["describe_unread", "find_loader", "list_accepting", "load_model"]


def load_model(spec: str, trust: bool = False) -> Any:
    """Return the model that a text names; ``sys.path`` is restored afterwards.

    A file that may run code when it is loaded is loaded with ``trust`` only; Python files need no trust.

    Raises `InputError` for a text that no loader accepts or that names no model, and `ModelFailedError` if the code
    that is loaded raises or returns None, `BackendNotInstalledError` if it imports a framework that is not installed.
    """
    offer = find_loader(text("a text that says where a model is, such as 'package.module:name'")("spec", spec))
    try:
        with path_restored(), contained(offer.plugin, f"model loader {offer.item.name!r}"):
            model = offer.item.load(spec, trust=trust) if _takes_trust(offer.item.load) else offer.item.load(spec)
    except MemoryError:
        raise
    except Exception as error:
        is_wrapped = isinstance(error, (ModelFailedError, PluginFailedError))
        raised_by_code = error.__cause__ if is_wrapped else error
        better = _find_missing_framework(raised_by_code) or _explain_loader_error(error, offer, spec)
        if better is None:
            raise
        raise better from raised_by_code
    if model is None:
        raise ModelFailedError(f"{spec!r} gave None instead of a model; is there a return missing in what builds it?")
    return model


def _explain_loader_error(error: Exception, offer: Offer[LoaderInfo], spec: str) -> ModelFailedError | None:
    """Return the error to raise for an error of a loader; None if the original error has the advice."""
    if isinstance(error, PluginFailedError):
        return ModelFailedError(str(error))
    if isinstance(error, ProfilerKitError):
        return None
    return ModelFailedError(
        f"model loader {offer.item.name!r} of plugin {offer.plugin} raised {type(error).__name__} for {spec!r}: "
        f"{error}; {offer.plugin.workaround}"
    )


def _find_missing_framework(error: BaseException | None) -> BackendNotInstalledError | None:
    """Return the error of a backend whose framework could not be imported; None for any other error."""
    from ..hooks.backends import backends, not_installed

    if not isinstance(error, ModuleNotFoundError):
        return None
    for info in backends():
        if error.name in info.frameworks:
            return not_installed(info, error)
    return None


def find_loader(spec: str) -> Offer[LoaderInfo]:
    """Return the loader that accepts a text; other loaders take precedence over those of Python code.

    Raises `InputError` if no loader accepts the text, or if several others do.
    """
    accepting = list_accepting(spec)
    if not accepting:
        raise InputError(_explain_refusal(spec))
    external = [offer for offer in accepting if offer.item.load is not load_from_python]
    if len(external) > 1:
        raise InputError(_explain_conflict(spec, external))
    return (external or accepting)[0]


def list_accepting(spec: str) -> list[Offer[LoaderInfo]]:
    """Return the loaders that accept a text; one that raises does not, with a warning."""
    accepting: list[Offer[LoaderInfo]] = []
    for offer in list_infos(LoaderInfo):
        with tolerate(offer.plugin, f"model loader {offer.item.name!r}", "; it is left out"):
            if offer.item.accepts(spec):
                accepting.append(offer)
    return accepting


def _explain_refusal(spec: str) -> str:
    """Return the reason and the advice for a text that no loader accepts."""
    file = spec.rstrip(":")
    try:
        if file.endswith(".py"):
            return _explain_python_file(spec, file)
        return describe_unread(spec) or f"{_describe_path(spec)}; give {_list_ways()}{describe_disabled()}"
    except OSError as error:  # the text is too long for a path, or its folder may not be entered
        return f"{spec!r} cannot be looked for: {error.strerror}"


def _explain_python_file(spec: str, file: str) -> str:
    """Return what is missing from a text that names a Python file, and nothing in it."""
    advice = f"give {file}:name of a model or of what builds one"
    if not Path(file).exists():
        return f"there is no file {file!r}; {advice}"
    names = list_definitions(Path(file))
    if names is None:
        return f"{spec!r} is a file that cannot be read as Python; mend it, and {advice}"
    listing = "; its classes and functions are: " + ", ".join(f"{file}:{name}" for name in names) if names else ""
    return f"{spec!r} is a file, and no model in it; {advice}{listing}"


def _list_ways() -> str:
    """Return the forms of texts that loaders accept."""
    *ways, last = [offer.item.description for offer in list_infos(LoaderInfo)] or [
        "(no plugin offers a way to load one)"
    ]
    return f"{', '.join(ways)} or {last}" if ways else last


def _describe_path(spec: str) -> str:
    """Return the error of a text that no loader accepts: it names a file that is no model, or no file."""
    path = Path(spec)
    if path.is_dir():
        return f"the folder {spec!r} holds no model that can be loaded"
    if path.exists():
        return f"the file {spec!r} is no model that can be loaded"
    return f"there is no file {spec!r}" if "/" in spec else f"{spec!r} does not say where the model is"


def _explain_conflict(spec: str, accepting: Sequence[Offer[LoaderInfo]]) -> str:
    """Return which loaders of other packages accept a text, and how to do without one of them."""
    names = " and ".join(f"{offer.item.name!r} (plugin {offer.plugin})" for offer in accepting)
    by_code = [offer.plugin.name for offer in accepting if offer.plugin.is_by_code]
    remedy = f"switch one off: {accepting[-1].plugin.disable_setting}"
    if by_code:
        remedy = f"leave out the code that registers {by_code[-1]!r}"
    return f"several model loaders take {spec!r}: {names}; {remedy}"


def _takes_trust(load: Callable[..., Any]) -> bool:
    try:
        return "trust" in inspect.signature(load).parameters
    except (TypeError, ValueError):  # a function written in C may have no signature
        return False


# Formats that are known, and that nothing here reads ------------------------------------------------------------------


_ENGINE = "a TensorRT engine, which is compiled for one kind of GPU; profile the .onnx file that it was built from"
_CORE_ML = "a Core ML model; profile the model that it was converted from, or that model as an .onnx file"
_UNREAD = {
    ".engine": _ENGINE,
    ".gguf": "a language model in GGUF, which has weights and no layers: type 'profilerkit llm' instead",
    ".json": "no model; if it is a saved report, 'profilerkit show' prints it",
    ".mlmodel": _CORE_ML,
    ".mlmodelc": _CORE_ML,
    ".mlpackage": _CORE_ML,
    ".plan": _ENGINE,
    ".pte": "a program of ExecuTorch; profile the exported program that it was made of, as a .pt2 file",
    ".trt": _ENGINE,
}


def describe_unread(path: str | PathLike[str]) -> str:
    """Return the format of a file by its suffix, with the advice; an empty text for an unknown suffix.

    >>> describe_unread("net.pte")
    "'net.pte' is a program of ExecuTorch; profile the exported program that it was made of, as a .pt2 file"
    """
    name = fsdecode(path).rstrip("/")
    what = _UNREAD.get(Path(name).suffix.lower(), "")
    return f"{name!r} is {what}" if what else ""
