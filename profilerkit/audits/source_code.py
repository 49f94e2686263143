"""What the code of a model is: its own source files, and the packages that they import, without running any of it.

A key of a row has a digest of the files and the versions of the packages, so that a changed model is measured again and
an unchanged one is not. Imports are read from the syntax: a module that code imports by a computed name is not seen.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from ..plugging.loaders import is_in_file, is_in_module
from ..plugging.offers import offered_loaders

__all__ = ["SourceCode", "code_of", "file_digest", "module_file", "package_versions", "preload_of"]

#: Bytes that are read of a file at once.
_PIECE = 2**20


@dataclass(frozen=True)
class SourceCode:
    """The code of a model: a digest of its files (empty if it has none), and the packages that it imports."""

    digest: str = ""
    imports: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()


def code_of(spec: str, folder: Path) -> SourceCode:
    """Return the code of what a text leads to, with paths relative to a folder.

    A Python file and the modules beside it that it imports; a module that is not installed, likewise; a saved model's
    bytes; of a model of a library nothing but the names of packages.
    """
    source = spec.rpartition(":")[0]
    if is_in_file(spec):
        return _of_python(folder / source, (folder / source).parent)
    path = folder / spec
    if path.is_file():
        return SourceCode(file_digest(path), _frameworks(spec), (path.name,))
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return SourceCode(_joint_digest(files, path), _frameworks(spec), tuple(each.name for each in files))
    if is_in_module(spec) and not _library(spec):
        module = _local_module(source, folder)
        top = frozenset({source.partition(".")[0]})
        return SourceCode(imports=top) if module is None else _of_python(module, folder)
    return SourceCode(imports=_frameworks(spec))


def _library(spec: str) -> frozenset[str]:
    for offer in offered_loaders():
        with suppress(Exception):
            if offer.item.packages and offer.item.accepts(spec):
                return frozenset(offer.item.packages)
    return frozenset()


def _frameworks(spec: str) -> frozenset[str]:
    """Return the packages that the loader of a text declares."""
    for offer in offered_loaders():
        with suppress(Exception):
            if (offer.item.packages or offer.item.frameworks) and offer.item.accepts(spec):
                return frozenset({*offer.item.packages, *offer.item.frameworks})
    return frozenset()


def preload_of(spec: str) -> tuple[str, ...]:
    """Return the modules that the loader of a text lets be imported once for all of its models."""
    for offer in offered_loaders():
        with suppress(Exception):
            if offer.item.preload and offer.item.accepts(spec):
                return offer.item.preload
    return ()


def _of_python(file: Path, folder: Path) -> SourceCode:
    """Return a file's code with that of the modules in its folder which it imports, directly or not."""
    pending, seen, imports = [file], dict[Path, bytes](), set[str]()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        try:
            seen[current] = current.read_bytes()
            tree = ast.parse(seen[current])
        except (OSError, SyntaxError, ValueError):  # the model's own error comes when it is loaded
            continue
        for name in _imported(tree, current, folder):
            module = _local_module(name, folder)
            if module is not None:
                pending += [module, *_packages_above(module, folder)]
            else:
                imports.add(name.partition(".")[0])
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(seen[path])}\0".encode() + seen[path])
    names = tuple(path.relative_to(folder).as_posix() for path in sorted(seen))
    return SourceCode(digest.hexdigest() if seen else "", frozenset(imports - sys.stdlib_module_names), names)


def _packages_above(module: Path, folder: Path) -> list[Path]:
    """Return the ``__init__.py`` of the packages that a module lies in."""
    above = [parent / "__init__.py" for parent in module.parents if folder in parent.parents]
    return [each for each in above if each.is_file()]


def _imported(tree: ast.AST, file: Path, folder: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere; what is imported from one may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = [file.parent, *file.parent.parents][node.level - 1 : node.level]
                with suppress(ValueError, IndexError):
                    parts = parents[0].relative_to(folder).parts
                    base = ".".join([*parts, *([base] if base else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def _local_module(name: str, folder: Path) -> Path | None:
    """Return the file of a module in a folder; None if there is none."""
    path = folder.joinpath(*name.split("."))
    for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if name and candidate.is_file():
            return candidate
    return None


def module_file(name: str, folder: Path) -> Path | None:
    """Return the Python file of a module in a folder, or of an installed one; None if there is none.

    Nothing is imported: the packages above the module are searched one after the other.
    """
    local = _local_module(name, folder)
    if local is not None:
        return local
    parts, path = name.split("."), None
    for count in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and count < len(parts):
            return None
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


@lru_cache(maxsize=1000)
def _digest_at(path: str, modified: int, size: int) -> str:
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's bytes, read once for each time it was written."""
    facts = path.stat()
    return _digest_at(str(path), facts.st_mtime_ns, facts.st_size)


def _joint_digest(files: list[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file_digest(file)}\0".encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


@lru_cache(maxsize=1000)
def package_versions(modules: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the installed packages that modules belong to, with their versions; sorted by name.

    A module of no installed package is left out: it is in the standard library, or it is not there.
    """
    versions = {}
    for module in modules:
        for name in _distributions().get(module, [module]):
            with suppress(PackageNotFoundError):
                versions[name.lower()] = version(name)
    return tuple(sorted(versions.items()))


def is_installed(module: str) -> bool:
    """Return whether a top-level module can be found, without importing it."""
    return module in sys.modules or importlib.machinery.PathFinder.find_spec(module) is not None
