"""The models that a pattern matches; a library is asked in a process of its own, because it may import a framework."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

import msgspec

from profilerkit.errors import FailureCode, PlanError, ProfilerKitError, by_likeness, classify
from profilerkit.hooks.infos import LoaderInfo
from profilerkit.hooks.manager import find_offer, list_infos
from profilerkit.isolation.interpreters import make_command
from profilerkit.models.python_loaders import is_in_file, is_in_module, list_definitions

from .modules import find_module

#: Seconds that a library may take to list its models.
PATIENCE = 300


@dataclass(frozen=True)
class Listing:
    """Texts for a loader; if a library could not be asked for them, the reason and its code."""

    specs: tuple[str, ...] = ()
    problem: str = ""
    failure: FailureCode | None = None


def is_pattern(spec: str) -> bool:
    """Return whether a text has a wildcard: ``*``, ``?`` or ``[...]``."""
    return re.search(r"[*?\[]", spec) is not None


def find_specs(pattern: str, folder: Path) -> Listing:
    """Return the texts that a pattern matches, or the pattern itself with the problem of a library.

    Files and the models of a library are sorted by name; functions and classes stay in the order of their file.

    Patterns are for files (``nets/*.onnx``), for the public functions and classes of Python files
    (``nets/*.py:build_*``) and of modules (``package.module:build_*``), and for the models that a loader lists
    (``torchvision:*``). A text without a wildcard is returned as it is. Raises `PlanError` for a pattern that matches
    nothing.
    """
    if not is_pattern(pattern) or (folder / pattern).exists():  # a file may be called net[1].onnx
        return Listing((pattern,))
    library, separator, _ = pattern.partition(":")
    code = _find_code(pattern, folder)
    if code:
        return _match_names(pattern, code)
    if code is None and separator and not is_pattern(library):
        return _match_library(pattern, library)
    files = _find_files(pattern, folder)
    if not files:
        why = "there is no such file or folder; paths are relative to the folder of the plan"
        raise PlanError(f"{pattern!r} matches no model; {why}")
    return Listing(tuple(files))


def _find_code(pattern: str, folder: Path) -> dict[str, Path] | None:
    """Return the Python files, by their names in the pattern, in which its names are looked for.

    None for a pattern of no names in code: of files, of models that a loader lists, and of a module that is not there.
    """
    prefix = pattern.rpartition(":")[0]
    if is_in_file(pattern):
        return {file: folder / file for file in _find_files(prefix, folder)}
    if not is_in_module(pattern) or is_pattern(prefix) or prefix in _find_loaders_with_names():
        return None
    module = find_module(prefix, folder)
    return None if module is None else {prefix: module}


def _match_names(pattern: str, files: Mapping[str, Path]) -> Listing:
    """Return the public functions and classes that a pattern matches; ``files`` has the Python files by their names."""
    names = pattern.rpartition(":")[2]
    pairs = [(f"{title}:{name}", name) for title, file in files.items() for name in _read_names(file, names)]
    # A name may be the pattern (see `_read_names`), and net_[0-9] does not match itself.
    matching = tuple(spec for spec, name in pairs if name == names or fnmatchcase(name, names))
    if not matching:
        nearest = _name_nearest(pattern, [spec for spec, _ in pairs])
        reason = nearest if pairs else f"no public function or class is defined in {', '.join(list(files)[:3])}"
        advice = "Python files are read and not run, so list names that code makes one by one (specs = [...])"
        raise PlanError(f"{pattern!r} matches no model; {reason}; {advice}")
    return Listing(matching)


def _match_library(pattern: str, library: str) -> Listing:
    """Return the models of a library that a pattern matches; the pattern with the problem if it cannot list them."""
    listing = _list_library(library)
    if listing.failure is not None:
        return Listing((pattern,), listing.problem, listing.failure)
    matching = tuple(spec for spec in listing.specs if fnmatchcase(spec, pattern))
    if not matching:
        raise PlanError(f"{pattern!r} matches no model; {_name_nearest(pattern, listing.specs)}")
    return Listing(matching)


def _name_nearest(pattern: str, specs: Sequence[str]) -> str:
    return f"the nearest are: {', '.join(by_likeness(pattern, specs)[:5]) or 'none'}"


def _find_files(pattern: str, folder: Path) -> list[str]:
    """Return the files that a pattern matches, relative to the folder as the pattern is."""
    if not is_pattern(pattern):
        return [pattern] if (folder / pattern).exists() else []
    path = Path(pattern)
    base = Path(path.anchor) if path.is_absolute() else folder
    relative = str(path.relative_to(path.anchor)) if path.is_absolute() else pattern
    models = [file for file in base.glob(relative) if file.is_file() or (file / "saved_model.pb").is_file()]
    return [(file if path.is_absolute() else file.relative_to(base)).as_posix() for file in sorted(models)]


def _read_names(file: Path, pattern: str) -> list[str]:
    """Return the public functions and classes of a Python file, which is not run; none for a compiled module.

    For a file that cannot be read, the result is the pattern: the audit then has a row that fails with the reason.
    """
    names = list_definitions(file) if file.suffix == ".py" else []
    return [pattern] if names is None else names


def _find_loaders_with_names() -> list[str]:
    return [offer.item.name for offer in list_infos(LoaderInfo) if offer.item.names is not None]


@lru_cache(maxsize=100)
def _list_library(prefix: str) -> Listing:
    """Return the names that a loader lists; it is called in a separate process."""
    loaders = _find_loaders_with_names()
    if prefix not in loaders:
        raise PlanError(
            f"{prefix + ':'!r} cannot list its models; these can: {', '.join(by_likeness(prefix, loaders))}"
        )
    command = make_command(__name__, prefix)
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)
        return msgspec.json.decode(done.stdout.rpartition(b"\n")[2], type=Listing)
    except (subprocess.TimeoutExpired, msgspec.MsgspecError):
        problem = f"the models of {prefix!r} could not be listed: the process that was asked ended without an answer"
        return Listing((), problem, FailureCode.MODEL)


def ask_loader(prefix: str) -> Listing:
    """Return the models that a loader lists, or the problem, in this process."""
    try:
        offer = find_offer(LoaderInfo, prefix)
        return Listing(() if offer is None or offer.item.names is None else tuple(sorted(offer.item.names())))
    except Exception as error:  # whatever the library does
        text = str(error) if isinstance(error, ProfilerKitError) else f"{type(error).__name__}: {error}"
        return Listing((), text, classify(error))


def main() -> None:
    """Print the models of the loader in the first argument, as JSON in the last line of standard output."""
    sys.stdout.write(f"\n{msgspec.json.encode(ask_loader(sys.argv[1])).decode()}")
