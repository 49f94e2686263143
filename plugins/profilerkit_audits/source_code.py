"""What the code of a model is: its own source files, and the packages that they import, without running any of it.

A key of a row has a digest of the files and the versions of the packages, so that a changed model is measured again and
an unchanged one is not. Imports are read from the syntax: a module that code imports by a computed name is not seen.

A package that is installed has a version, which tells its code. Code without one is read like the model's own: modules
beside it or on ``PYTHONPATH``, and packages that are installed in editable form, whose code changes under one version.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path

from profilerkit.plugging.extension import LoaderInfo
from profilerkit.plugging.offers import list_loaders
from profilerkit.plugging.python_loaders import is_in_file, is_in_module, parse_python

__all__ = ["SourceCode", "find_module", "find_versions", "read_code"]


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
    """Return the code of what a text leads to, with paths relative to a folder.

    A Python file and the modules without a version that it imports; a module, likewise; the bytes of a saved model, or
    of what lies in a folder (``hf:FOLDER``); of a model of a library nothing but the names of packages.
    """
    loaders, source, path = list(_find_loaders(spec)), spec.rpartition(":")[0], folder / spec
    preload = next((loader.preload for loader in loaders if loader.preload), ())
    if is_in_file(spec):  # nets/net.py:build
        file = folder / source
        return SourceCode(*_read_python(file, file.parent), preload)
    if not path.exists() and is_in_module(spec) and not any(loader.packages for loader in loaders):  # nets.net:build
        own_module = _find_own(source, folder)
        if own_module is None:
            return SourceCode(imports=frozenset({source.partition(".")[0]}), preload=preload)
        return SourceCode(*_read_python(*own_module), preload)
    frameworks = filter(None, ({*loader.packages, *loader.frameworks} for loader in loaders))
    saved = path if path.exists() else folder / spec.partition(":")[2]  # net.onnx, hf:FOLDER
    digest = "" if saved == folder else _digest_path(saved)
    return SourceCode(digest, frozenset(next(frameworks, ())), preload)


def _find_loaders(spec: str) -> Iterator[LoaderInfo]:
    """Yield the loaders that accept a text."""
    for offer in list_loaders():
        with suppress(Exception):
            if offer.item.accepts(spec):
                yield offer.item


def _read_python(file: Path, folder: Path) -> tuple[str, frozenset[str]]:
    """Return the digest of a file and of the own modules that it imports, at any depth, and what else they import."""
    pending, seen, imports = [(file, folder)], dict[Path, tuple[Path, bytes]](), set[str]()
    while pending:
        current, root = pending.pop()
        if current in seen:
            continue
        try:
            content = current.read_bytes()
        except OSError:
            continue
        seen[current] = current.relative_to(root), content
        for name in _find_imports(content, current, root):
            own_module = _find_own(name, root) or _find_own(name, folder)
            if own_module is None:
                imports.add(name.partition(".")[0])
                continue
            module, base = own_module
            above = [parent / "__init__.py" for parent in module.parents if base in parent.parents]
            pending += [(module, base), *((package, base) for package in above if package.is_file())]
    digest = _digest(sorted(seen.values())) if seen else ""
    return digest, frozenset(imports - sys.stdlib_module_names)


@lru_cache(maxsize=1000)
def _find_imports(content: bytes, file: Path, folder: Path) -> tuple[str, ...]:
    """Return the names of modules that a source file imports; none of one that is no Python."""
    tree = parse_python(content)
    if tree is None:  # the model's own error comes when it is loaded
        return ()
    return tuple(dict.fromkeys(_read_imports(tree, file, folder)))


def _read_imports(tree: ast.AST, file: Path, folder: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere; what is imported from one may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                with suppress(ValueError, IndexError):
                    above = file.parents[node.level - 1].relative_to(folder).parts
                    base = ".".join([*above, *([base] if base else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*")


def _find_local(name: str, folder: Path) -> Path | None:
    """Return the file of a module in a folder; None if there is none."""
    path = folder.joinpath(*name.split("."))
    for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if name and candidate.is_file():
            return candidate
    return None


def _find_own(name: str, folder: Path) -> tuple[Path, Path] | None:
    """Return the file of a module whose code no version tells, and the folder that it is imported from.

    It lies in the given folder, on ``PYTHONPATH``, or in a package that is installed in editable form. None of others.
    """
    local, top = _find_local(name, folder), name.partition(".")[0]
    if local is not None:
        return local, folder
    root = None if top in sys.stdlib_module_names or _has_version(top) else _find_root(top)
    module = None if root is None else _find_local(name, root)
    return None if module is None or root is None else (module, root)


@lru_cache(maxsize=1000)
def _has_version(top: str) -> bool:
    """Return whether the version of a package tells the code of a module: it is installed, and not in editable form.

    profilerkit itself counts as told: its version is part of every key.
    """
    names = _find_distributions().get(top, [])
    return "profilerkit" in names or (bool(names) and not any(map(_is_editable, names)))


def _is_editable(package: str) -> bool:
    origin = distribution(package).read_text("direct_url.json")
    return origin is not None and bool(json.loads(origin).get("dir_info", {}).get("editable"))


def _find_root(top: str) -> Path | None:
    """Return the folder that a module is imported from; nothing is imported for a name without a dot."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module that is there already, and does not say from where
        return None
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        return None
    return Path(next(iter(spec.submodule_search_locations or ()), spec.origin or "")).parent


def find_module(name: str, folder: Path) -> Path | None:
    """Return the Python file of a module in a folder, or of an installed one; None if there is none.

    Nothing is imported.
    """
    local = _find_local(name, folder)
    root = _find_root(name.partition(".")[0]) if local is None else None
    return local if root is None else _find_local(name, root)


def _digest(parts: Iterable[tuple[Path, bytes]]) -> str:
    """Return the digest of several files: their names and their contents."""
    digest = hashlib.sha256()
    for path, content in parts:
        digest.update(f"{path.as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _digest_path(path: Path) -> str:
    """Return the digest of a file, or of all files in a folder; nothing if there is none."""
    if path.is_file():
        return _digest_file(path)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
    return _digest((file.relative_to(path), _digest_file(file).encode()) for file in files) if files else ""


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1)
def _find_distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


@lru_cache(maxsize=1000)
def find_versions(modules: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the installed packages that modules belong to, with their versions; sorted by name.

    A module of no installed package is left out: it is in the standard library, or it is not there.
    """
    versions = {}
    for module in modules:
        for name in _find_distributions().get(module, [module]):
            with suppress(PackageNotFoundError):
                versions[name.lower()] = version(name)
    return tuple(sorted(versions.items()))
