"""The code of a model: its own source files, and the packages that they import, found without running any code.

A key of a row has a digest of the files and the versions of the packages, so that a changed model is measured again and
an unchanged one is not. Imports are read from the syntax. Modules imported by a function, such as
``importlib.import_module``, imports of a compiled module, and files that code reads are not found.
"""

from __future__ import annotations

import ast
import glob
import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from profilerkit.models.loaders import list_accepting
from profilerkit.models.python_loaders import is_in_file, is_in_module, parse_python

from .modules import Module, find_own_module


@dataclass(frozen=True)
class SourceCode:
    """The code of a model.

    Args:
        digest: A digest of its own files; empty if it has none.
        imports: The top-level modules that it imports.
        preload: The modules that its loader lets be imported once for all of its models.
    """

    digest: str = ""
    imports: frozenset[str] = frozenset()
    preload: tuple[str, ...] = ()


def read_code(spec: str, folder: Path) -> SourceCode:
    """Return the code of the model that a text names; paths in the text are relative to a folder.

    - For a Python file, ``nets/net.py:build``, or a module, ``nets.net:build``: the file, and the modules without a
      version that it imports.
    - For a saved model, ``net.onnx``, or a folder, ``hf:FOLDER``: the bytes of the files. Files beside the model with
      names from ``net.`` are read too, because they may hold its weights: ``net.onnx.data``, or ``net.bin``.
    - For a model of a library: the names of its packages alone.
    """
    loaders = [offer.item for offer in list_accepting(spec)]
    preload = next((loader.preload for loader in loaders if loader.preload), ())
    source = spec.rpartition(":")[0]
    if is_in_file(spec):
        return _read_python([Module(folder / source, (folder / source).parent)], preload)
    packages = next(filter(None, ({*loader.packages, *loader.frameworks} for loader in loaders)), set[str]())
    if is_in_module(spec) and not any(loader.packages for loader in loaders):
        modules = [find_own_module(name, folder) for name in _add_packages(source)]
        own_modules = [module for module in modules if module is not None]
        if own_modules:
            return _read_python(own_modules, preload)
        packages = {*packages, source.partition(".")[0]}  # whose version identifies the code
    saved = _find_saved(spec, folder)
    return SourceCode("" if saved is None else _digest_saved(saved), frozenset(packages), preload)


def _find_saved(spec: str, folder: Path) -> Path | None:
    """Return the file or folder that a text names, whole or behind a colon; None if it names none."""
    names = [spec, spec.partition(":")[2]]
    return next((folder / name for name in names if name and (folder / name).exists()), None)


# Imports --------------------------------------------------------------------------------------------------------------


def _read_python(first: Sequence[Module], preload: tuple[str, ...]) -> SourceCode:
    """Return the code of modules and of the own modules that they import, at any depth."""
    pending = list(first)
    seen: dict[Path, _File] = {}
    imports: set[str] = set()
    own_modules: set[str] = set()
    while pending:
        file, root = pending.pop()
        if file in seen:
            continue
        try:
            content = file.read_bytes()
        except OSError:
            continue
        seen[file] = _File(file.relative_to(root), content)
        for name in _find_imports(content, file, root) if file.suffix in SOURCE_SUFFIXES else ():
            # Beside this module, or beside the model's module: Python looks there for all imports of the model.
            module = find_own_module(name, root) or find_own_module(name, first[0].folder)
            (imports if module is None else own_modules).add(name.partition(".")[0])
            if module is not None:  # else of a package, or no module: a function of one
                pending.append(module)
    return SourceCode(_digest(seen.values()), frozenset(imports - own_modules - sys.stdlib_module_names), preload)


def _add_packages(name: str) -> Iterator[str]:
    """Yield the packages that a module is in, which are run with it, and the module.

    >>> list(_add_packages("zoo.blocks.deep"))
    ['zoo', 'zoo.blocks', 'zoo.blocks.deep']
    """
    return accumulate(name.split("."), "{}.{}".format)


@lru_cache(maxsize=1000)
def _find_imports(content: bytes, file: Path, folder: Path) -> tuple[str, ...]:
    """Return the names of the modules that a source file imports, and of their packages; none if it is no Python."""
    tree = parse_python(content)
    if tree is None:  # the model's own error comes when it is loaded
        return ()
    return tuple(dict.fromkeys(name for module in _read_imports(tree, file, folder) for name in _add_packages(module)))


def _read_imports(tree: ast.AST, file: Path, folder: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere; a name imported from a module may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative: "from ..nets import net"
                with suppress(ValueError, IndexError):  # above the folder, where Python finds nothing either
                    package = ".".join(file.parents[node.level - 1].relative_to(folder).parts)
                    base = f"{package}.{base}".strip(".")
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


# Digests --------------------------------------------------------------------------------------------------------------


class _File(NamedTuple):
    """A file by its name in a folder, and its content, or a digest of the content if files may be large."""

    name: Path
    content: bytes


def _digest(files: Iterable[_File]) -> str:
    """Return the digest of several files: their names and their contents; empty if there are none."""
    digest = hashlib.sha256()
    ordered = sorted(files)
    for name, content in ordered:
        digest.update(f"{name.as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest() if ordered else ""


def _digest_saved(path: Path) -> str:
    """Return the digest of all files in a folder, or of a file and the files beside it with the same stem."""
    folder = path if path.is_dir() else path.parent
    paths = path.rglob("*") if path.is_dir() else {path, *folder.glob(f"{glob.escape(path.stem)}.*")}
    return _digest(_File(file.relative_to(folder), _digest_file(file)) for file in paths if file.is_file())


def _digest_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
