"""The models that a pattern matches; a library is asked in a process of its own, because it may import a framework."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from ..errors import InputError, PlanError, by_likeness
from ..plugging.loaders import is_in_file, is_in_module
from ..plugging.offers import offered_loaders
from .source_code import module_file

__all__ = ["is_pattern", "names_of_loader", "specs_of"]

#: Seconds that a library may take to list its models.
PATIENCE = 300
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[2]); from {0} import main; main(sys.argv[1])"


def is_pattern(spec: str) -> bool:
    """Return whether a text has a wildcard: ``*``, ``?`` or ``[...]``."""
    return re.search(r"[*?\[]", spec) is not None


def specs_of(pattern: str, folder: Path) -> tuple[list[str], str]:
    """Return the texts that a pattern matches, sorted, and why there are none if the library is not installed.

    Patterns are for files (``nets/*.onnx``), for the public functions and classes of Python files
    (``nets/*.py:build_*``) and of modules (``package.module:build_*``), and for what a loader lists
    (``torchvision:*``). A text without a wildcard is returned as it
    is. Raises `PlanError` for a pattern that matches nothing.
    """
    if not is_pattern(pattern):
        return [pattern], ""
    matching, problem, candidates = _matching(pattern, folder)
    if problem:
        return [pattern], problem
    if not matching:
        nearest = ", ".join(by_likeness(pattern, candidates)[:5])
        none = "there is no such file or folder; paths are relative to the folder of the plan"
        raise PlanError(f"{pattern!r} matches no model; {f'the nearest are: {nearest}' if nearest else none}")
    return matching, ""


def _matching(pattern: str, folder: Path) -> tuple[list[str], str, list[str]]:
    """Return the texts that match, why the library could not be asked, and all candidates."""
    if is_in_file(pattern):
        file, _, name = pattern.rpartition(":")
        files = _files(file, folder)
        listed = [f"{each}:{public}" for each in files for public in _public_names(folder / each)]
        return [each for each in listed if fnmatchcase(each.rpartition(":")[2], name)], "", listed
    prefix = pattern.partition(":")[0]
    if is_in_module(pattern) and not is_pattern(prefix) and prefix not in _listing_loaders():
        file_of_module = module_file(prefix, folder)
        if file_of_module is not None:
            listed = [f"{prefix}:{public}" for public in _public_names(file_of_module)]
            return [each for each in listed if fnmatchcase(each, pattern)], "", listed
    if ":" in pattern and not is_pattern(prefix):
        names, problem = _listed(prefix)
        return [name for name in names if fnmatchcase(name, pattern)], problem, list(names)
    return _files(pattern, folder), "", []


def _files(pattern: str, folder: Path) -> list[str]:
    """Return the files that a pattern matches, relative to the folder as the pattern is."""
    if not is_pattern(pattern):
        return [pattern]
    path = Path(pattern)
    base = Path(path.anchor) if path.is_absolute() else folder
    relative = str(path.relative_to(path.anchor)) if path.is_absolute() else pattern
    files = sorted(each for each in base.glob(relative) if each.is_file() or (each / "saved_model.pb").is_file())
    return [each.as_posix() if path.is_absolute() else each.relative_to(base).as_posix() for each in files]


def _public_names(file: Path) -> list[str]:
    """Return the public functions and classes of a Python file, which is not run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def _listing_loaders() -> list[str]:
    return [offer.item.name for offer in offered_loaders() if offer.item.names is not None]


@lru_cache(maxsize=100)
def _listed(prefix: str) -> tuple[tuple[str, ...], str]:
    """Return what a loader lists, asked in a process of its own, and its problem, if it has one."""
    listing_loaders = _listing_loaders()
    if prefix not in listing_loaders:
        raise PlanError(
            f"{prefix + ':'!r} cannot list its models; these can: {', '.join(by_likeness(prefix, listing_loaders))}"
        )
    path = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
    command = [sys.executable, "-c", _PROGRAM.format(__name__), prefix, path]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)
        answer = json.loads(done.stdout.decode().rpartition("\n")[2] or "null")
    except (subprocess.TimeoutExpired, ValueError):
        answer = None
    if not isinstance(answer, dict):
        return (
            (),
            f"the models of {prefix!r} could not be listed: the process that was asked has ended without an answer",
        )
    return tuple(answer["names"]), answer["problem"]


def names_of_loader(prefix: str) -> dict[str, object]:
    """Return the names that a loader lists, or the problem, in this process."""
    try:
        names = next(offer.item.names for offer in offered_loaders() if offer.item.name == prefix)
        return {"names": [] if names is None else sorted(names()), "problem": ""}
    except InputError as error:
        return {"names": [], "problem": str(error)}
    except Exception as error:  # whatever the library does
        return {"names": [], "problem": f"{type(error).__name__}: {error}"}


def main(prefix: str) -> None:
    """Print what a loader lists, as JSON in the last line of standard output."""
    answer = names_of_loader(prefix)
    sys.stdout.write(f"\n{json.dumps(answer)}")
